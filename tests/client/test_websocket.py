"""Connections by WebSocket: to the real nats-server, and to peers that break the rules."""

from __future__ import annotations

import contextlib
import pickle
import re
import socket
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import jetsync
from jetsync.server import NatsCluster, NatsServer
from jetsync.server.ports import free_port
from tests.harness.waiting import wait_until
from tests.harness.websockets import CLOSE, PING, PONG, RawPeer, frame, listener

pytestmark = pytest.mark.straight
DEFLATE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


@pytest.fixture(scope="module")
def ways(certificates):
    """Servers with a WebSocket port of each kind, and how to connect to them."""
    tls = (certificates.server, certificates.server_key)
    trust = {"tls": jetsync.TLSConfig(ca_file=certificates.ca)}
    plain, secure = free_port(), free_port()
    with (
        NatsServer(config=listener(plain, compression=True)),
        NatsServer(config=listener(secure, tls=tls, compression=True)),
    ):
        yield {
            "ws": (f"ws://127.0.0.1:{plain}", {}),
            "ws compressed": (f"ws://127.0.0.1:{plain}", {"ws_compression": True}),
            "wss": (f"wss://localhost:{secure}", trust),
            "wss compressed": (f"wss://localhost:{secure}", {"ws_compression": True, **trust}),
        }


KINDS = ("ws", "ws compressed", "wss", "wss compressed")


@pytest.mark.parametrize("kind", KINDS)
def test_everything_works_over_a_websocket(kind, ways):
    url, options = ways[kind]
    name = kind.replace(" ", "_")
    with jetsync.connect(url, **options) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name=name, subjects=[f"{name}.>"])
        js.publish_many([(f"{name}.a", bytes([n]) * 200_000) for n in range(10)])
        consumer = stream.create_consumer(durable_name="c")
        got = [msg.data for msg in consumer.fetch(10, timeout=20)]
        assert got == [bytes([n]) * 200_000 for n in range(10)]
        sub = nc.subscribe("big")
        nc.publish("big", b"z" * nc.max_payload, headers=None)
        assert sub.next(timeout=20).data == b"z" * nc.max_payload
        nc.subscribe("double", callback=lambda msg: msg.respond(msg.data * 2))
        assert nc.request("double", b"x", timeout=20).data == b"xx"


@pytest.mark.parametrize("kind", KINDS)
def test_many_threads_share_a_websocket(kind, ways):
    """Frames of several threads are not mixed, and pings of the server are answered between."""
    url, options = ways[kind]
    with jetsync.connect(url, **options) as nc:
        sub = nc.subscribe("many")

        def publish(which):
            for number in range(300):
                nc.publish("many", b"%d %d " % (which, number) + b"x" * (number * 7 % 3000))

        threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        seen = {n: 0 for n in range(4)}
        for _ in range(4 * 300):
            which, number, rest = sub.next(timeout=20).data.split(b" ")
            assert int(number) == seen[int(which)]
            assert len(rest) == int(number) * 7 % 3000
            seen[int(which)] += 1
        for thread in threads:
            thread.join()


def test_a_connection_comes_back_and_finds_the_other_servers_of_a_cluster():
    config = 'websocket { host: "127.0.0.1", port: -1, no_tls: true }'
    with NatsCluster(3, jetstream=False, config=config) as three:
        found = re.compile(r"Listening for websocket clients on ws://(\S+)")
        own = {url for one in three.servers for url in found.findall(one.log)}
        with jetsync.connect(f"ws://{min(own)}/path") as nc:
            wait_until(lambda: len(nc.servers) == 3, timeout=20)
            assert {one.url for one in nc.servers} == {f"ws://{url}/path" for url in own}
            sub = nc.subscribe("a")
            nc.flush()
            info = nc.server_info
            assert info is not None
            name = info.server_name
            next(one for one in three.servers if one.name == name).kill()
            wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=30)
            nc.publish("a", b"again")
            assert sub.next(timeout=20).data == b"again"
            assert nc.server_info != info
            with pytest.raises(jetsync.ConfigError, match="one kind"):
                nc.set_servers(["ws://a", "nats://b"])
            nc.set_servers(["nats://127.0.0.1:1"])
            given, current = nc.servers
            assert (given.url, current.url) == ("nats://127.0.0.1:1", nc.connected_url)


