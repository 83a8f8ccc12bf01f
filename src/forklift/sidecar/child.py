"""The host's side of one sidecar process: start it, hear it, end it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

from forklift.core.text import one_line
from forklift.errors import ForkliftError, InternalError, SetupError
from forklift.sidecar import handover
from forklift.sidecar.handover import Handover
from forklift.sidecar.json_value import Object, as_object, load
from forklift.sidecar.process import STOP
from forklift.sidecar.report import MAX_LINE

_READY = 15.0
_ENDS_WITHIN = 0.9
_MAX_WORDS = 4 << 10
_BAD_CONFIGURATION = 2


class Child:
    """A sidecar. `died` is done, with a reason, once it has ended without being asked to."""

    def __init__(self, role: str, hear: Callable[[str, Object], None]) -> None:
        self.role = role
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._hear = hear
        self._ready = asyncio.Event()
        self._stopping = False
        self._last_words = b""
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, told: Handover) -> None:
        """Until its socket accepts. Raises `SetupError` when what it was told cannot work."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", "forklift.sidecar", self.role),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Nothing of the caller's environment: tokens and proxies live there.
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            # Ctrl-C goes to the terminal's whole group; the host decides when a door closes.
            start_new_session=True,
            limit=MAX_LINE,
        )
        self._listening = asyncio.create_task(self._listen(self._process))
        self._tell(handover.write(told))
        await self._until_ready()

    async def stop(self) -> None:
        """Ask it to record what is open and end; a second later it has ended either way."""
        if self._process is None or self._listening is None:
            return
        self._stopping = True
        self._tell(STOP + b"\n")
        _, late = await asyncio.wait({self._listening}, timeout=_ENDS_WITHIN)
        if late:
            self._kill()
            await self._listening
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def _until_ready(self) -> None:
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait(
                {ready, self.died}, timeout=_READY, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ready.cancel()
        if self._ready.is_set():
            return
        if not self.died.done():
            raise InternalError(
                f"the {self.role} door did not open within {_READY:.0f} s; run again with --debug"
            )
        if self._process and self._process.returncode == _BAD_CONFIGURATION:
            raise SetupError(self.died.result())
        raise InternalError(f"{self.died.result()}; run again with --debug")

    def _tell(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(data)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Everything it says, until it has ended. What it may not say ends it."""
        assert process.stdout is not None  # noqa: S101  # both are pipes, see start
        assert process.stderr is not None  # noqa: S101
        words = asyncio.create_task(self._hear_last_words(process.stderr))
        fault = await self._hear_lines(process.stdout)
        if fault:
            self._kill()
        await words
        code = await process.wait()
        if not self._stopping and not self.died.done():
            self.died.set_result(fault or self._why(code))

    async def _hear_lines(self, out: asyncio.StreamReader) -> str | None:
        while True:
            try:
                line = await out.readline()
                if not line:
                    return None
                self._take(as_object(load(line)))
            except (ValueError, KeyError, TypeError):
                return f"the {self.role} door said something that cannot be understood"
            except (OSError, ForkliftError) as error:
                return f"what the {self.role} door did cannot be recorded: {error}"

    def _take(self, message: Object) -> None:
        if message.get("ready") is True:
            self._ready.set()
        else:
            self._hear(self.role, message)

    async def _hear_last_words(self, err: asyncio.StreamReader) -> None:
        while data := await err.read(_MAX_WORDS):
            self._last_words = (self._last_words + data)[-_MAX_WORDS:]

    def _why(self, code: int) -> str:
        lines = [line for line in self._last_words.decode(errors="replace").splitlines() if line]
        if code == _BAD_CONFIGURATION and lines:
            return one_line(lines[-1], 400)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        said = f": {one_line(lines[-1])}" if lines else ""
        return f"the {self.role} door {how}{said}"

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
