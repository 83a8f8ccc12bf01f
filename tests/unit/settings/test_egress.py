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


def test_a_private_mirror_is_an_address_and_a_port() -> None:
    policy = egress_policy("open", ["10.1.2.3:8443"])
    assert policy.allow_private == ("10.1.2.3:8443",)
    assert 8443 in policy.ports


@pytest.mark.parametrize("pair", ["mirror.example:443", "10.1.2.3", "10.1.2.3:0", "10.1.2.3:x"])
def test_a_private_mirror_that_is_no_address_and_port_is_refused(pair: str) -> None:
    with pytest.raises(SetupError, match="is not like"):
        egress_policy("open", [pair])
