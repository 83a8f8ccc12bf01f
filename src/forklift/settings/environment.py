"""The environment: where things lie, and which programs and images are used."""

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forklift.core.suggest import did_you_mean
from forklift.core.text import one_line
from forklift.errors import SetupError

DEFAULT_IMAGE = "forklift/kitchen-sink:latest"
VARIABLES = ("FORKLIFT_IMAGE", "FORKLIFT_EXTRA_CA", "FORKLIFT_OPENCODE_ENV", "FORKLIFT_DOCKER")
IGNORED = "FORKLIFT_DOCKER_COMMAND"


@dataclass(frozen=True, slots=True)
class Settings:
    state_root: Path
    config_root: Path
    runtime_root: Path
    """Short, private, and gone after a reboot: the sockets of living runs."""
    image: str
    extra_ca: Path | None
    opencode_env: Path
    docker: str
    """The program that speaks to the container engine: a name on PATH, or a path."""
    warnings: tuple[str, ...] = ()


def load(environ: Mapping[str, str]) -> Settings:
    """Read the environment. Makes no directory but the last resort for sockets, which must be
    made to be known as ours."""
    home = _home(environ)
    config = (_absolute(environ, "XDG_CONFIG_HOME") or home / ".config") / "forklift"
    return Settings(
        state_root=(_absolute(environ, "XDG_STATE_HOME") or home / ".local/state") / "forklift",
        config_root=config,
        runtime_root=_runtime_root(environ),
        image=_word(environ, "FORKLIFT_IMAGE") or DEFAULT_IMAGE,
        extra_ca=_path(environ, "FORKLIFT_EXTRA_CA", home),
        opencode_env=_path(environ, "FORKLIFT_OPENCODE_ENV", home) or config / "opencode.env",
        docker=_word(environ, "FORKLIFT_DOCKER") or "docker",
        warnings=tuple(_warnings(environ)),
    )


def _home(environ: Mapping[str, str]) -> Path:
    # cron and systemd may start us without HOME.
    return _absolute(environ, "HOME") or Path(pwd.getpwuid(os.getuid()).pw_dir)


def _absolute(environ: Mapping[str, str], name: str) -> Path | None:
    """The XDG specification: relative paths are invalid and ignored."""
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else None


def _path(environ: Mapping[str, str], name: str, home: Path) -> Path | None:
    value = environ.get(name, "")
    if value.startswith("~/"):  # whoever sets variables without a shell gets no expansion
        return home / value[2:]
    return Path(value).absolute() if value else None


def _word(environ: Mapping[str, str], name: str) -> str | None:
    value = environ.get(name, "")
    if value.startswith("-") or any(c.isspace() or not c.isprintable() for c in value):
        shown = one_line(value, 80)
        raise SetupError(f"{name} is '{shown}': it may not start with '-' or hold spaces")
    return value or None


def _runtime_root(environ: Mapping[str, str]) -> Path:
    """XDG_RUNTIME_DIR, or (cron sets none) what systemd would have given, or one in /tmp."""
    given, uid = _absolute(environ, "XDG_RUNTIME_DIR"), os.getuid()
    for base in (given, Path(f"/run/user/{uid}")):
        if base and not _why_not_ours(base):
            return base / "forklift"
    shared = _absolute(environ, "TMPDIR") or Path("/tmp")  # noqa: S108 - checked by what follows
    return private_fallback(shared / f"forklift-{uid}")


def private_fallback(directory: Path) -> Path:
    """Make the directory, or know it for ours: anybody may have been quicker in a shared place."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"no place for sockets: {directory} cannot be made ({error.strerror}); "
            "set XDG_RUNTIME_DIR to a directory of yours with mode 0700"
        ) from error
    if reason := _why_not_ours(directory):
        raise SetupError(
            f"{directory} {reason}, so it is not safe for sockets; remove it, or "
            "set XDG_RUNTIME_DIR to a directory of yours with mode 0700"
        )
    return directory


def _why_not_ours(directory: Path) -> str | None:
    try:
        found = directory.lstat()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_uid != os.getuid():
        return "belongs to another user"
    return "is open to other users" if found.st_mode & 0o077 else None


def _warnings(environ: Mapping[str, str]) -> Iterator[str]:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        value = environ.get(name, "")
        if value and not value.startswith("/"):
            yield f"{name} is ignored: '{one_line(value, 80)}' is not an absolute path"
    runtime = _absolute(environ, "XDG_RUNTIME_DIR")
    if runtime and (reason := _why_not_ours(runtime)):
        yield f"XDG_RUNTIME_DIR is ignored: {one_line(str(runtime))} {reason}"
    for name in sorted(environ):
        if name == IGNORED:
            yield f"{IGNORED} is ignored: the sandbox runs the image's own harness and nothing else"
        elif name.startswith("FORKLIFT_") and name not in VARIABLES:
            hint = did_you_mean(name, VARIABLES)
            yield f"{one_line(name, 80)} is no setting and is ignored{hint}"
