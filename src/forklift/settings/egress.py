"""`--egress`: what a guest may download from."""

import re

from forklift.core.text import one_line
from forklift.errors import SetupError
from forklift.sidecar.policy import EgressMode, EgressPolicy

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def egress_policy(text: str) -> EgressPolicy:
    """`open`, `none`, or the hosts that are allowed, separated by commas (`*.example.org`)."""
    if text in {"open", "none"}:
        return EgressPolicy(EgressMode(text))
    hosts = tuple(host.strip() for host in text.split(",") if host.strip())
    wrong = [host for host in hosts if not _HOST.fullmatch(host)]
    if wrong or not hosts:
        shown = one_line(wrong[0] if wrong else text, 60)
        raise SetupError(
            f"--egress: '{shown}' is no host; write open, none, or hosts such as"
            " files.example.org,*.example.com"
        )
    return EgressPolicy(EgressMode.ALLOWLIST, hosts)
