"""What is counted: run by check.py under callgrind, with marks around each case.

The marks are calls of ``mark.c``, whose compiled form is the argument: callgrind counts between
them only, and writes one file per case. How long the interpreter takes to start is not in it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
from collections.abc import Callable
from typing import TypeVar

from benchmarks.micro.wire import COUNT, HEADERS, STORED, Wire
from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.bulk import BulkWindow
from jetsync._core.content_ids import ContentIds
from jetsync._core.deliveries import Deliveries, DeliveryIterator, Sequences
from jetsync._core.encoding import encode_headers
from jetsync._core.futures import AsyncWindow
from jetsync._core.handles import AsyncPublishing, Publishing
from jetsync._core.inbound import Inbound
from jetsync._core.index import Index
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg, message_jsack, parse_puback
from jetsync._core.outbound import Outbound
from jetsync._core.reply import Reply
from jetsync._core.stored import StoredFactory
from jetsync._core.window import PublishWindow
from jetsync.jetstream import DirectMsg
from jetsync.jetstream.message import MsgBatch

TIMES = 5

W = TypeVar("W", BulkWindow, AsyncWindow)


def _parse_and_queue(size: int) -> Callable[[], None]:
    wire = Wire(size)

    def run() -> None:
        wire.receive()
        wire.mailbox.discard()

    return run


def _build_messages(size: int) -> Callable[[], None]:
    wire = Wire(size)

    def run() -> None:
        wire.receive()
        for _ in range(COUNT):
            wire.mailbox.get(0)

    return run


def _iterate_batch(size: int) -> Callable[[], None]:
    wire = Wire(size)

    def run() -> None:
        wire.receive()
        for msg in wire.take():
            len(msg.data)

    return run


def _hand_out_deliveries(size: int) -> Callable[[], None]:
    wire = Wire(size)
    nc = Publishing(wire.outbound)
    nc._refusal = None
    deliveries = Deliveries(nc, wire.mailbox)
    deliveries.is_open = True

    def none_left() -> None:
        raise StopIteration

    def run() -> None:
        deliveries.sequences = Sequences(0)
        wire.receive()
        for msg in DeliveryIterator(deliveries, none_left):
            len(msg.data)

    return run


def _arrow() -> Callable[[], None]:
    wire = Wire(128)

    def run() -> None:
        wire.receive()
        wire.take()._arrow_capsules()

    return run


def _stored(use: Callable[[MsgBatch], None]) -> Callable[[], None]:
    """What a direct get brings: the server's lines stand behind the headers."""
    wire = Wire(128, STORED)

    def run() -> None:
        wire.receive()
        batch = wire.mailbox.new_batch(MsgBatch, None, StoredFactory(DirectMsg, wire))
        wire.mailbox.take_into(batch, COUNT)
        use(batch)

    return run


def _look_at_each(batch: MsgBatch) -> None:
    for msg in batch:
        len(msg.data)


def _stored_to_arrow(batch: MsgBatch) -> None:
    batch._arrow_capsules(["subject", "data", "stream_seq", "timestamp"])


def _headers() -> Callable[[], None]:
    wire = Wire(128, HEADERS)

    def run() -> None:
        wire.receive()
        for msg in wire.take():
            msg.headers.get("Nats-Msg-Id")

    return run


def _metadata() -> Callable[[], None]:
    wire = Wire(16)
    wire.receive()
    messages = list(wire.take())

    def run() -> None:
        for msg in messages:
            message_jsack(msg)

    return run


def _ack_batch() -> Callable[[], None]:
    wire = Wire(16)

    def run() -> None:
        wire.receive()
        wire.take().ack()

    return run


