"""A client that has seen reply subjects cannot answer requests that it has not seen."""

from __future__ import annotations

import contextlib
import queue
import re
import secrets
import threading
from collections.abc import Iterator

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.raw import RawClient
from tests.harness.soak import scaled
from tests.harness.waiting import alongside

CALLS = scaled(3, 100)
ACK = b'{"stream":"FORGED","seq":31337}'
INFO = b'{"type":"io.nats.jetstream.api.v1.account_info_response","streams":31337}'
STORED = (
    b"NATS/1.0\r\nNats-Stream: KV_FORGED\r\nNats-Subject: $KV.FORGED.key\r\n"
    b"Nats-Sequence: 31337\r\n"
    b"Nats-Time-Stamp: 2026-01-01T00:00:00Z\r\n\r\n"
)


class Forger:
    """A peer that may publish to inboxes and is shown some reply subjects, but is asked nothing."""

    def __init__(self, url: str) -> None:
        self._raw = RawClient(url)
        self._raw.handshake()

    def listen(self, subject: str) -> None:
        self._raw.send(b"SUB %s 9\r\nPING\r\n" % subject.encode())
        self._raw.read_until(b"PONG\r\n")

    def seen(self, count: int) -> list[str]:
        """The reply subjects of the next messages."""
        found: list[str] = []
        while len(found) < count:
            line = self._raw.read_line().split()
            if line and line[0] in (b"MSG", b"HMSG"):
                found.append(line[3].decode())
        return found

    def close(self) -> None:
        self._raw.close()

    @staticmethod
    def guesses(seen: list[str]) -> Iterator[str]:
        """Subjects that may come next: the numbers counted up, with the tails that were shown and
        with random ones."""
        match = re.fullmatch(r"(.*\.)(\d+)(.*)", seen[-1])
        assert match, seen
        front, number = match[1], int(match[2])
        tails = {"", "_" + secrets.token_hex(8), *(re.sub(r".*\.\d+", "", one) for one in seen)}
        for ahead in range(1, 17):
            for step in (1, 1 << 24):
                for tail in tails:
                    yield f"{front}{number + ahead * step}{tail}"

    @contextlib.contextmanager
    def answering(self, seen: list[str], payload: bytes, header: bytes = b"") -> Iterator[None]:
        """Send the answer to every guess, over and over, as long as the block lasts."""
        frames = []
        for subject in self.guesses(seen):
            if header:
                sizes = b"%d %d" % (len(header), len(header) + len(payload))
                frames.append(b"HPUB %s %s\r\n%s" % (subject.encode(), sizes, header + payload))
            else:
                frames.append(b"PUB %s %d\r\n%s" % (subject.encode(), len(payload), payload))
        burst = b"\r\n".join([*frames, b"PING\r\n"])

        def work(over: threading.Event) -> None:
            while not over.wait(0.005):
                self._raw.send(burst)
                self._raw.read_until(b"PONG\r\n")

        with alongside(work):
            yield


@pytest.fixture
def victim(url):
    """A client whose true answers take a while: the forged ones are there before them."""
    with Link(url, rtt=0.1) as link, jetsync.connect(link.url) as nc:
        yield nc


@pytest.fixture
def shown(url, victim):
    """A forger that was asked three times, and what it was shown."""
    forger = Forger(url)
    forger.listen("svc")
    for _ in range(3):
        with pytest.raises(jetsync.TimeoutError):
            victim.request("svc", timeout=0.2)
    with contextlib.closing(forger):
        yield forger, forger.seen(3)
        assert victim._inbound.unmatched > 0, "no forged answer came to the client under test"


def test_a_request_takes_no_answer_of_a_peer_that_it_did_not_ask(victim, shown):
    forger, seen = shown
    with jetsync.connect(victim.connected_url) as other:
        other.subscribe("honest", callback=lambda msg: msg.respond(b"true"))
        other.flush()
        with forger.answering(seen, b"forged"):
            for _ in range(CALLS):
                assert victim.request("honest", timeout=5).data == b"true"


def test_a_publish_is_confirmed_by_its_stream_alone(victim, shown, stream):
    forger, seen = shown
    js = victim.jetstream()
    with forger.answering(seen, ACK):
        for seq in range(1, CALLS + 1):
            ack = js.publish(f"{stream.name}.a", b"x", timeout=5)
            assert (ack.stream, ack.seq) == (stream.name, seq)
        with pytest.raises((jetsync.NotStoredError, jetsync.PublishUnknownError)):
            js.publish("no.stream.takes.this", b"x", timeout=1)


def test_a_value_comes_from_its_bucket_alone(victim, shown):
    forger, seen = shown
    js = victim.jetstream()
    kv = js.create_key_value(bucket=f"B{secrets.token_hex(4)}", storage="memory")
    revision = kv.put("key", b"true")
    with forger.answering(seen, b"forged", STORED):
        for _ in range(CALLS):
            entry = kv.get("key", timeout=5)
            assert (entry.value, entry.revision) == (b"true", revision)
    js.delete_key_value(kv.bucket)


def test_the_api_answers_for_itself_alone(victim, shown):
    forger, seen = shown
    js = victim.jetstream()
    with forger.answering(seen, INFO):
        for _ in range(CALLS):
            assert js.account_info(timeout=5).streams < 31337


def test_publish_async_is_confirmed_by_its_stream_alone(url, victim, stream):
    """Subscribers of a subject see the reply subject of every message that is published to it."""
    js = victim.jetstream()
    forger = Forger(url)
    forger.listen(f"{stream.name}.shown")
    for _ in range(3):
        js.publish_async(f"{stream.name}.shown", b"x").result(5)
    with forger.answering(forger.seen(3), ACK):
        for seq in range(4, CALLS + 4):
            ack = js.publish_async(f"{stream.name}.a", b"x").result(5)
            assert (ack.stream, ack.seq) == (stream.name, seq)
    forger.close()


def test_an_inbox_prefix_of_its_own_keeps_other_users_out():
    """With permissions: others can neither read its answers nor send any, and it works as ever."""
    own = {"subscribe": ["_INBOX_a.>", "svc"], "publish": [">"]}
    others = {"subscribe": {"deny": ["_INBOX_a.>"]}, "publish": {"deny": ["_INBOX_a.>"]}}
    users = [
        {"user": "a", "password": "p", "permissions": own},
        {"user": "b", "password": "p", "permissions": others},
    ]
    told: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    with (
        NatsServer(config={"authorization": {"users": users}}) as server,
        jetsync.connect(server.url, user="a", password="p", inbox_prefix="_INBOX_a") as nc,
        jetsync.connect(
            server.url, user="b", password="p", on_error=lambda event: told.put(event.error)
        ) as other,
    ):
        nc.jetstream().create_stream(name="S", subjects=["s"], storage="memory")
        nc.subscribe("svc", callback=lambda msg: msg.respond(b"yes"))
        assert nc.request("svc").data == b"yes"
        assert nc.jetstream().publish("s", b"").seq == 1
        assert nc.jetstream().publish_async("s", b"").result(10).seq == 2
        assert [msg.data for msg in nc.jetstream().ordered_consumer("S").fetch(2)] == [b"", b""]
        listening = other.subscribe("_INBOX_a.>")
        with pytest.raises(jetsync.PermissionsError):
            listening.next(timeout=10)
        other.publish("_INBOX_a.x", b"forged")
        for what in ("subscription", "publish"):
            assert what in str(told.get(timeout=10)).lower()
