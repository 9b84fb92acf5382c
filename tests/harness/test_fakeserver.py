"""The scripted server plays its script, records the client, and reports broken scripts."""

from __future__ import annotations

import pytest

from tests.harness.fakeserver import ClientGone, FakeServer, Peer
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until


def usual(peer):
    peer.handshake()
    peer.serve()


def test_a_client_connects_and_what_it_sent_is_recorded():
    with FakeServer(usual, info={"server_name": "me"}) as fake, RawClient(fake.url) as raw:
        info = raw.handshake()
        assert (info["server_name"], info["port"]) == ("me", fake.port)
        raw.send(b"PUB a 5\r\nPING\r\r\nPING\r\n")
        assert raw.read_line() == b"PONG"
        assert fake.peers[0].received.startswith(b"CONNECT {")
        assert fake.peers[0].received.endswith(b"PUB a 5\r\nPING\r\r\nPING\r\n")


def test_each_connection_gets_its_script_and_the_last_one_repeats():
    def first(peer):
        peer.send(b"INF")

    def second(peer):
        peer.send_info(headers=None, version="1")
        peer.read_line()
        peer.reset()

    with FakeServer(first, second) as fake:
        with RawClient(fake.url) as raw:
            assert raw.read_to_end() == b"INF"
        for _ in range(2):
            with RawClient(fake.url) as raw:
                said = raw.read_line()
                assert b'"version": "1"' in said
                assert b"headers" not in said
                raw.send(b"enough\r\n")
                assert raw.read_to_end() == b""
        assert len(fake.peers) == 3


def test_publishes_are_read_with_their_payload_and_messages_sent():
    seen = []

    def script(peer: Peer) -> None:
        assert peer.handshake()["protocol"] == 1
        assert peer.expect(b"SUB") == b"SUB a 1"
        seen.append(peer.expect_publish())
        peer.send_message(b"a", b"1", b"back", reply=b"r")
        peer.half_close()
        peer.wait_for_end()

    with FakeServer(script) as fake, RawClient(fake.url) as raw:
        raw.handshake()
        raw.send(b"SUB a 1\r\nHPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
        assert raw.read_to_end() == b"MSG a 1 r 4\r\nback\r\n"
    assert seen == [(b"HPUB a 12 14", b"NATS/1.0\r\n\r\nhi")]


def test_a_script_that_the_client_does_not_follow_fails_the_test():
    wrong = pytest.raises(AssertionError, match="wanted b'CONNECT', received b'PING'")
    with wrong, FakeServer(usual) as fake, RawClient(fake.url) as raw:
        raw.read_line()
        raw.send(b"PING\r\n")
        raw.read_to_end()


def test_a_client_that_leaves_early_fails_the_test_too():
    with pytest.raises(ClientGone), FakeServer(usual) as fake:
        with RawClient(fake.url) as raw:
            raw.read_line()
        wait_until(lambda: fake.errors)


def test_the_failure_of_the_block_itself_comes_first():
    with pytest.raises(ZeroDivisionError), FakeServer(usual) as fake, RawClient(fake.url) as raw:
        raw.send(b"nonsense\r\n")
        raise ZeroDivisionError


def test_stopping_ends_scripts_that_wait():
    with FakeServer(lambda peer: peer.wait_for_end()) as fake, RawClient(fake.url) as raw:
        fake.stop()
        assert raw.read_to_end() == b""
