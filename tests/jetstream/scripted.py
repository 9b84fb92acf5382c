"""A pull consumer whose server says what the test wants."""

from __future__ import annotations

import contextlib

import jetsync
from jetsync.jetstream.access import api_of
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.consumer import Consumer
from tests.core.kit import cut_frames
from tests.harness.fakeserver import FakeServer
from tests.harness.waiting import wait_until

PATIENCE = 20.0


class Scripted:
    """A server that takes everything; the test answers in its place."""

    def __init__(self, fake, nc):
        self._fake = fake
        self.nc = nc
        self.js = nc.jetstream(timeout=1)
        self.consumer = Consumer(api_of(self.js), ConsumerInfo(stream_name="S", name="c"))

    def frames(self, verb):
        found, _ = cut_frames(self._fake.peers[0].received)
        return [frame for frame in found if frame.verb == verb]

    def pulls(self):
        return [
            f for f in self.frames(b"PUB") if f.subject.startswith(b"$JS.API.CONSUMER.MSG.NEXT")
        ]

    def wait_for_pulls(self, count):
        wait_until(lambda: len(self.pulls()) >= count, timeout=PATIENCE)
        return self.pulls()

    def sid_of(self, pull):
        """The id of the subscription that a pull is answered on."""
        return self._sid(pull.reply.rpartition(b".")[0])

    def _sid(self, inbox):
        subs = [frame.subject.split(b" ") for frame in self.frames(b"SUB")]
        return next(words[-1] for words in subs if words[0] == inbox + b".*")

    def say(self, pull, status, text="", **headers):
        """Send a status for one pull."""
        lines = [f"NATS/1.0 {status} {text}".rstrip()]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        block = "\r\n".join([*lines, "", ""]).encode()
        sid = self.sid_of(pull)
        self._fake.peers[0].send(
            b"HMSG %s %s %d %d\r\n%s\r\n" % (pull.reply, sid, len(block), len(block), block)
        )

    def tell(self, line):
        """Send bytes that are about no pull."""
        self._fake.peers[0].send(line)

    def send_to(self, subscription, payload):
        """Send a message to a subscription."""
        sid = b"%d" % subscription._mailbox.sid
        self._fake.peers[0].send_message(subscription.subject.encode(), sid, payload)

    def deliver(self, pull, *payloads, seq=1):
        sid = self.sid_of(pull)
        for n, payload in enumerate(payloads, seq):
            reply = b"$JS.ACK.S.c.1.%d.%d.1795229586547204964.0" % (n, n)
            self._fake.peers[0].send_message(b"S.a", sid, payload, reply)


@contextlib.contextmanager
def scripted_consumer(**options):
    """Give a :class:`Scripted`; ``options`` are for the connection."""

    def script(peer):
        peer.handshake()
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url, **options) as nc:
        yield Scripted(fake, nc)
        nc.close()
