import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.sidecar import addresses

PUBLIC = [
    "1.1.1.1",
    "93.184.216.34",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "168.63.129.15",
    "198.17.255.255",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::200e",
    "2001:4860:4860::8888",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::10.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_lets_public_addresses_through(text: str) -> None:
    assert addresses.refusal(ipaddress.ip_address(text)) is None


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_refuses_every_address_that_is_not_public(text: str) -> None:
    assert addresses.refusal(ipaddress.ip_address(text))


@given(st.ip_addresses())
def test_never_lets_through_what_python_calls_special(address: addresses.IPAddress) -> None:
    if addresses.refusal(address) is None:
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(st.ip_addresses(v=4))
def test_refuses_every_ipv6_form_that_carries_an_ipv4_address(v4: ipaddress.IPv4Address) -> None:
    number = int(v4)
    carriers = [
        number,
        (0xFFFF << 32) | number,
        int(ipaddress.IPv6Address("64:ff9b::")) | number,
        int(ipaddress.IPv6Address("64:ff9b:1::")) | number,
        (0x2002 << 112) | (number << 80),
        int(ipaddress.IPv6Address("2001::")) | (number ^ 0xFFFFFFFF),
    ]
    assert all(addresses.refusal(ipaddress.IPv6Address(carrier)) for carrier in carriers)


@pytest.mark.parametrize("text", ["127.0.0.1", "::1"])
def test_knows_this_machines_own_addresses_without_sending_anything(text: str) -> None:
    assert addresses.is_this_machine(ipaddress.ip_address(text), 80)


def test_a_foreign_address_is_not_this_machine() -> None:
    assert not addresses.is_this_machine(ipaddress.ip_address("192.0.2.77"), 80)
