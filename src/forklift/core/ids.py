"""Names for projects, forks, runs and branches: each a valid part of a path and of a Git ref."""

import hashlib
import re
from collections.abc import Callable
from datetime import datetime

HEAD_PREFIX = "forklift/upstream-"
"""Every branch that a sync pushes starts so: it is how the open pull request is found again."""

_NAMELESS = "project"
_LONGEST = 24
"""A run id is part of the paths of sockets, which end at 107 bytes."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_SCP = re.compile(r"(?:[^@/:]*@)?([^/:]+):(.*)", re.DOTALL)
_USUAL_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}


def project_name(path_or_url: str) -> str:
    """The last part of a checkout's path or a remote's URL, made safe; never empty."""
    whole = re.sub(r"(/\.git)?/*$", "", path_or_url.strip().replace("\\", "/"))
    last = re.split(r"[/:]", whole)[-1].removesuffix(".git")
    return _safe(last) or _NAMELESS


def fork_key(project: str, origin_url: str) -> str:
    """One name per fork, however its URL is spelled: with or without a login, by ssh or https."""
    digest = hashlib.sha256(_normalised(origin_url).encode("utf-8", "surrogateescape"))
    return f"{project_name(project)}-{digest.hexdigest()[:10]}"


def run_id(project: str, at: datetime, taken: Callable[[str], bool]) -> str:
    """`<project>_<YYYYMMDD_HHMMSS>`; a second one in the same second ends in `-2`, and so on."""
    first = f"{project_name(project)}_{at:%Y%m%d_%H%M%S}"
    name, number = first, 1
    while taken(name):
        number += 1
        name = f"{first}-{number}"
    return name


def head_branch(at: datetime, run: str) -> str:
    """The branch that a run pushes: `forklift/upstream-<YYYYMMDD>-<eight hex digits>`."""
    return f"{HEAD_PREFIX}{at:%Y%m%d}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"


def _safe(name: str) -> str:
    """Git forbids `..`, a dot at either end and `.lock`; a leading dash reads as an option."""
    name = re.sub(r"\.{2,}", ".", _UNSAFE.sub("-", name))[:_LONGEST]
    while (shorter := name.strip(".-").removesuffix(".lock")) != name:
        name = shorter
    return name


def _normalised(url: str) -> str:
    text = url.strip()
    if found := _URL.fullmatch(text):
        scheme, authority, path = found[1].lower(), found[2], found[3]
        host = authority.rpartition("@")[2].lower().removesuffix(f":{_USUAL_PORTS.get(scheme)}")
        return f"{host}/{_trimmed(path).lstrip('/')}" if host else _trimmed(path)
    if found := _SCP.fullmatch(text):
        return f"{found[1].lower()}/{_trimmed(found[2]).lstrip('/')}"
    return _trimmed(text)


def _trimmed(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
