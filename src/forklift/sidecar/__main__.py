"""`python -I -m forklift.sidecar ROLE`: one sidecar process, started by `launch` alone."""

import os
import sys


def main(role: str) -> int:
    # Each role imports only what it needs: a run waits for its doors, and a process that cannot
    # name the model's code cannot be talked into running it.
    try:
        if role == "egress":
            from forklift.sidecar import egress_process  # noqa: PLC0415

            egress_process.run()
        elif role == "model":
            from forklift.sidecar import model_process  # noqa: PLC0415

            model_process.run()
        else:
            print(f"no sidecar is called {role}", file=sys.stderr)
            return 2
    except (OSError, ValueError) as error:
        print(f"the {role} door cannot open: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stderr.flush()
    # Not sys.exit: threads of tunnels that the kernel holds must not delay the end.
    os._exit(code)
