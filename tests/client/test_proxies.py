"""Connections through real proxies: everything goes through them, nothing around them."""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.fakeserver import FakeServer
from tests.harness.proxies import behind_tls, http_proxy, socks_proxy
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def ways():
    """One proxy of each kind that asks for no sign-in."""
    with http_proxy() as http, socks_proxy() as socks:
        yield {
            "http": f"http://127.0.0.1:{http}",
            "socks5": f"socks5://127.0.0.1:{socks}",
            "socks5h": f"socks5h://127.0.0.1:{socks}",
        }


KINDS = ("http", "socks5", "socks5h")


@pytest.mark.parametrize("kind", KINDS)
def test_everything_works_through_a_proxy(kind, ways, server):
    with jetsync.connect(server.url, proxy=ways[kind]) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name=f"PROXY_{kind}", subjects=[f"proxy.{kind}"])
        js.publish_many([(f"proxy.{kind}", b"x" * 200_000)] * 5)
        consumer = stream.create_consumer(durable_name="c")
        assert [len(msg.data) for msg in consumer.fetch(5, timeout=20)] == [200_000] * 5
        js.delete_stream(stream.name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_and_tls_with_the_server_through_a_proxy(kind, ways, certificates):
    with (
        NatsServer(jetstream=False, config=certificates.server_config()) as one,
        jetsync.connect(
            f"tls://localhost:{one.port}",
            proxy=ways[kind],
            tls=jetsync.TLSConfig(ca_file=certificates.ca),
        ) as nc,
    ):
        sub = nc.subscribe("a")
        nc.publish("a", b"x" * 300_000)
        assert len(sub.next(timeout=20).data) == 300_000


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_a_proxy_behind_tls(encrypted, certificates, monkeypatch):
    """TLS with the proxy, and inside of it a second one with the server, or none."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))  # whom the system trusts
    config = certificates.server_config() if encrypted else None
    with (
        http_proxy() as inner,
        behind_tls(inner, certificates.server, certificates.server_key) as front,
        NatsServer(jetstream=False, config=config) as one,
    ):
        proxy = f"https://localhost:{front}"
        scheme = "tls" if encrypted else "nats"
        with jetsync.connect(f"{scheme}://localhost:{one.port}", proxy=proxy) as nc:
            sub = nc.subscribe("a")
            for _ in range(5):
                nc.publish("a", b"x" * 300_000)
            assert [len(sub.next(timeout=20).data) for _ in range(5)] == [300_000] * 5
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.stranger_ca))
        with pytest.raises(jetsync.NoServersError, match="TLS with the proxy"):
            jetsync.connect(f"nats://localhost:{one.port}", proxy=proxy)


def test_a_reconnect_goes_through_the_proxy_too(ways):
    with NatsServer() as one, jetsync.connect(one.url, proxy=ways["socks5"]) as nc:
        sub = nc.subscribe("a")
        one.restart()
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=30)
        nc.publish("a", b"again")
        assert sub.next(timeout=20).data == b"again"


def test_user_and_password_of_a_proxy(server):
    with http_proxy("me secret") as http, socks_proxy("me", "secret") as socks:
        for scheme, port in (("http", http), ("socks5", socks)):
            jetsync.connect(server.url, proxy=f"{scheme}://me:secret@127.0.0.1:{port}").close()
            with pytest.raises(jetsync.NoServersError) as caught:
                jetsync.connect(server.url, proxy=f"{scheme}://me:wrong@127.0.0.1:{port}")
            text = str(caught.value)
            assert f"proxy 127.0.0.1:{port}" in text
            assert "wrong" not in text


@pytest.mark.straight
@pytest.mark.parametrize(("kind", "asked"), [("socks5", {1, 4}), ("socks5h", {3})])
def test_who_looks_up_the_name_of_a_server(kind, asked):
    """``socks5`` is asked for an address, ``socks5h`` for the name itself (RFC 1928: ATYP)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen = []

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock:
                        sock.recv(3)
                        sock.sendall(b"\x05\x00")
                        seen.append(sock.recv(4, socket.MSG_WAITALL)[3])

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        proxy = f"{kind}://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(jetsync.ConnectError):
            jetsync.connect("nats://localhost:4222", proxy=proxy, reconnect=False)
        wait_until(lambda: seen, timeout=20)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)
    assert set(seen) <= asked


@pytest.mark.straight
@pytest.mark.parametrize("kind", KINDS)
def test_no_way_around_a_proxy_that_does_not_connect(kind, ways, server):
    """Neither a refusal nor a dead proxy makes the connection go straight to the server."""
    with NatsServer(jetstream=False) as gone:
        dead = gone.url
    for target, proxy in ((dead, ways[kind]), (server.url, dead.replace("nats", kind))):
        with pytest.raises(jetsync.NoServersError):
            jetsync.connect(target, proxy=proxy, connect_timeout=10)


def test_the_environment_names_the_proxy_when_asked(ways, server, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", ways["http"])
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8, .example.com")
    seen = []
    original = jetsync.ConnectOptions._proxy_to

    def proxy_to(options, host):
        seen.append(original(options, host))
        return seen[-1]

    monkeypatch.setattr(jetsync.ConnectOptions, "_proxy_to", proxy_to)
    jetsync.connect(server.url, proxy="env").close()
    assert str(seen[-1]) == ways["http"]
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
    jetsync.connect(server.url, proxy="env").close()
    assert seen[-1] is None


def test_a_server_behind_a_proxy_that_begins_in_plain_does_not_begin_with_tls():
    """Its INFO may come in one packet with the answer of the proxy."""

    def proxy(peer):
        peer.expect(b"CONNECT")
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nINFO {}\r\n")
        peer.wait_for_end()

    with (
        FakeServer(proxy) as fake,
        pytest.raises(jetsync.NoServersError, match="leave tls_handshake_first away"),
    ):
        jetsync.connect(
            "tls://far.example",
            proxy=fake.url.replace("nats", "http"),
            tls_handshake_first=True,
            connect_timeout=10,
        )


def test_options_with_a_proxy_pickle_and_show_no_password():
    options = jetsync.ConnectOptions(proxy="socks5://me:secret@gate:1080")
    assert "secret" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    "proxy", ["gate:1080", "ftp://gate", "socks5://", "http://gate/path", "http://gate:x", 5]
)
def test_a_proxy_that_is_none_is_refused_before_any_byte_leaves(proxy):
    with (
        pytest.raises(jetsync.ConfigError, match="proxy"),
        contextlib.closing(jetsync.connect("nats://127.0.0.1:1", proxy=proxy)),
    ):
        pass
