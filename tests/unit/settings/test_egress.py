"""`--egress` as it is written."""

import pytest

from forklift.errors import SetupError
from forklift.settings import egress_policy
from forklift.sidecar.policy import EgressMode


@pytest.mark.parametrize(
    ("text", "mode", "hosts"),
    [
        ("open", EgressMode.OPEN, ()),
        ("none", EgressMode.NONE, ()),
        ("a.example, *.b.example", EgressMode.ALLOWLIST, ("a.example", "*.b.example")),
    ],
)
def test_egress_is_open_none_or_a_list_of_hosts(
    text: str, mode: EgressMode, hosts: tuple[str, ...]
) -> None:
    policy = egress_policy(text)
    assert (policy.mode, policy.hosts) == (mode, hosts)


@pytest.mark.parametrize("text", ["", ",", "a b", "https://a.example", "-x", "a..\x1b"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="is no host"):
        egress_policy(text)
