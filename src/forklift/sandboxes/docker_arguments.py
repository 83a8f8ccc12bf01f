"""The command line that makes a sandbox: what is not granted here does not exist in it. Pure."""

from dataclasses import dataclass
from pathlib import Path

from forklift.sandboxes.identity import GUEST_HOME
from forklift.sandboxes.port import Mount, Owner, SandboxSpec

RUN_LABEL = "forklift.run"
OWNER_LABEL = "forklift.owner"
DEADLINE_LABEL = "forklift.deadline"

_CLIENTS_OWN = frozenset({"HOME", "PATH", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"})
"""What the client itself needs from its environment: for these the guest's value is spelt out."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What the same sandbox is called on this machine."""

    seccomp: Path
    cpus: int
    """More than the machine has is refused by Docker, so less is asked for."""
    podman: bool = False


def run_detached(spec: SandboxSpec, engine: Engine) -> list[str]:
    """Start and print the id; what it prints lies in a log that cannot fill the disk."""
    size = max(spec.limits.log_bytes // 2, 20 << 10)
    # Two files of half the size: with one, the turn-over would throw away all that was said.
    log = ["--log-driver", "k8s-file", "--log-opt", f"max-size={size}"]
    if not engine.podman:
        log = ["--log-driver", "local", "--log-opt", f"max-size={size}"]
        log += ["--log-opt", "max-file=2", "--log-opt", "compress=false"]
    return ["run", "--detach", *log, *_sandbox(spec, engine)]


def run_attached(spec: SandboxSpec, engine: Engine) -> list[str]:
    """Run to the end with stdout on the client's, keeping nothing."""
    output = ["--rm", "--attach", "stdout", "--log-driver", "none"]
    return ["run", *output, *_sandbox(spec, engine)]


def client_environment(spec: SandboxSpec) -> dict[str, str]:
    """What the client must hold in its own environment, because the arguments only name it."""
    return {name: value for name, value in spec.environment.items() if name not in _CLIENTS_OWN}


def owner_label(owner: Owner) -> str:
    return f"{owner.pid}:{owner.started}:{owner.namespace}"


def read_owner_label(label: str) -> Owner | None:
    pid, _, rest = label.partition(":")
    started, _, namespace = rest.partition(":")
    if not (pid.isdecimal() and started.isdecimal() and namespace):
        return None
    return Owner(int(pid), int(started), namespace)


def _sandbox(spec: SandboxSpec, engine: Engine) -> list[str]:
    return [
        *_identity(spec),
        *_walls(spec, engine),
        *_limits(spec, engine),
        *_environment(spec),
        *[part for mount in spec.mounts for part in ("--mount", _mount(mount))],
        *("--workdir", spec.workdir),
        *("--entrypoint", spec.argv[0]),
        spec.image,
        *spec.argv[1:],
    ]


def _identity(spec: SandboxSpec) -> list[str]:
    labels = {
        RUN_LABEL: spec.run_id,
        OWNER_LABEL: owner_label(spec.owner),
        DEADLINE_LABEL: str(int(spec.deadline.timestamp())),
    }
    return [
        *("--name", spec.name),
        *("--hostname", "forklift"),
        *("--pull", "never"),
        *[part for name, value in labels.items() for part in ("--label", f"{name}={value}")],
    ]


def _walls(spec: SandboxSpec, engine: Engine) -> list[str]:
    tmp = f"rw,exec,nosuid,nodev,mode=1777,size={spec.limits.tmp_bytes}"  # builds run there: exec
    return [
        *("--network", "none"),
        *("--ipc", "private"),
        *("--cgroupns", "private"),
        *("--user", f"{spec.uid}:{spec.gid}"),
        "--read-only",
        *("--tmpfs", f"/tmp:{tmp}"),  # noqa: S108  the guest's own
        *("--tmpfs", f"/var/tmp:{tmp}"),  # noqa: S108
        *("--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges"),
        *("--security-opt", f"seccomp={engine.seccomp}"),
        "--no-healthcheck",  # an image's own check would run beside init
        *("--stop-timeout", "1"),
    ]


def _limits(spec: SandboxSpec, engine: Engine) -> list[str]:
    limits = spec.limits
    return [
        *("--pids-limit", str(limits.pids)),
        *("--memory", str(limits.memory_bytes)),
        *("--memory-swap", str(limits.memory_bytes)),  # the same number: no swap besides
        *("--shm-size", str(min(256 << 20, limits.memory_bytes // 4))),
        *("--cpus", f"{min(limits.cpus, engine.cpus):g}"),
        *("--ulimit", f"fsize={limits.file_bytes}"),
        *("--ulimit", "nofile=16384:16384"),  # more than dockerd itself has would be refused
        *("--ulimit", "core=0"),
    ]


def _environment(spec: SandboxSpec) -> list[str]:
    parts: list[str] = []
    for name in sorted({"HOME": GUEST_HOME, **spec.environment}):
        if name in _CLIENTS_OWN:
            parts += ["--env", f"{name}={spec.environment.get(name, GUEST_HOME)}"]
        else:
            parts += ["--env", name]
    return parts


def _mount(mount: Mount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    if not mount.writable:
        fields.append("readonly")
    return ",".join(_csv(field) for field in fields)


def _csv(field: str) -> str:
    """As the client's CSV reader wants it: a folder's name may hold a comma."""
    if not any(character in field for character in ',"\n'):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'
