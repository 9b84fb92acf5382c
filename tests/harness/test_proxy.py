"""The proxy does what it says to real connections, so that tests of faults can trust it."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until


class Echo:
    """A server that sends everything back, and remembers how connections ended."""

    def __init__(self):
        self.ends = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"
        self._stop = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self):
        while True:
            link, _ = self._listener.accept()
            if self._stop:
                link.close()
                return
            self._threads.append(threading.Thread(target=self._echo, args=(link,)))
            self._threads[-1].start()

    def _echo(self, link):
        with link:
            try:
                while data := link.recv(65536):
                    link.sendall(data)
                self.ends.append("end")
            except OSError as error:
                self.ends.append(type(error).__name__)

    def close(self):
        self._stop = True
        socket.create_connection(self._listener.getsockname()).close()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()


@pytest.fixture
def echo():
    one = Echo()
    yield one
    one.close()


@pytest.fixture
def proxy(echo):
    with Proxy(echo.url) as one:
        yield one


@pytest.fixture
def link(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as one:
        one.sendall(b"hello")
        assert read(one, 5) == b"hello"
        yield one


def read(link, count):
    found = b""
    while len(found) < count and (piece := link.recv(count - len(found))):
        found += piece
    return found


def nothing_comes(link):
    link.settimeout(0.05)
    with pytest.raises(TimeoutError):
        link.recv(1)
    link.settimeout(5)


def test_everything_passes_and_is_counted(proxy, link):
    data = bytes(range(256)) * 20_000
    sender = threading.Thread(target=link.sendall, args=(data,))
    sender.start()
    assert read(link, len(data)) == data
    sender.join()
    assert (proxy.connections, proxy.accepted) == (1, 1)
    assert proxy.bytes_to_client == proxy.bytes_to_server == len(data) + 5


def test_ends_pass_too(echo, proxy, link):
    link.sendall(b"last")
    link.shutdown(socket.SHUT_WR)
    assert read(link, 100) == b"last"
    wait_until(lambda: (echo.ends, proxy.connections) == (["end"], 0))


def test_cut_resets_both_sides_and_new_connections_are_taken(echo, proxy, link):
    proxy.cut()
    assert proxy.connections == 0
    with pytest.raises(ConnectionResetError):
        link.recv(1)
    wait_until(lambda: echo.ends == ["ConnectionResetError"])
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as again:
        again.sendall(b"x")
        assert read(again, 1) == b"x"


def test_half_close_towards_the_client_leaves_the_other_direction_open(proxy, link):
    proxy.half_close()
    assert link.recv(1) == b""
    link.sendall(b"still")
    wait_until(lambda: proxy.bytes_to_server == len("hello") + len("still"))


def test_half_close_towards_the_server_leaves_the_other_direction_open(echo, proxy, link):
    proxy.half_close(towards_client=False)
    wait_until(lambda: echo.ends == ["end"])
    assert link.recv(1) == b""


def test_a_blackhole_holds_bytes_back_and_keeps_connections(proxy, link):
    proxy.blackhole()
    link.sendall(b"held")
    nothing_comes(link)
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as other:
        other.sendall(b"too")
        nothing_comes(other)
        proxy.unblackhole()
        assert read(other, 3) == b"too"
    assert read(link, 4) == b"held"


def test_a_blackhole_fills_up(proxy, link):
    proxy.blackhole()
    link.settimeout(0.05)
    with pytest.raises(TimeoutError):
        link.sendall(b"x" * 64 * 2**20)


def test_one_byte_writes_change_the_pieces_not_the_bytes(proxy, link):
    proxy.one_byte_writes()
    link.sendall(b"0123456789" * 10)
    assert read(link, 100) == b"0123456789" * 10
    proxy.one_byte_writes(False)


def test_delay_makes_bytes_late_and_keeps_their_order(proxy, link):
    proxy.delay(0.1)
    start = time.monotonic()
    for piece in (b"1", b"2", b"3"):
        link.sendall(piece)
    assert read(link, 3) == b"123"
    assert time.monotonic() - start >= 0.2
    proxy.heal()


def test_swallowing_begins_after_so_many_bytes_and_can_end(proxy, link):
    proxy.swallow_after(3)
    link.sendall(b"abcdef")
    assert read(link, 3) == b"abc"
    nothing_comes(link)
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as later:
        later.sendall(b"uvwxyz")
        assert read(later, 3) == b"uvw"
        nothing_comes(later)
    proxy.swallow_after(None)
    link.sendall(b"gh")
    assert read(link, 2) == b"gh"


def test_it_comes_back_on_the_same_port(proxy, link):
    url = proxy.url
    proxy.stop()
    with pytest.raises(ConnectionResetError):
        link.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))
    proxy.stop()
    proxy.blackhole()
    proxy.start()
    proxy.heal()
    proxy.restart()
    assert proxy.url == url
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as again:
        again.sendall(b"x")
        assert read(again, 1) == b"x"


def test_a_target_that_is_away_is_a_reset():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with Proxy(f"nats://127.0.0.1:{port}") as proxy:
        where = ("127.0.0.1", proxy.port)
        # The reset may come before connecting has returned.
        with pytest.raises(ConnectionResetError), socket.create_connection(where, 5) as link:
            link.recv(1)
        assert proxy.accepted == 1
