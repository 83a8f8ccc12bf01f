"""From a name to a connected socket: the address that was checked is the address that is dialled.

A name is looked up once. Of a mixed answer only the public addresses are dialled: on networks
with NAT64 every name also has a translated address, so refusing the whole answer would refuse
the whole internet there, and it would protect nothing more.
"""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta

from forklift.sidecar import addresses
from forklift.sidecar.addresses import IPAddress
from forklift.sidecar.destinations import Destination
from forklift.sidecar.http1 import Refused

Resolver = Callable[[str], Awaitable[list[IPAddress]]]

_MOST_ADDRESSES = 6


async def ask_system(name: str) -> list[IPAddress]:
    """The host's own resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


class Dialer:
    def __init__(
        self,
        opened: frozenset[tuple[IPAddress, int]],
        ports: tuple[int, ...],
        limit: timedelta,
        resolve: Resolver,
    ) -> None:
        self._opened = opened
        self._ports = ports
        self._limit = limit.total_seconds()
        self._resolve = resolve

    async def dial(self, destination: Destination) -> socket.socket:
        """A connected non-blocking socket, or `Refused` with the HTTP status that says why."""
        allowed, why_not = self._sort(await self._look_up(destination), destination.port)
        if not allowed:
            raise Refused(403, f"its address is {why_not}")
        fault = "no address answers"
        for address in allowed[:_MOST_ADDRESSES]:
            try:
                return await self._connect(address, destination.port)
            except TimeoutError:
                fault = "it does not answer"
            except OSError as error:
                # asyncio's own text would repeat the address.
                fault = os.strerror(error.errno) if error.errno else "it cannot be reached"
        raise Refused(504 if fault == "it does not answer" else 502, fault)

    async def _look_up(self, destination: Destination) -> list[IPAddress]:
        if destination.literal is not None:
            return [destination.literal]
        try:
            async with asyncio.timeout(self._limit):
                return await self._resolve(destination.host)
        except TimeoutError:
            raise Refused(504, "the name's lookup took too long") from None
        except (OSError, UnicodeError):
            raise Refused(502, "the name is not known") from None

    def _sort(self, found: list[IPAddress], port: int) -> tuple[list[IPAddress], str]:
        allowed: list[IPAddress] = []
        why_not = "not known"
        for address in found:
            why = self._refusal(address, port)
            if why is None:
                allowed.append(address)
            else:
                why_not = why
        return allowed, why_not

    def _refusal(self, address: IPAddress, port: int) -> str | None:
        if (address, port) in self._opened:
            return None
        if port not in self._ports:
            return f"not one for which port {port} is open"
        if why := addresses.refusal(address):
            return why
        return "this machine's own" if addresses.is_this_machine(address, port) else None

    async def _connect(self, address: IPAddress, port: int) -> socket.socket:
        sock = socket.socket(addresses.family(address), socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(self._limit):
                await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
            self._look_again(sock, address, port)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return sock

    def _look_again(self, sock: socket.socket, address: IPAddress, port: int) -> None:
        """Now that the kernel has chosen the route: towards itself both ends are one."""
        to_itself = sock.getsockname()[0] == sock.getpeername()[0]
        if to_itself and (address, port) not in self._opened:
            raise Refused(403, "its address is this machine's own")
