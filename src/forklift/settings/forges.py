"""`forges.toml`: code hosts that are not the public ones, and their tokens."""

import re
from dataclasses import dataclass
from pathlib import Path

from forklift.core.secret import Secret
from forklift.errors import SetupError
from forklift.settings.addresses import fault_in_url, is_host
from forklift.settings.own_file import read_own_file
from forklift.settings.toml_file import Entry, read_entries

KEYS = ("host", "kind", "url", "token", "token_file")

_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    host: str
    """As in the remote's URL, in lower case; with the port where that has one."""
    kind: str
    """The adapter's name: gitea, github, gitlab, or one that a plugin brings."""
    url: str | None
    """Where the forge is reached when that is not `https://<host>`."""
    token: Secret | None
    """None: the token is looked for where the forge's own tools keep it."""


def read_forges(path: Path) -> tuple[ForgeSettings, ...]:
    """The file's entries in order; none when there is no file. It must be ours and 0600."""
    forges = tuple(
        _forge(entry, path.parent) for entry in read_entries(path, "forge", KEYS, private=True)
    )
    hosts = [forge.host for forge in forges]
    for host in hosts:
        if hosts.count(host) > 1:
            raise SetupError(f"{path}: the host {host} has two [[forge]] entries; remove one")
    return forges


def _forge(entry: Entry, base: Path) -> ForgeSettings:
    host, url = entry.needed("host").lower(), entry.text("url")
    if not is_host(host):
        raise entry.fault("host", "must be a host name such as git.example.org, without https://")
    if url is not None and (fault := fault_in_url(url)):
        raise entry.fault("url", fault)
    return ForgeSettings(
        host=host,
        kind=entry.needed("kind"),
        url=url.rstrip("/") if url else None,
        token=_token(entry, base),
    )


def _token(entry: Entry, base: Path) -> Secret | None:
    token, file = entry.text("token"), entry.path("token_file", base)
    if token is not None and file is not None:
        raise entry.fault("token", "and token_file are both given; keep one")
    key = "token"
    if file is not None:
        key = "token_file"
        content = read_own_file(file, private=True)
        if content is None:
            raise entry.fault(key, f"names {file}, which does not exist")
        token = content.strip()
    if token is None:
        return None
    if not _TOKEN.fullmatch(token):
        raise entry.fault(key, "holds a space, a line break or a character that no token has")
    return Secret(token)