def test_small_servers_take_compressed_messages_of_any_number():
    """A server refuses a compressed message that holds more than its max_payload."""
    port = free_port()
    config = "max_payload: 2000\n" + listener(port, compression=True)
    with (
        NatsServer(jetstream=False, config=config),
        jetsync.connect(f"ws://127.0.0.1:{port}", ws_compression=True) as nc,
    ):
        sub = nc.subscribe("a.>")
        for number in range(200):
            nc.publish(f"a.{number}", b"x" * 2000)
        assert [sub.next(timeout=20).subject for _ in range(200)] == [
            f"a.{number}" for number in range(200)
        ]
        assert nc.stats.reconnects == 0


def test_small_servers_take_a_long_compressed_sign_in():
    """CONNECT, too, goes in messages that hold no more than the server's max_payload."""
    port, password = free_port(), "x" * 6000
    config = "max_payload: 2000\nmax_control_line: 16384\n" + listener(port, compression=True)
    config += f"authorization {{ user: me, password: {password} }}\n"
    with (
        NatsServer(jetstream=False, config=config),
        jetsync.connect(
            f"ws://127.0.0.1:{port}", user="me", password=password, ws_compression=True
        ) as nc,
    ):
        nc.flush()


def is_on(nc: jetsync.Connection, url: str) -> bool:
    return nc.is_connected and nc.connected_url == url


def test_the_next_link_may_be_without_a_websocket_and_the_one_after_it_with_one():
    port = free_port()
    with (
        NatsServer(jetstream=False, config=listener(port)) as one,
        jetsync.connect(f"ws://127.0.0.1:{port}", reconnect_wait=0.01) as nc,
    ):
        sub = nc.subscribe("a")
        for url in (one.url, f"ws://127.0.0.1:{port}"):
            nc.set_servers([url])
            nc.force_reconnect()
            wait_until(partial(is_on, nc, url), timeout=20)
            nc.publish("a", b"x")
            assert sub.next(timeout=20).data == b"x"


def test_signing_in_is_as_over_tcp():
    port = free_port()
    config = "authorization { user: me, password: secret }\n" + listener(port)
    with NatsServer(jetstream=False, config=config):
        jetsync.connect(f"ws://me:secret@127.0.0.1:{port}/x").close()
        jetsync.connect(f"ws://127.0.0.1:{port}", user="me", password="secret").close()
        with pytest.raises(jetsync.AuthorizationError):
            jetsync.connect(f"ws://me:wrong@127.0.0.1:{port}")


def test_tls_is_never_left_out(ways, server, certificates):
    trust = jetsync.TLSConfig(ca_file=certificates.ca)
    plain, secure = ways["ws"][0], ways["wss"][0]
    # With the tls option a ws:// server has to speak TLS, as any other.
    jetsync.connect(secure.replace("wss", "ws"), tls=trust).close()
    refused: list[tuple[str, dict[str, Any], str]] = [
        (plain, {"tls": trust}, "this port has no TLS"),
        (plain.replace("ws://", "wss://"), {}, "this port has no TLS"),
        (secure, {}, "certificate was not accepted"),
        (secure.replace("wss", "ws"), {}, "400 Bad Request"),
        (server.url.replace("nats", "ws"), {}, "use nats://"),
    ]
    for url, options, why in refused:
        with pytest.raises(jetsync.NoServersError, match=why):
            jetsync.connect(url, connect_timeout=10, **options)
    with pytest.raises(jetsync.ConfigError, match="tls=False"):
        jetsync.connect(secure, tls=False)


def test_options_of_websockets_pickle_and_show_no_header():
    options = jetsync.ConnectOptions(
        "ws://a", ws_headers={"Authorization": "secret"}, ws_path="/n?a=b"
    )
    assert "secret" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options
    for bad in ({"ws_path": "n"}, {"ws_headers": {"a": "\n"}}, {"ws_headers": 5}):
        with pytest.raises(jetsync.ConfigError, match="ws_"):
            jetsync.ConnectOptions("ws://a", **bad)


# -- peers that a test plays itself ---------------------------------------------------------------