def _ack_each() -> Callable[[], None]:
    # A few at a time: what is held for more than a second has further costs, and a thousand
    # take longer than that here while the machine does other work.
    few = 50
    wire = Wire(16, count=few)

    def run() -> None:
        for _ in range(COUNT // few):
            wire.receive()
            for msg in wire.take():
                msg.ack()

    return run


def _publish() -> Callable[[], None]:
    data = b"x" * 128

    def run() -> None:
        publish = Outbound(offline_limit=1 << 30).publish
        for _ in range(COUNT):
            publish("orders.new", data)

    return run


def _call_back() -> Callable[[], None]:
    wire = Wire(128)
    nc = Publishing(wire.outbound)
    nc._refusal = None
    deliveries = Deliveries(nc, wire.mailbox)
    deliveries.is_open = True

    def callback(msg: Msg) -> None:
        len(msg.data)

    def ignore(*_arguments: object) -> None:
        """Nothing goes wrong here, and nothing is left to the slow way."""

    def run() -> None:
        deliveries.sequences = Sequences(0)
        wire.receive()
        deliveries.deliver(callback, ignore, ignore, False, COUNT)

    return run


def _open_replies() -> Callable[[], None]:
    """What each call that waits for an answer begins and ends with."""
    outbound = Outbound()
    inbound = Inbound(outbound)
    asked: Index[str, Mailbox] = Index()

    class Owner(Publishing):
        """A connection, as messages refer to it."""

    owner = Owner(outbound)

    def run() -> None:
        for _ in range(COUNT):
            Reply(inbound, outbound, asked, "_INBOX.1234567890.", "orders.new", owner).close()

    return run


ROWS = [("orders.new", b"x" * 128)] * COUNT


def _add_rows(window: BulkWindow) -> None:
    start = 0
    while start < COUNT:
        start += window.add_rows(ROWS, start)


class _Confirmed:
    """The wire of a window of publishes: each of COUNT messages is confirmed."""

    def __init__(self) -> None:
        self.inbound = Inbound(Outbound())
        self.mailbox = Mailbox()
        sid = self.inbound.add(self.mailbox)
        window = self.window(BulkWindow)
        _add_rows(window)
        replies = re.findall(rb"HPUB orders.new (\S+) ", self.outbound.peek())
        self.bytes = b"".join(
            b'MSG %s %d 32\r\n{"stream":"ORDERS","seq":1%05d}\r\n' % (reply, sid, n)
            for n, reply in enumerate(replies)
        )

    def window(self, kind: type[W]) -> W:
        """A window whose reply subjects have a proof, as all have that are in use."""
        self.outbound = Outbound(offline_limit=1 << 30)
        prefix, key = b"_INBOX.1234567890.", bytes(range(16))
        return kind(self.outbound, self.mailbox, prefix, b"1234567890.", b"", COUNT, key=key)

    def settle(self, window: PublishWindow) -> None:
        self.inbound.feed(self.bytes)
        window.collect(0)
        assert window.open_count == 0


def _publish_in_bulk() -> Callable[[], None]:
    wire = _Confirmed()

    def run() -> None:
        window = wire.window(BulkWindow)
        _add_rows(window)
        wire.settle(window)

    return run


def _turn_of_a_window() -> Callable[[], None]:
    """Whose turn it is, asked once for each message that is in flight."""
    window = _Confirmed().window(BulkWindow)
    _add_rows(window)

    def run() -> None:
        for _ in range(COUNT):
            assert window.has_turn

    return run


def _publish_async() -> Callable[[], None]:
    wire = _Confirmed()
    data = b"x" * 128
    js = AsyncPublishing()
    js._nc = Publishing(Outbound())

    def run() -> None:
        window = js._window = wire.window(AsyncWindow)
        window.timeout, window.auto_ids = 5.0, True
        for _ in range(COUNT):
            js.publish_async("orders.new", data)
        wire.settle(window)

    return run


def _encode_headers() -> Callable[[], None]:
    headers = {"Nats-Msg-Id": "1234567890", "Content-Type": "text/plain"}

    def run() -> None:
        for _ in range(COUNT):
            encode_headers(headers)

    return run


def _content_ids() -> Callable[[], None]:
    wire = Wire(128)
    wire.receive()
    rows = ArrowRows(wire.take())
    ids = ContentIds(b"0123456789ab.0.0", 1_000_000)

    def run() -> None:
        ids.column(rows, "data", "subject", None, None)

    return run


def _confirmation() -> Callable[[], None]:
    def run() -> None:
        for _ in range(COUNT):
            parse_puback(b'{"stream":"ORDERS","seq":12345}')

    return run


CASES: dict[str, Callable[[], Callable[[], None]]] = {
    "parse and queue, 16 B": lambda: _parse_and_queue(16),
    "parse and queue, 128 B": lambda: _parse_and_queue(128),
    "parse and queue, 1024 B": lambda: _parse_and_queue(1024),
    "build messages, 128 B": lambda: _build_messages(128),
    "iterate a batch, 128 B": lambda: _iterate_batch(128),
    "hand out deliveries, 128 B": lambda: _hand_out_deliveries(128),
    "call back with deliveries, 128 B": _call_back,
    "batch to Arrow, 128 B": _arrow,
    "iterate stored messages, 128 B": lambda: _stored(_look_at_each),
    "stored messages to Arrow, 128 B": lambda: _stored(_stored_to_arrow),
    "look up a header": _headers,
    "read ack metadata": _metadata,
    "ack a whole batch": _ack_batch,
    "ack each message": _ack_each,
    "encode a publish": _publish,
    "open and close a reply": _open_replies,
    "publish in bulk, 128 B": _publish_in_bulk,
    "turn of a window in flight": _turn_of_a_window,
    "publish with a future, 128 B": _publish_async,
    "encode headers": _encode_headers,
    "ids by content, 128 B": _content_ids,
    "read a confirmation": _confirmation,
}


def main() -> None:
    gc.disable()
    marks = ctypes.CDLL(sys.argv[1])
    begin, end = marks.begin, marks.end
    for make in CASES.values():
        run = make()
        run()
        run()  # what is made once, and kept, is there now
        begin()
        for _ in range(TIMES):
            run()
        end()
    json.dump(list(CASES), sys.stdout)


if __name__ == "__main__":
    main()
