"""Where a guest may want to go: reading names and ports, and whether the policy lets them."""

import ipaddress
import re
from dataclasses import dataclass

from forklift.sidecar.addresses import IPAddress
from forklift.sidecar.http1 import Refused
from forklift.sidecar.policy import EgressMode, EgressPolicy

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LOCAL_ENDINGS = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa")


@dataclass(frozen=True, slots=True)
class Destination:
    host: str
    """A name in lower case, or an address in its one canonical spelling."""
    port: int
    literal: IPAddress | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_destination(authority: str, default_port: int | None = None) -> Destination:
    """From `host:port`; whatever two resolvers could read differently is refused."""
    found = _AUTHORITY.fullmatch(authority)
    if not found:
        raise Refused(400, "a host that cannot be read")
    host, digits = found[1].lower(), found[2]
    port = int(digits) if digits else default_port
    if port is None or not 0 < port < 65536:
        raise Refused(400, "a port is needed, 1 to 65535")
    literal = _literal(host)
    if literal is None:
        _check_name(host)
    return Destination(host if literal is None else str(literal), port, literal)


def refusal(policy: EgressPolicy, destination: Destination) -> str | None:
    """Why the policy lets nobody go there, decided before any name is looked up; None if it may."""
    if policy.mode is EgressMode.NONE:
        return "this run has no network"
    if destination.port not in policy.ports and not any(
        port == destination.port for _, port in private_pairs(policy)
    ):
        return f"port {destination.port} is not open"
    if policy.mode is EgressMode.ALLOWLIST and not _listed(policy, destination.host):
        return "it is not on the list of allowed hosts"
    return None


def private_pairs(policy: EgressPolicy) -> frozenset[tuple[IPAddress, int]]:
    """The addresses that the operator opened in spite of not being public."""
    return frozenset(_pair(text) for text in policy.allow_private)


def _pair(text: str) -> tuple[IPAddress, int]:
    destination = read_destination(text)
    if destination.literal is None:
        raise Refused(400, f"allow_private: {text} is not ADDRESS:PORT")
    return destination.literal, destination.port


def _literal(host: str) -> IPAddress | None:
    """The address that the host spells out, or None for a name."""
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1])
        if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            # 127.1, 0177.0.0.1, 0x7f000001, 2130706433: libc would take them for addresses.
            return ipaddress.IPv4Address(host)
    except ValueError:
        raise Refused(403, "an address in an unusual spelling") from None
    return None


def _check_name(host: str) -> None:
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise Refused(400, "a host that cannot be read")
    if "." not in host or any(host == end or host.endswith("." + end) for end in _LOCAL_ENDINGS):
        raise Refused(403, "a name of the local network")


def _listed(policy: EgressPolicy, host: str) -> bool:
    return any(
        host.endswith(entry[1:]) if entry.startswith("*.") else host == entry
        for entry in map(str.lower, policy.hosts)
    )
