"""Finding a server that takes us: addresses, limits, TLS that stays, servers learnt from others."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from functools import partial

import pytest

import jetsync
from jetsync._threads import library_threads
from jetsync.client.dialling import DIALS, DialQueue
from jetsync.server import NatsCluster, NatsServer
from tests.harness.fakeserver import FakeServer
from tests.harness.insides import label_of
from tests.harness.older import older_binary
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

LONG = 20.0


def test_a_link_that_had_tls_is_never_followed_by_one_in_plain(certificates, monkeypatch):
    """Although no option asks for TLS: the first server did, and the next one must not get the
    password by not asking."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    received, errors = [], []

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
            on_error=lambda event: errors.append(event.error),
        ) as nc,
    ):
        server.stop()
        # Not `last_error`: the attempt at the server that is away follows at once.
        wait_until(
            lambda: any(isinstance(one, jetsync.TLSRequiredError) for one in errors), timeout=LONG
        )
        assert not nc.is_connected
        assert received == []
        nc.close()


@pytest.mark.straight
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


@pytest.mark.straight
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


@pytest.mark.straight
@pytest.mark.parametrize("version", ["2.10.25"])
def test_servers_that_name_others_before_tls_only_are_believed_that_far(certificates, version):
    """Those have to show a certificate for the name that the user gave."""
    config = certificates.server_config()
    with NatsCluster(2, jetstream=False, config=config, binary=older_binary(version)) as cluster:
        first, second = cluster.servers
        tls = jetsync.TLSConfig(ca_file=certificates.ca)
        url = f"tls://localhost:{first.port}"

        def knows_both() -> bool:
            with jetsync.connect(url, tls=tls) as nc:
                return any(str(second.port) in one.url for one in nc.servers)

        # Servers that have met tell clients of each other a moment later.
        wait_until(knows_both, timeout=LONG)
        with jetsync.connect(url, tls=tls) as nc:
            first.stop()
            wait_until(
                lambda: nc.is_connected and str(second.port) in str(nc.connected_url), timeout=LONG
            )
            nc.flush(timeout=LONG)


@pytest.mark.straight
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
        wait_until(lambda: known, timeout=LONG)
        assert len(known[0].server.split(", ")) == 64


@pytest.mark.straight
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


def test_connections_that_come_back_take_turns_and_the_time_of_each_begins_with_its_turn(
    monkeypatch,
):
    """One at a time here, so the last one waits longer than a handshake may take."""
    monkeypatch.setattr(DIALS, "_most", 1)
    at_once: list[int] = []

    def slow(peer):
        at_once.append(sum(1 for other in fake.peers if other is not peer and other in greeting))
        greeting.add(peer)
        time.sleep(0.15)  # a handshake that takes its time
        greeting.discard(peer)  # before the PONG, which gives the turn to the next one
        peer.handshake()
        with contextlib.suppress(AssertionError):
            while True:
                peer.read_line()

    greeting: set[object] = set()
    count = 5
    fake = FakeServer(slow)
    with fake:
        ncs = [jetsync.connect(fake.url, connect_timeout=0.5) for _ in range(count)]
        at_once.clear()
        for nc in ncs:
            nc.force_reconnect()
        wait_until(lambda: all(nc.stats.reconnects == 1 for nc in ncs), timeout=LONG)
        assert at_once == [0] * count
        for nc in ncs:
            nc.close()
    assert not len(DIALS)


def test_a_connection_that_waits_for_its_turn_closes_at_once(monkeypatch):
    monkeypatch.setattr(DIALS, "_most", 1)

    def script(peer):
        peer.handshake()
        peer.serve()

    with FakeServer(script) as fake, DIALS.turn(fake.url[7:]):
        nc = jetsync.connect(fake.url)
        nc.force_reconnect()
        wait_until(lambda: len(DIALS) == 2, timeout=LONG)
        begun = time.monotonic()
        nc.close()
        assert time.monotonic() - begun < LONG / 2
        assert not [t for t in library_threads() if t.name == f"jetsync-reader-{label_of(nc)}"]
    wait_until(lambda: not len(DIALS), timeout=LONG)


