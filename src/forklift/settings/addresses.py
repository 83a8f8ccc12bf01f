"""Checking addresses that a person wrote into a configuration file."""

import re
from urllib.parse import urlsplit

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


def fault_in_url(url: str) -> str | None:
    """Why this cannot be a server's address, without showing it: it may hold a password."""
    if _UNPRINTABLE.search(url) or "\\" in url:
        return "holds a space or a character that must be escaped"
    try:
        parts = urlsplit(url)
        port_is_sane = parts.port is None or parts.port > 0
    except ValueError:
        return "is not a valid URL"
    if parts.scheme not in {"http", "https"}:
        return "must begin with https:// or http://"
    if "@" in parts.netloc:
        return "holds a user name or password; write the address without them"
    if "?" in url or "#" in url:
        return "has a query (?) or a fragment (#); write the address without it"
    if not port_is_sane or not is_host(parts.netloc):
        return "names no valid host"
    return None


def is_host(host: str) -> bool:
    """Whether it is a host name or an address, with or without a port."""
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    return bool(_HOST.fullmatch(name)) and len(name) <= 253 and (not port or int(port) < 65536)
