"""A non-blocking socket that reads and writes no further than its peer keeps up."""

import asyncio
import socket
from datetime import timedelta


class Connection:
    """Nothing is buffered here: a slow peer slows the other side and costs no memory."""

    def __init__(self, sock: socket.socket, idle: timedelta) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.answered = False
        """Whether anything was written: after that no other answer can be given."""
        self._idle = idle.total_seconds()
        self._loop = asyncio.get_running_loop()

    async def read(self, limit: int, /) -> bytes:
        """Raises `TimeoutError` when the peer says nothing for the idle time."""
        async with asyncio.timeout(self._idle):
            return await self._loop.sock_recv(self.socket, limit)

    async def write(self, data: bytes) -> None:
        """Raises `TimeoutError` when the peer takes nothing for the idle time."""
        self.answered = True
        async with asyncio.timeout(self._idle):
            await self._loop.sock_sendall(self.socket, data)

    async def gone(self) -> None:
        """Until the peer has closed its end; for ever if it says more instead.

        For the time in which nobody reads: an answer that nobody waits for need not be paid for.
        """
        readable = asyncio.Event()
        self._loop.add_reader(self.socket, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(self.socket)
        try:
            more = self.socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return
        if more:
            await self._loop.create_future()

    async def hang_up(self) -> None:
        """Close so that the last answer is still read, even with unread bytes of the peer's here.

        Closing over unread bytes resets the connection, and a reset throws the answer away.
        """
        try:
            self.socket.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(1):
                while await self._loop.sock_recv(self.socket, 1 << 16):
                    pass
        except (OSError, TimeoutError):
            pass
        self.socket.close()
