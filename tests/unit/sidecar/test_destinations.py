import pytest

from forklift.sidecar.destinations import read_destination, refusal
from forklift.sidecar.http1 import Refused
from forklift.sidecar.policy import EgressMode, EgressPolicy


@pytest.mark.parametrize(
    "host",
    [
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.01",
        "2130706433",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "example.0x1",
        "example.1",
        "example.com.",
        "1.1.1.1.",
        "localhost",
        "a.localhost",
        "metadata.google.internal",
        "printer.local",
        "intranet",
        "-x.example.com",
        "a..example.com",
        ".example.com",
        "exa mple.com",
        "example.com/",
        "user@example.com",
        "example.com%00",
        "ex\u00e4mple.com",
        "[fe80::1%eth0]",
        "[::1",
        "[::ffff:127.0.0.1%1]",
        "a" * 64 + ".example.com",
        "a." * 127 + "com",
        "",
    ],
)
def test_refuses_hosts_that_two_resolvers_could_read_differently(host: str) -> None:
    with pytest.raises(Refused):
        read_destination(f"{host}:80")


@pytest.mark.parametrize("port", ["", "0", "65536", "99999999", "-1", "+80", "80x", " 80"])
def test_refuses_ports_that_are_none(port: str) -> None:
    with pytest.raises(Refused):
        read_destination(f"example.com:{port}")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM:443", "example.com"),
        ("files_1.python-hosted.example.org:443", "files_1.python-hosted.example.org"),
        ("1.1.1.1:443", "1.1.1.1"),
        ("[2606:4700:0000::1111]:443", "2606:4700::1111"),
        ("xn--bcher-kva.example:443", "xn--bcher-kva.example"),
    ],
)
def test_reads_names_and_addresses_in_one_canonical_form(text: str, host: str) -> None:
    assert read_destination(text).host == host


def test_an_allowlist_matches_whole_names_and_whole_endings() -> None:
    policy = EgressPolicy(EgressMode.ALLOWLIST, hosts=("wheels.example", "*.packages.example"))

    def allowed(host: str) -> bool:
        return refusal(policy, read_destination(f"{host}:443")) is None

    assert allowed("wheels.example")
    assert allowed("cdn.packages.example")
    assert not allowed("npmjs.org")
    assert not allowed("evil-npmjs.org")
    assert not allowed("wheels.example.evil.com")
    assert not allowed("evilwheels.example")


def test_only_the_policys_ports_are_open() -> None:
    assert refusal(EgressPolicy(), read_destination("example.com:443")) is None
    assert refusal(EgressPolicy(), read_destination("example.com:22")) == "port 22 is not open"


def test_mode_none_lets_nothing_through() -> None:
    policy = EgressPolicy(EgressMode.NONE)
    assert refusal(policy, read_destination("example.com:443")) == "this run has no network"
