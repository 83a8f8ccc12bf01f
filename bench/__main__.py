"""`make bench`: every measurement, each a ratio against a baseline of the same run."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from bench import doors, start, sync

_GOALS = {
    "sync.small.clean_merge_over_baseline": ("at most", 1.15),
    "sync.small.agent_merge_over_baseline": ("at most", 1.15),
    "sync.large.clean_merge_over_baseline": ("at most", 1.15),
    "sync.large.agent_merge_over_baseline": ("at most", 1.15),
    "doors.tunnel_throughput": ("at least", 0.5),
    "doors.added_latency_ms": ("below", 1.0),
    "start.version_over_bare_python": ("at most", 5.0),
}


def main() -> int:
    results: dict[str, float] = {}
    for part in (start, doors, sync):
        print(f"measuring {part.__name__} …", file=sys.stderr, flush=True)
        results |= part.run()
    for name, value in results.items():
        goal = " ".join(map(str, _GOALS[name])) if name in _GOALS else ""
        print(f"{name:<52}{value:>10.3f}  {goal}")
    record = {"machine": machine(), "results": {k: round(v, 4) for k, v in results.items()}}
    path = Path(__file__).with_name("results.json")
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {path.name}", file=sys.stderr)
    return 0


def machine() -> dict[str, str | int | None]:
    docker = subprocess.run(
        ["docker", "version", "--format", "{{.Server.Version}}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "docker": docker.stdout.strip(),
    }


if __name__ == "__main__":
    sys.exit(main())
