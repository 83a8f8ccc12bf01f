"""`--egress`: what a guest may download from."""

import contextlib
import ipaddress
import re
from collections.abc import Sequence

from forklift.core.text import one_line
from forklift.errors import SetupError
from forklift.sidecar.policy import EgressMode, EgressPolicy

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def egress_policy(text: str, allow_private: Sequence[str] = ()) -> EgressPolicy:
    """`open`, `none`, or the hosts that are allowed, separated by commas (`*.example.org`).

    `allow_private` are `ADDRESS:PORT` pairs that may be dialled although they are not public.
    """
    also = tuple(_checked(pair) for pair in allow_private)
    ports = tuple(sorted({80, 443, *(int(pair.rpartition(":")[2]) for pair in also)}))
    if text in {"open", "none"}:
        return EgressPolicy(EgressMode(text), ports=ports, allow_private=also)
    hosts = tuple(host.strip() for host in text.split(",") if host.strip())
    wrong = [host for host in hosts if not _HOST.fullmatch(host)]
    if wrong or not hosts:
        shown = one_line(wrong[0] if wrong else text, 60)
        raise SetupError(
            f"--egress: '{shown}' is no host; write open, none, or hosts such as"
            " files.example.org,*.example.com"
        )
    return EgressPolicy(EgressMode.ALLOWLIST, hosts, ports, also)


def _checked(pair: str) -> str:
    address, _, port = pair.rpartition(":")
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))
        if 0 < int(port) < 65536:
            return pair
    raise SetupError(f"--allow-private: '{one_line(pair, 60)}' is not like 10.1.2.3:443")
