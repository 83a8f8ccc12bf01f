"""Which addresses are the public internet. Everything that is not provably so is refused."""

import ipaddress
import socket

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# `ipaddress.is_global` is not enough: it lets multicast and 6to4 pass, and differs by Python.
_IPV4 = [
    (ipaddress.IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared with the provider's own network"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata service"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_IPV6_GLOBAL = ipaddress.IPv6Network("2000::/3")
_IPV6 = [
    (ipaddress.IPv6Network(network), why)
    for network, why in (
        ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "for documentation"),
    )
]
# Only for a better message: all of them lie outside 2000::/3 and are refused anyway.
_IPV6_OUTSIDE = [
    (ipaddress.IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4 address in disguise"),
        ("::/96", "an IPv4 address in disguise"),
        ("64:ff9b::/96", "a NAT64 translation"),
        ("64:ff9b:1::/48", "a NAT64 translation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
]


def refusal(address: IPAddress) -> str | None:
    """What kind of address it is that may not be dialled, or None for a public one."""
    if isinstance(address, ipaddress.IPv4Address):
        return next((why for network, why in _IPV4 if address in network), None)
    if address.scope_id is not None:
        return "bound to one network card"
    if address in _IPV6_GLOBAL:
        return next((why for network, why in _IPV6 if address in network), None)
    return next((why for network, why in _IPV6_OUTSIDE if address in network), "reserved")


def is_this_machine(address: IPAddress, port: int) -> bool:
    """Whether it is one of the host's own, public or not: asked of the kernel, nothing is sent.

    Connecting a UDP socket only chooses the route; towards itself a machine speaks as the very
    address it is spoken to.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), port))
        except OSError:
            return False  # no route: dialling it will fail with the reason
        return probe.getsockname()[0] == str(address)


def family(address: IPAddress) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6
