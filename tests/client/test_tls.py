"""TLS: who is believed, what never leaves in plain, and both directions at once."""

from __future__ import annotations

import itertools
import pickle
import shutil
import ssl
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsCluster, NatsServer
from tests.harness.fakeserver import FakeServer
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until


@pytest.fixture
def tls_server(certificates):
    with NatsServer(jetstream=False, config=certificates.server_config()) as one:
        yield one


def address(server, scheme="tls"):
    return f"{scheme}://127.0.0.1:{server.port}"


def trusting(certificates, **more):
    return jetsync.TLSConfig(ca_file=certificates.ca, **more)


def is_encrypted(nc):
    return nc._session._link.tls


def echo_works(nc):
    with nc.subscribe("tls.echo", callback=lambda msg: msg.respond(msg.data)):
        return nc.request("tls.echo", b"hello", timeout=5).data == b"hello"


# -- ways of asking for it -------------------------------------------------------------------------


def test_the_scheme_the_option_and_the_server_each_turn_it_on(tls_server, certificates):
    for scheme, tls in (
        ("tls", trusting(certificates)),
        ("nats", trusting(certificates)),
        ("tls", ssl.create_default_context(cafile=certificates.ca)),
    ):
        with jetsync.connect(address(tls_server, scheme), tls=tls) as nc:
            assert echo_works(nc)
            assert is_encrypted(nc)


def test_a_server_that_offers_tls_without_requiring_it(certificates):
    config = {**certificates.server_config(), "allow_non_tls": True}
    with NatsServer(jetstream=False, config=config) as server:
        with jetsync.connect(address(server), tls=trusting(certificates)) as nc:
            assert is_encrypted(nc)
            assert echo_works(nc)
        with jetsync.connect(address(server, "nats")) as nc:
            assert not is_encrypted(nc)


def test_handshake_first(certificates):
    config = certificates.server_config(handshake_first=True)
    with NatsServer(jetstream=False, config=config) as server:
        tls = trusting(certificates)
        with jetsync.connect(address(server), tls=tls, tls_handshake_first=True) as nc:
            assert echo_works(nc)
        with pytest.raises(jetsync.NoServersError, match="tls_handshake_first"):
            jetsync.connect(address(server), tls=tls, connect_timeout=0.5)


def test_handshake_first_with_a_server_that_begins_in_plain(tls_server, certificates):
    with pytest.raises(jetsync.NoServersError, match="leave tls_handshake_first away"):
        jetsync.connect(address(tls_server), tls=trusting(certificates), tls_handshake_first=True)


# -- nothing in plain ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["scheme", "option"])
def test_a_server_without_tls_is_left_before_anything_is_sent(how, certificates):
    """No downgrade: an attacker that strips TLS from the greeting gets not one byte of ours."""
    heard = []

    def script(peer):
        peer.send_info()
        peer.wait_for_end()
        heard.append(peer.received)

    with FakeServer(script) as fake:
        url = fake.url.replace("nats://", "tls://") if how == "scheme" else fake.url
        tls = None if how == "scheme" else trusting(certificates)
        with pytest.raises(jetsync.TLSRequiredError, match="nothing was sent"):
            jetsync.connect(url, tls=tls, user="u", password="secret")
    assert heard == [b""]


def test_a_server_that_loses_its_tls_is_not_used_again(tls_server, certificates):
    """Also on reconnect, and with the password in hand."""
    problems: list[jetsync.Event] = []
    tls = trusting(certificates)
    with jetsync.connect(address(tls_server), tls=tls, on_error=problems.append) as nc:
        tls_server.stop()
        with NatsServer(jetstream=False, port=tls_server.port):
            wait_until(
                lambda: any(isinstance(p.error, jetsync.TLSRequiredError) for p in problems),
                timeout=20,
            )
            assert not nc.is_connected
        tls_server.start()
        wait_until(lambda: nc.is_connected, timeout=20)
        assert echo_works(nc)


