"""The relays between a loopback port and a door."""

import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from forklift.guest.init import CONNECTIONS, Relay

Serve = Callable[[socket.socket], None]


@pytest.fixture
def door(tmp_path: Path) -> Generator[Callable[[Serve], int]]:
    """Puts a server behind a relay; the relay's port."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "d"))
    listener.listen(1024)

    def accept(serve: Serve) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def behind(serve: Serve) -> int:
        threading.Thread(target=accept, args=(serve,), daemon=True).start()
        relay = Relay(0, str(tmp_path / "d"))
        relay.start()
        return relay.port

    yield behind
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 20), b""))


def echo_after_the_end(connection: socket.socket) -> None:
    with connection:
        connection.sendall(read_all(connection))


def test_both_directions_pass_whole_and_a_half_close_passes_alone(
    door: Callable[[Serve], int],
) -> None:
    port = door(echo_after_the_end)
    sent = bytes(range(256)) * 20000
    with connect(port) as client:
        threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(1))).start()
        assert read_all(client) == sent


def test_the_servers_half_close_lets_the_client_go_on(door: Callable[[Serve], int]) -> None:
    heard: list[bytes] = []
    done = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"goodbye")
            connection.shutdown(socket.SHUT_WR)
            heard.append(read_all(connection))
            done.set()

    with connect(door(serve)) as client:
        assert read_all(client) == b"goodbye"
        client.sendall(b"one more thing")
        client.shutdown(socket.SHUT_WR)
        assert done.wait(30)
    assert heard == [b"one more thing"]


def test_a_connection_that_breaks_off_is_passed_on(door: Callable[[Serve], int]) -> None:
    with connect(door(lambda connection: connection.close())) as client:
        assert read_all(client) == b""


def test_a_door_that_is_missing_closes_the_connection(tmp_path: Path) -> None:
    relay = Relay(0, str(tmp_path / "nobody"))
    relay.start()
    with connect(relay.port) as client:
        assert read_all(client) == b""


def test_more_clients_than_the_bound_wait_their_turn(door: Callable[[Serve], int]) -> None:
    port = door(echo_after_the_end)
    clients = [connect(port) for _ in range(CONNECTIONS + 40)]
    answers: list[bytes] = []
    for number, client in enumerate(clients):
        client.sendall(str(number).encode())
        client.shutdown(socket.SHUT_WR)
    for client in clients:
        with client:
            answers.append(read_all(client))
    assert answers == [str(number).encode() for number in range(len(clients))]