@contextlib.contextmanager
def peers() -> Iterator[tuple[str, socket.socket]]:
    """A port that a test accepts connections on itself."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(20)
        yield f"ws://127.0.0.1:{door.getsockname()[1]}", door


def agreeing(sock: socket.socket, compressed: bool) -> RawPeer:
    """A peer that agrees on compression, or one that does not."""
    more = [f"Sec-WebSocket-Extensions: {DEFLATE}".encode()] if compressed else []
    return RawPeer(sock, *more)


class Dialled:
    """A connection that is made on a thread, while the test plays the server."""

    def __init__(self, url, **options):
        self.outcome = None
        self._thread = threading.Thread(target=self._dial, args=(url,), kwargs=options)
        self._thread.start()

    def _dial(self, url, **options):
        try:
            self.outcome = jetsync.connect(url, connect_timeout=20, **options)
        except jetsync.Error as error:
            self.outcome = error

    def result(self):
        self._thread.join(30)
        return self.outcome


def test_the_request_has_the_path_and_the_headers_each_time_anew():
    calls = []

    def headers():
        calls.append(1)
        return {"Authorization": f"Bearer {len(calls)}"}

    with peers() as (url, door):
        dialled = Dialled(f"{url}/from/url", ws_headers=headers, ws_compression=True)
        seen = []
        for _ in range(2):
            with door.accept()[0] as sock:
                peer = RawPeer(sock)
                seen.append(peer.request.decode().split("\r\n"))
                peer.handshake()
                nc = dialled.result()
        nc.close()
    for number, lines in enumerate(seen, 1):
        assert lines[0] == "GET /from/url HTTP/1.1"
        assert lines[1] == f"Host: {url[5:]}"
        assert f"Authorization: Bearer {number}" in lines
        assert any(
            line.startswith("Sec-WebSocket-Extensions: permessage-deflate") for line in lines
        )

    def broken():
        raise KeyError("secret")

    with (
        peers() as (url, _),
        pytest.raises(jetsync.NoServersError, match="ws_headers raised KeyError"),
    ):
        jetsync.connect(url, ws_headers=broken)


def test_the_path_of_the_option_stands_in_place_of_that_of_the_url():
    with peers() as (url, door):
        dialled = Dialled(f"{url}/from/url", ws_path="/nats?team=a")
        with door.accept()[0] as sock:
            peer = RawPeer(sock)
            assert peer.request.startswith(b"GET /nats?team=a HTTP/1.1\r\n")
            peer.handshake()
            dialled.result().close()


def test_the_tls_that_a_greeting_speaks_of_is_that_of_another_port():
    """There is TLS below the WebSocket or none, whatever INFO says."""
    with peers() as (url, door):
        dialled = Dialled(url)
        with door.accept()[0] as sock:
            peer = RawPeer(sock)
            peer.handshake(b'"tls_required":true,"tls_available":true')
            assert dialled.result().is_connected
            dialled.result().close()


@pytest.mark.parametrize("compressed", [False, True])
def test_pings_are_answered_and_a_close_frame_too(compressed):
    lost = []
    with peers() as (url, door):
        dialled = Dialled(url, ws_compression=compressed, on_disconnected=lost.append)
        with door.accept()[0] as sock:
            peer = agreeing(sock, compressed)
            peer.send(frame(b"early", PING))
            peer.handshake_answering(b"early")
            nc = dialled.result()
            peer.send(frame(b"late", PING) + frame(b"", PONG))
            assert peer.read_frame()[1:] == (PONG, b"late")
            sub = nc.subscribe("a")
            assert peer.read_frame()[2] == b"SUB a 1\r\n"
            message = b"MSG a 1 5\r\nhello\r\n"
            peer.send(frame(message[:4], final=False) + frame(b"", PING) + frame(message[4:], 0))
            assert sub.next(timeout=20).data == b"hello"
            assert peer.read_frame()[1:] == (PONG, b"")
            peer.send(frame(b"\x03\xe9going \x1b[2J", CLOSE))
            assert peer.read_frame()[1:] == (CLOSE, b"\x03\xe9")
            assert peer.at_end(), "the client ends the link, though the server does not"
        wait_until(lambda: lost, timeout=20)
        assert isinstance(lost[0].error, jetsync.DisconnectedError)
        assert "closed the WebSocket: 1001 going \\x1b[2J" in str(lost[0].error)
        nc.close()


def test_what_a_server_inflates_may_shrink_while_it_is_connected():
    """Its INFO says so, as before a configuration with less is loaded."""
    with peers() as (url, door):
        dialled = Dialled(url, ws_compression=True)
        with door.accept()[0] as sock:
            peer = agreeing(sock, True)
            peer.handshake()
            nc = dialled.result()
            peer.send(frame(b'INFO {"server_id":"F","max_payload":2000}\r\n'))
            wait_until(lambda: nc.max_payload == 2000, timeout=20)
            nc.publish("a", b"x" * 2000)
            said = [peer.read_frame()[2]]
            while not said[-1].endswith(b"x\r\n"):
                said.append(peer.read_frame()[2])
            assert b"".join(said) == b"PUB a 2000\r\n" + b"x" * 2000 + b"\r\n"
            assert max(map(len, said)) == 2000
            nc.close()


def test_a_message_is_found_behind_much_that_says_nothing():
    """The rest of what was received is looked at without more of it coming."""
    empty = frame(b"\x03\0" * 200, bits=0x40) * 4
    with peers() as (url, door):
        dialled = Dialled(url, ws_compression=True)
        with door.accept()[0] as sock:
            peer = agreeing(sock, True)
            peer.handshake()
            nc = dialled.result()
            sub = nc.subscribe("a")
            assert peer.read_frame()[2] == b"SUB a 1\r\n"
            peer.send(empty + frame(b"MSG a 1 5\r\nhello\r\n"))
            assert sub.next(timeout=20).data == b"hello"
            nc.close()


BROKEN = [
    (frame(b"PING\r\n", bits=0x20), "reserved bits"),
    (b"\x82\x7f" + b"\xff" * 8, "impossible length"),
    (b"\x82\x86abcdefghij", "masked"),
    (frame(b"x" * 126, PING), "control frame"),
    (frame(b"PING\r\n", 1), "does not use"),
    (b"HTTP/1.1 500 Oops\r\n\r\n", "WebSocket frame"),
]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("data", "why"), [*BROKEN, (frame(b"nonsense\r\n"), "unknown verb")])
def test_frames_against_the_rules_end_the_link_with_their_reason(data, why, compressed):
    lost = []
    with peers() as (url, door):
        dialled = Dialled(
            url, ws_compression=compressed, reconnect=False, on_disconnected=lost.append
        )
        with door.accept()[0] as sock:
            peer = agreeing(sock, compressed)
            peer.handshake()
            nc = dialled.result()
            peer.send(frame(b"+OK\r\n") + data)
            assert peer.at_end()
        wait_until(lambda: lost, timeout=20)
        assert isinstance(lost[0].error, jetsync.ProtocolError)
        assert why in str(lost[0].error)
        nc.close()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("data", "why"), BROKEN)
def test_frames_against_the_rules_in_place_of_a_greeting(data, why, compressed):
    with peers() as (url, door):
        dialled = Dialled(url, ws_compression=compressed)
        with door.accept()[0] as sock:
            agreeing(sock, compressed).send(data)
            error = dialled.result()
        assert isinstance(error, jetsync.NoServersError)
        assert why in str(error)


def test_more_than_a_handshake_holds_is_refused():
    """A few compressed bytes are no flood of lines that has no end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    flood = packer.compress(b"+OK\r\n" * (32 << 18)) + packer.flush(zlib.Z_SYNC_FLUSH)
    with peers() as (url, door):
        dialled = Dialled(url, ws_compression=True)
        with door.accept()[0] as sock:
            peer = agreeing(sock, True)
            peer.send(frame(b'INFO {"server_id":"F","max_payload":1048576}\r\n'))
            peer.read_frame()
            peer.send(frame(flood[:-4], bits=0x40))
            assert "more than a handshake holds" in str(dialled.result())


@pytest.mark.timed
def test_a_peer_that_does_not_answer_the_upgrade_is_left_in_time():
    with (
        peers() as (url, _),
        pytest.raises(jetsync.NoServersError, match="WebSocket upgrade in time"),
    ):
        jetsync.connect(url, connect_timeout=0.3)


def test_a_websocket_that_is_closed_during_the_handshake_says_why():
    with peers() as (url, door):
        dialled = Dialled(url)
        with door.accept()[0] as sock:
            RawPeer(sock).send(frame(b"\x03\xf0go away", CLOSE))
            assert "closed the WebSocket: 1008 go away" in str(dialled.result())