def test_what_follows_the_plain_greeting_is_not_believed():
    """Bytes that an attacker put behind the plain INFO are not read as if they came through TLS."""
    reached = threading.Event()

    def script(peer):
        peer.send_info(tls_required=True)
        peer.send(b"PONG\r\n")
        reached.set()
        peer.wait_for_end()

    with FakeServer(script) as fake, pytest.raises(jetsync.NoServersError):
        jetsync.connect(fake.url, connect_timeout=0.5)
    assert reached.is_set()


# -- who is believed -------------------------------------------------------------------------------


def test_a_certificate_of_an_unknown_authority_is_refused(tls_server, certificates):
    for tls in (True, jetsync.TLSConfig(ca_file=certificates.stranger_ca)):
        with pytest.raises(jetsync.NoServersError, match="certificate was not accepted"):
            jetsync.connect(address(tls_server), tls=tls)


def test_a_certificate_for_another_name_is_refused_unless_that_name_is_asked_for(certificates):
    config = certificates.server_config(
        cert_file=str(certificates.misnamed), key_file=str(certificates.misnamed_key)
    )
    tls = trusting(certificates)
    with NatsServer(jetstream=False, config=config) as server:
        with pytest.raises(jetsync.NoServersError, match="certificate was not accepted"):
            jetsync.connect(address(server), tls=tls)
        with jetsync.connect(address(server), tls=tls, tls_hostname="elsewhere.example") as nc:
            assert echo_works(nc)


def test_client_certificates(certificates):
    config = certificates.server_config(ca_file=str(certificates.ca), verify=True)
    with NatsServer(jetstream=False, config=config) as server:
        own = trusting(
            certificates, cert_file=certificates.client, key_file=certificates.client_key
        )
        with jetsync.connect(address(server), tls=own) as nc:
            assert echo_works(nc)
        with pytest.raises(jetsync.NoServersError, match="client certificate"):
            jetsync.connect(address(server), tls=trusting(certificates))
        strange = trusting(
            certificates, cert_file=certificates.stranger, key_file=certificates.stranger_key
        )
        with pytest.raises(jetsync.NoServersError, match="did not accept the client certificate"):
            jetsync.connect(address(server), tls=strange)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", 7])
def test_a_name_that_no_certificate_can_show_is_refused(name):
    with pytest.raises(jetsync.ConfigError, match="tls_hostname"):
        jetsync.ConnectOptions(tls_hostname=name)


def test_wrong_files_are_found_before_anything_is_sent(tmp_path, certificates):
    with pytest.raises(jetsync.ConfigError, match="ca_file"):
        jetsync.ConnectOptions(tls=jetsync.TLSConfig(ca_file=tmp_path / "missing"))
    with pytest.raises(jetsync.ConfigError, match="cert_file"):
        jetsync.ConnectOptions(
            tls=trusting(certificates, cert_file=certificates.client, key_file=certificates.ca)
        )
    with pytest.raises(jetsync.ConfigError, match="cert_file"):
        jetsync.TLSConfig(key_file=certificates.client_key)
    with pytest.raises(jetsync.ConfigError, match="contradicts"):
        jetsync.ConnectOptions("tls://localhost", tls=False)
    with pytest.raises(jetsync.ConfigError, match="tls must be"):
        jetsync.ConnectOptions(tls="yes")  # type: ignore[arg-type]


@pytest.mark.straight
def test_discovered_servers_are_checked_like_the_one_that_told_of_them(certificates):
    """Servers gossip bare addresses; their certificates have to show the name the user gave."""
    config = certificates.server_config()
    with NatsCluster(2, jetstream=False, config=config) as cluster:
        first, second = cluster.servers
        url = f"tls://localhost:{first.port}"
        with jetsync.connect(url, tls=trusting(certificates)) as nc:
            wait_until(lambda: len(nc._session.pool.discovered) >= 1, timeout=10)
            assert all(
                (s.requires_tls and s.hostname == "localhost") or s.host == "localhost"
                for s in nc._session.pool.servers
            )
            first.stop()
            wait_until(
                lambda: nc.is_connected and str(second.port) in str(nc.connected_url), timeout=20
            )
            assert echo_works(nc)