@pytest.mark.straight
def test_a_connection_whose_turn_does_not_come_tries_its_other_servers(monkeypatch, fresh_server):
    """Its other server hangs in the handshakes of others; its own is away only for a moment."""
    monkeypatch.setattr(DIALS, "_most", 1)
    with FakeServer(lambda peer: peer.hold()) as hanging, DIALS.turn(hanging.url[7:]):
        with jetsync.connect(
            [fresh_server.url, hanging.url],
            randomize_servers=False,
            connect_timeout=0.5,
            reconnect_wait=0.05,
        ) as nc:
            fresh_server.stop()
            wait_until(lambda: len(DIALS) == 2, timeout=LONG)  # it stands in line
            fresh_server.start()
            wait_until(lambda: nc.stats.reconnects == 1, timeout=LONG)
            nc.flush(timeout=LONG)
        assert len(DIALS) == 1
    assert not len(DIALS)


def test_a_turn_that_does_not_come_is_no_failed_attempt(monkeypatch):
    """The server was not tried: a limit of reconnects does not end the connection for that."""
    monkeypatch.setattr(DIALS, "_most", 1)

    def script(peer):
        peer.handshake()
        peer.serve()

    with FakeServer(script, script) as one, FakeServer(script, script) as two:
        urls = [one.url, two.url]
        with jetsync.connect(urls, connect_timeout=0.1, max_reconnects=1) as nc:
            with DIALS.turn(one.url[7:]), DIALS.turn(two.url[7:]):
                seen = []
                with monkeypatch.context() as patch:
                    passed = nc._session.pool.pass_over
                    patch.setattr(
                        nc._session.pool,
                        "pass_over",
                        lambda url: (seen.append(str(url)), passed(url)),
                    )
                    nc.force_reconnect()
                    wait_until(lambda: len(seen) >= 5 or nc.is_closed, timeout=LONG)
                    assert set(seen) == {state.url for state in nc.servers}
                assert [state.attempts for state in nc.servers] == [0, 0]
            wait_until(lambda: nc.stats.reconnects == 1, timeout=LONG)


def test_a_turn_that_was_withdrawn_looks_up_no_name(monkeypatch):
    monkeypatch.setattr(DIALS, "_most", 1)
    asked = []

    def script(peer):
        peer.handshake()
        peer.serve()

    with FakeServer(script) as fake, DIALS.turn(fake.url[7:]):
        nc = jetsync.connect(fake.url)
        nc.force_reconnect()
        wait_until(lambda: len(DIALS) == 2, timeout=LONG)
        monkeypatch.setattr("jetsync.client.dialer.dial", lambda *args, **more: asked.append(1))
        nc.close()
    assert not asked


def test_a_slow_name_lookup_does_not_end_what_goes_on_in_the_background(monkeypatch, server):
    """The first connection comes later than connect() waits for it, and is told as such."""
    go_on, told = threading.Event(), []
    real = socket.getaddrinfo

    def slow(*args, **more):
        go_on.wait(LONG)
        return real(*args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with jetsync.connect(
        server.url,
        retry_on_initial_connect=True,
        connect_timeout=0.2,
        on_reconnected=told.append,
    ) as nc:
        assert not nc.is_connected
        go_on.set()
        wait_until(lambda: told, timeout=LONG)
        nc.flush(timeout=LONG)


@pytest.mark.parametrize("kind", [UnicodeError, MemoryError, SystemExit])
def test_whatever_one_attempt_raises_the_next_one_follows(kind, monkeypatch, server):
    real, raised = socket.getaddrinfo, []

    def once(*args, **more):
        if not raised:
            raised.append(1)
            raise kind("no name")
        return real(*args, **more)

    with jetsync.connect(server.url, reconnect_wait=0.01) as nc:
        monkeypatch.setattr(socket, "getaddrinfo", once)
        nc.force_reconnect()
        wait_until(lambda: nc.stats.reconnects == 1, timeout=LONG)
        nc.flush(timeout=LONG)


def test_turns_come_in_the_order_of_asking_and_each_server_has_its_own():
    queue = DialQueue(1)
    order: list[int] = []

    def dial(number):
        with queue.turn("a:1"):
            order.append(number)

    def waits(count):
        return len(queue._waiting.get("a:1", ())) == count

    threads = []
    with queue.turn("a:1"):
        for number in range(4):
            threads.append(threading.Thread(target=dial, args=(number,)))
            threads[-1].start()
            wait_until(partial(waits, number + 1), timeout=LONG)
        with queue.turn("b:1"):
            assert order == []
    for thread in threads:
        thread.join(LONG)
    assert order == [0, 1, 2, 3]
    assert not len(queue)
