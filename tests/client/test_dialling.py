"""Finding a server that takes us: addresses, limits, TLS that stays, servers learnt from others."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsCluster, NatsServer
from tests.harness.fakeserver import FakeServer
from tests.harness.older import older_binary
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

LONG = 20.0


def test_a_link_that_had_tls_is_never_followed_by_one_in_plain(certificates, monkeypatch):
    """Although no option asks for TLS: the first server did, and the next one must not get the
    password by not asking."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    received = []

    def plain(peer):
        peer.send_info()
        with contextlib.suppress(AssertionError):
            received.append(peer.read_line())

    with (
        FakeServer(plain) as other,
        NatsServer(jetstream=False, config=certificates.server_config()) as server,
        jetsync.connect(
            [f"nats://u:hunter2@localhost:{server.port}", f"nats://u:hunter2@{other.url[7:]}"],
            randomize_servers=False,
            reconnect_wait=0.05,
        ) as nc,
    ):
        server.stop()
        wait_until(lambda: isinstance(nc.last_error, jetsync.TLSRequiredError), timeout=LONG)
        assert not nc.is_connected
        assert received == []
        nc.close()


@pytest.mark.parametrize("manner", ["silent", "closing"])
def test_every_address_of_a_name_gets_its_share_of_the_time(server, manner, monkeypatch):
    """One that takes TCP and then says nothing, or hangs up, is not the whole server."""
    bad = socket.create_server(("127.0.0.8", server.port))
    if manner == "closing":
        bad.close()
        bad = socket.create_server(("127.0.0.8", server.port), backlog=1)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    bad.accept()[0].close()

        threading.Thread(target=accept, daemon=True).start()
    real = socket.getaddrinfo

    def two(host, port, *args, **kwargs):
        if host != "two.example":
            return real(host, port, *args, **kwargs)
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, ("127.0.0.8", port)), (*kind, ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    try:
        for _ in range(6):
            with jetsync.connect(f"nats://two.example:{server.port}", connect_timeout=3) as nc:
                nc.flush(timeout=LONG)
    finally:
        with contextlib.suppress(OSError):
            bad.shutdown(socket.SHUT_RDWR)
        bad.close()


def test_a_name_that_is_not_found_is_named():
    with pytest.raises(jetsync.NoServersError, match=r"cannot find nowhere\.invalid:4222"):
        jetsync.connect("nats://nowhere.invalid:4222")


def test_the_limits_of_the_account_are_known_before_the_first_publish():
    """The server tells them right behind the first PONG; a large message would cut the link."""

    def script(peer):
        peer.send_info(api_lvl=4)
        peer.expect(b"CONNECT")
        peer.expect(b"PING")
        peer.send(b"PONG\r\n")
        time.sleep(0.01)  # in a packet of its own
        peer.send_info(api_lvl=4, connect_info=True, max_payload=1000)
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        assert nc.max_payload == 1000
        with pytest.raises(jetsync.MaxPayloadError):
            nc.publish("a", b"x" * 2000)
        nc.flush(timeout=LONG)
        assert nc.stats.reconnects == 0


def test_a_slow_login_is_not_taken_for_missing_tls():
    def script(peer):
        peer.send_info()
        peer.expect(b"CONNECT")
        peer.hold()

    with FakeServer(script) as fake:
        with pytest.raises(jetsync.NoServersError, match="raise connect_timeout") as caught:
            jetsync.connect(fake.url, connect_timeout=0.3)
        assert "handshake_first" not in str(caught.value)


def test_how_long_a_token_may_be_is_the_servers_to_say():
    token = "t" * 6000
    config = {"authorization": {"token": token}, "max_control_line": 65536}
    with (
        NatsServer(jetstream=False, config=config) as server,
        jetsync.connect(server.url, token=token) as nc,
    ):
        nc.flush(timeout=LONG)
    with NatsServer(jetstream=False) as server:
        with pytest.raises(jetsync.NoServersError, match="max_control_line") as caught:
            jetsync.connect(server.url, token=token)
        assert "ttt" not in str(caught.value)


@pytest.mark.parametrize("version", ["2.10.25"])
def test_servers_that_name_others_before_tls_only_are_believed_that_far(certificates, version):
    """Those have to show a certificate for the name that the user gave."""
    config = certificates.server_config()
    with NatsCluster(2, jetstream=False, config=config, binary=older_binary(version)) as cluster:
        first, second = cluster.servers
        tls = jetsync.TLSConfig(ca_file=certificates.ca)
        with jetsync.connect(f"tls://localhost:{first.port}", tls=tls) as nc:
            first.stop()
            wait_until(lambda: str(second.port) in str(nc.connected_url), timeout=LONG)
            nc.flush(timeout=LONG)


def test_any_number_of_servers_that_are_not_there_hides_none_that_is(server):
    """A server that names forty thousand others is left, and the user's own is found soon."""
    urls = [f"127.0.0.{1 + n // 60_000}:{1 + n % 60_000}" for n in range(scaled(5_000, 40_000))]

    def script(peer):
        peer.handshake()
        peer.send_info(connect_urls=urls)
        peer.expect(b"PING")
        peer.send(b"PONG\r\n")

    def again(peer):
        peer.handshake()
        peer.serve()

    known = []
    with (
        FakeServer(script, again) as fake,
        jetsync.connect(fake.url, on_discovered_servers=known.append) as nc,
    ):
        nc.flush(timeout=LONG)
        wait_until(lambda: nc.stats.reconnects == 1, timeout=LONG)
        assert len(known[0].server.split(", ")) == 64


def test_the_reason_is_told_when_no_attempt_is_left(fresh_server):
    ended = []
    with jetsync.connect(
        fresh_server.url, max_reconnects=3, reconnect_wait=0.01, on_closed=ended.append
    ):
        fresh_server.stop()
        wait_until(lambda: ended, timeout=LONG)
    assert "None" not in str(ended[0].error)
    assert "cannot reach" in str(ended[0].error)


def test_a_missing_credentials_file_is_a_wrong_configuration(server):
    with pytest.raises(jetsync.ConfigError, match=r"/nope\.creds"):
        jetsync.connect(server.url, credentials="/nope.creds")


def test_a_first_connection_that_comes_late_is_told(fresh_server):
    fresh_server.stop()
    told = []
    with jetsync.connect(
        fresh_server.url,
        retry_on_initial_connect=True,
        reconnect_wait=0.05,
        on_reconnected=told.append,
    ) as nc:
        assert not nc.is_connected
        fresh_server.start()
        wait_until(lambda: told, timeout=LONG)
        assert nc.stats.reconnects == 0