# -- living with it --------------------------------------------------------------------------------


@pytest.mark.timeout(scaled(120, 900))
def test_both_directions_at_once_and_large_messages(tls_server, certificates, record_figure):
    """G17: two threads encrypt and decrypt at once, ten minutes long in the long form; every byte
    arrives as it was sent."""
    block = bytes(range(256)) * 2048
    count, ends = 200, time.monotonic() + scaled(0, 600)
    over = threading.Event()
    with jetsync.connect(address(tls_server), tls=trusting(certificates)) as nc:
        sub = nc.subscribe("flood")

        def send():
            for n in itertools.count():
                room.acquire()
                if over.is_set():
                    return
                nc.publish("flood", block[: (n * 4099) % len(block)])

        room = threading.Semaphore(100)  # no more are under way than the subscription holds
        sender = threading.Thread(target=send)
        sender.start()
        done = 0
        try:
            while done < count or time.monotonic() < ends:
                assert sub.next(timeout=30).data == block[: (done * 4099) % len(block)]
                done += 1
                room.release()
        finally:
            over.set()
            room.release()
            sender.join()
        assert nc.stats.reconnects == 0
    record_figure("G17 messages in both directions without an error", done)


@pytest.mark.straight
def test_it_works_whatever_the_pieces_are(tls_server, certificates):
    with Proxy(tls_server.url) as proxy:
        proxy.one_byte_writes()
        with jetsync.connect(
            f"tls://127.0.0.1:{proxy.port}", tls=trusting(certificates), connect_timeout=20
        ) as nc:
            assert echo_works(nc)


def test_reconnects_and_replays(tls_server, certificates):
    with jetsync.connect(address(tls_server), tls=trusting(certificates)) as nc:
        sub = nc.subscribe("again")
        nc.flush()
        tls_server.restart()
        wait_until(lambda: nc.is_connected and nc.stats.reconnects == 1, timeout=20)
        nc.publish("again", b"x")
        assert sub.next(timeout=10).data == b"x"


def test_renewed_certificates_are_read_at_the_next_attempt(tmp_path, tls_server, certificates):
    trusted = tmp_path / "trusted.pem"
    shutil.copy(certificates.ca, trusted)
    with jetsync.connect(address(tls_server), tls=jetsync.TLSConfig(ca_file=trusted)) as nc:
        shutil.copy(certificates.stranger_ca, trusted)
        nc.force_reconnect()
        wait_until(lambda: "certificate" in str(nc.last_error), timeout=20)
        shutil.copy(certificates.ca, trusted)
        wait_until(lambda: nc.is_connected, timeout=20)


@pytest.mark.straight
def test_broken_records_end_the_link_and_not_the_connection(tls_server, certificates):
    """A flipped bit is not delivered; the connection starts over on a new link."""
    with Proxy(tls_server.url) as proxy:
        url, lost = f"tls://127.0.0.1:{proxy.port}", []
        with jetsync.connect(url, tls=trusting(certificates), on_disconnected=lost.append) as nc:
            sub = nc.subscribe("s")
            nc.flush()
            proxy.spoil()
            nc.publish("s", b"first")
            wait_until(lambda: nc.stats.reconnects == 1, timeout=20)
            wait_until(lambda: lost, timeout=20)
            assert "decrypted" in str(lost[0].error)
            nc.publish("s", b"second")
            assert sub.next(timeout=10).data == b"second"


# -- options travel --------------------------------------------------------------------------------


def test_options_with_files_pickle_and_a_context_says_why_not(certificates):
    options = jetsync.ConnectOptions(tls=trusting(certificates))
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(TypeError, match="TLSConfig"):
        pickle.dumps(jetsync.ConnectOptions(tls=ssl.create_default_context()))


def test_the_key_password_stays_secret(certificates):
    tls = trusting(
        certificates,
        cert_file=certificates.client,
        key_file=certificates.client_key,
        key_password="very secret",
    )
    assert "very secret" not in repr(jetsync.ConnectOptions(tls=tls))
