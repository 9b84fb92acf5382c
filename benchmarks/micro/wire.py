"""The receiving side of the core without a socket: frames in, messages out."""

from __future__ import annotations

from jetsync._core.handles import Publishing
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.jetstream.message import JetStreamMsg, MsgBatch

COUNT = 1000
HEADERS = b"NATS/1.0\r\nNats-Msg-Id: 1234567890\r\nContent-Type: text/plain\r\n\r\n"

STORED = (
    b"NATS/1.0\r\nNats-Stream: ORDERS\r\nNats-Subject: orders.new\r\nNats-Sequence: 1234567\r\n"
    b"Nats-Time-Stamp: 2026-11-21T02:53:06.547204964Z\r\nNats-Num-Pending: 999\r\n"
    b"Nats-Last-Sequence: 1234566\r\n\r\n"
)


def frames(sid: int, size: int, headers: bytes = b"", count: int = COUNT) -> bytes:
    """Messages as a consumer delivers them."""
    payload = b"x" * size
    out = []
    for n in range(1, count + 1):
        reply = b"$JS.ACK.ORDERS.worker.1.%d.%d.1795229586547204964.0" % (n, n)
        if headers:
            head = b"HMSG orders.new %d %s %d %d\r\n" % (
                sid,
                reply,
                len(headers),
                len(headers) + size,
            )
        else:
            head = b"MSG orders.new %d %s %d\r\n" % (sid, reply, size)
        out.append(head + headers + payload + b"\r\n")
    return b"".join(out)


class Wire(Publishing):
    """An Inbound with one mailbox, and a batch of frames for it.

    It is also the connection of its messages: answers land in ``outbound``.
    """

    def __init__(self, size: int, headers: bytes = b"", count: int = COUNT) -> None:
        self.outbound = Outbound(offline_limit=1 << 30)
        super().__init__(self.outbound)
        self.inbound = Inbound(self.outbound)
        self.mailbox = Mailbox(msg_type=JetStreamMsg, owner=self)
        self.bytes = frames(self.inbound.add(self.mailbox), size, headers, count)

    def receive(self) -> None:
        self.inbound.feed(self.bytes)

    def take(self) -> MsgBatch:
        batch = self.mailbox.new_batch(MsgBatch, self.outbound)
        self.mailbox.take_into(batch, COUNT)
        return batch
