"""The HTTP side of a forge in this process: requests in, replies out, faults in between."""

import json
import re
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it arrived."""

    method: str
    path: str
    """As sent, still percent-encoded."""
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    def parameter(self, name: str, default: str = "") -> str:
        return urllib.parse.parse_qs(self.query).get(name, [default])[0]

    def fields(self) -> "Fields":
        return Fields.read(self.body)


class Fields:
    """A JSON object as a forge reads it: a member of the wrong type is as good as none."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    @classmethod
    def read(cls, body: bytes) -> "Fields":
        try:
            return cls._of(json.loads(body or b"{}"))
        except ValueError:
            return cls({})

    @classmethod
    def _of(cls, value: object) -> "Fields":
        return cls(cast("dict[str, object]", value) if isinstance(value, dict) else {})

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        value = self._values.get(name)
        return value if isinstance(value, str) else default

    def flag(self, name: str) -> bool:
        return self._values.get(name) is True

    def texts(self, name: str) -> list[str]:
        return [item for item in self._list(name) if isinstance(item, str)]

    def numbers(self, name: str) -> list[int]:
        return [item for item in self._list(name) if isinstance(item, int)]

    def within(self, name: str) -> "Fields":
        return self._of(self._values.get(name))

    def each(self, name: str) -> "list[Fields]":
        return [self._of(item) for item in self._list(name)]

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        return cast("list[object]", value) if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content: object = None
    """Sent as JSON, save bytes, which are sent as they are."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self) -> bytes:
        if isinstance(self.content, bytes):
            return self.content
        return b"" if self.content is None else json.dumps(self.content).encode()


class Refused(Exception):
    """Ends the handling of a request with this reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


@dataclass(slots=True)
class Fault:
    """What goes wrong with the next requests that match."""

    method: str
    path: re.Pattern[str]
    reply: Reply | None
    """None: the connection is closed without a word."""
    after_writing: bool
    times: int


class Listener:
    """A server on a free port of the loopback interface, for as long as the block lasts."""

    def __init__(self, answer: Callable[[Sent], Reply], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Sent] = []
        self._answer = answer
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False  # so that closing waits for the last answer
        self._scheme = "https" if tls else "http"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def respond(self, sent: Sent) -> Reply | None:
        with self._lock:
            self.requests.append(sent)
            fault = next((one for one in self._faults if _matches(one, sent)), None)
            if fault is not None:
                fault.times -= 1
        if fault is not None and not fault.after_writing:
            return fault.reply
        reply = self._answer(sent)
        # What the server refused it did not write, and there is nothing to lose on the way back.
        return fault.reply if fault is not None and reply.status < 400 else reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body in one packet

            def answer(self) -> None:
                url = urllib.parse.urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self._body(headers)
                reply = listener.respond(Sent(self.command, url.path, url.query, headers, body))
                self.close_connection = True
                if reply is not None:
                    self._send(reply)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 (the library's names)

            def _send(self, reply: Reply) -> None:
                content = reply.body()
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json", **reply.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

            def _body(self, headers: Mapping[str, str]) -> bytes:
                if headers.get("transfer-encoding") == "chunked":
                    return self._chunks()
                return self.rfile.read(int(headers.get("content-length", "0")))

            def _chunks(self) -> bytes:
                """Git sends large packs so."""
                body = bytearray()
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return bytes(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Tests read `requests` instead."""

        return Handler


def _matches(fault: Fault, sent: Sent) -> bool:
    return (
        fault.times > 0 and fault.method == sent.method and fault.path.search(sent.path) is not None
    )
