"""A model server that follows a script: for tests and demonstrations, and it says so.

    with ScriptedModel([Run("make test"), Say("All green.")]) as server:
        ...  # server.base_url, server.requests

    python -m forklift.testing.scripted_model --script FILE [--port N] [--key KEY]

Speaks OpenAI's chat completions and responses and Anthropic's messages, streamed and whole.
"""

import argparse
import contextlib
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from forklift.errors import ForkliftError
from forklift.sidecar.json_value import Object, as_list, as_object, dump, load
from forklift.testing import scripted_model_wires as wires
from forklift.testing.scripted_model_script import (
    TITLE,
    Fail,
    Flood,
    Hang,
    Raw,
    Run,
    Say,
    Step,
    Turn,
    next_step,
    read_script,
)
from forklift.testing.scripted_model_wires import Reply

__all__ = ["Fail", "Flood", "Hang", "Raw", "Recorded", "Run", "Say", "ScriptedModel", "Turn"]

KEY = "scripted-model-key"
_CHAT, _RESPONSES, _MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
_COUNT = "/v1/messages/count_tokens"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Object


class ScriptedModel:
    def __init__(
        self, script: Sequence[Turn], *, key: str = KEY, port: int = 0, title: str | None = TITLE
    ) -> None:
        """`title` answers requests without tools, which take no turn; None: they do take turns."""
        self.requests: list[Recorded] = []
        self.key = key
        self._script = tuple(script)
        self._title = title
        self._failures: dict[int, int] = {}
        self._ending = threading.Event()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def step(self, path: str, body: Object) -> Step:
        if self._title is not None and not as_list(body.get("tools")):
            return Step(0, 0.0, Say(self._title))
        taken = _taken(path, body)
        return next_step(self._script, taken, self._failures)

    def silence(self, seconds: float) -> bool:
        """Whether the server is still wanted after so long."""
        return not self._ending.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], scripted: ScriptedModel) -> None:
        super().__init__(address, _Handler)
        self.scripted = scripted

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]  # passed on as it came


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "ScriptedModel"
    sys_version = "(no real model)"

    def __init__(self, request: object, address: object, server: socketserver.BaseServer) -> None:
        assert isinstance(server, _Server)
        self._scripted = server.scripted
        super().__init__(request, address, server)  # pyright: ignore[reportArgumentType]  # as the server hands them over

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base names it
        """Quiet: what was asked is in `requests`."""

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        if self.path.partition("?")[0] == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            self._error(404, f"the scripted model has no {self.path}")

    def do_POST(self) -> None:
        body = as_object(load(self._read_body()))
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._scripted.requests.append(Recorded(path, headers, body))
        shown = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if shown != self._scripted.key:
            self._error(401, "the scripted model wants another key")
        elif path == _COUNT:
            self._json(200, {"input_tokens": 1000})
        elif path in {_CHAT, _RESPONSES, _MESSAGES}:
            self._follow(path, body, self._scripted.step(path, body))
        else:
            self._error(404, f"the scripted model has no {path}")

    def _follow(self, path: str, body: Object, step: Step) -> None:
        if step.silence and not self._scripted.silence(step.silence):
            self.close_connection = True
            return
        model = f"scripted:{body.get('model')}"
        match step.answer:
            case Fail(status, text):
                self._send(status, text.encode())
            case Raw(text, kind, status):
                self._send(status, text.encode(), kind)
            case Say(text):
                self._reply(path, body, Reply(step.number, model, wires.pieces(text)))
            case Flood(size):
                self._reply(path, body, Reply(step.number, model, wires.flood(size)))
            case Run(command):
                call = wires.shell_call(body, command)
                if call is None:
                    self._error(400, "the scripted model was offered no shell tool")
                else:
                    self._reply(path, body, Reply(step.number, model, call=call))

    def _reply(self, path: str, body: Object, reply: Reply) -> None:
        if body.get("stream") is True:
            self._stream(_streamed(path, body, reply))
        else:
            self._json(200, _whole(path, reply))

    def _stream(self, events: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = bytearray()
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _error(self, status: int, message: str) -> None:
        self._json(status, {"type": "error", "error": {"type": "error", "message": message}})

    def _json(self, status: int, told: Object) -> None:
        self._send(status, dump(told))

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _taken(path: str, body: Object) -> int:
    if path == _CHAT:
        return wires.chat_taken(body)
    return wires.responses_taken(body) if path == _RESPONSES else wires.messages_taken(body)


def _whole(path: str, reply: Reply) -> Object:
    if path == _CHAT:
        return wires.chat_whole(reply)
    return wires.responses_whole(reply) if path == _RESPONSES else wires.messages_whole(reply)


def _streamed(path: str, body: Object, reply: Reply) -> Iterator[bytes]:
    if path == _CHAT:
        return wires.chat_stream(reply, body)
    return wires.responses_stream(reply) if path == _RESPONSES else wires.messages_stream(reply)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A model server that follows a script.")
    parser.add_argument("--script", type=Path, required=True, help="a JSON list of turns")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default=KEY)
    given = parser.parse_args(arguments)
    try:
        script = read_script(given.script.read_text())
    except (OSError, ForkliftError) as error:
        print(error, file=sys.stderr)
        return 1
    with ScriptedModel(script, key=given.key, port=given.port) as server:
        print(server.base_url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
