"""PullInbox: one inbox of a consumer, with the pulls that are answered there.

It joins the pure ``PullState`` to a connection: it sends what the state notes, takes what comes out
of the mailbox, and tells the state what happened to the link and to the clock.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._core.mailbox import Mailbox
from jetsync._core.prefetch import PrefetchBuffer
from jetsync.client.port import Member
from jetsync.errors import (
    ConnectionClosedError,
    ConsumerDeletedError,
    DrainingError,
    JetStreamError,
    OutboundFullError,
    PullTerminatedError,
)
from jetsync.jetstream.message import JetStreamMsg, MsgBatch, new_batch
from jetsync.jetstream.pull.options import HUGE_BATCH, PullOptions
from jetsync.jetstream.pull.presence import Presence
from jetsync.jetstream.pull.state import Ended, PullState, Silence
from jetsync.jetstream.pull.statuses import Fate, pending_messages

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.jetstream.pull.priority import Pin
    from jetsync.jetstream.pull.source import PulledConsumer

__all__ = ["PullInbox"]


class PullInbox(Member):
    """The pulls of one consumer on one inbox. For one thread at a time.

    :meth:`wake` may be called by any thread: a waiting taker looks again, and so does a ``stream``
    that still has what was taken. ``pin`` is the place of this client in a priority group with the
    policy ``pinned_client``: its id goes with every pull. ``batch`` holds what was taken out of the
    mailbox and not handed out: an interrupted call leaves it to the next one.
    """

    def __init__(self, consumer: PulledConsumer) -> None:
        self.consumer = consumer
        self._port = port = consumer.port
        self._subject = consumer.api.subject(
            f"CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}"
        )
        self._inbox = port.new_inbox()
        self.mailbox = Mailbox(msg_type=JetStreamMsg, owner=port.connection, context=consumer)
        self._received = port.open_inbox(f"{self._inbox}.*", self.mailbox, asks=self._subject)
        self.state = PullState(time.monotonic(), port.epoch)
        self._least_rtt = port.rtt
        self._presence = Presence(consumer)
        self.pin: Pin | None = None
        # Weakly: a stream that is dropped ends itself.
        self.stream: weakref.ref[PrefetchBuffer] | None = None
        self.batch = self.new_batch()
        self._rest = PrefetchBuffer()  # what did not fit into the batch of the last call
        self._charged = 0  # messages, of all that were taken out of the mailbox
        self.sent_seq = 0
        """Consumer sequence that the server says it has sent, of a heartbeat taken last; or 0."""
        self._ponged = False
        self.closed = False
        self.is_left_over = False
        """A call before this one may have left something in it."""
        self.has_link_news = True
        """The link may have come or gone since the last look: see :meth:`lost_link`."""
        self.is_linked = False
        """Whether there was a link that pulls can go out on, at the last look."""
        port.attach(self)
        self.lost_link()

    def link_changed(self) -> None:
        """See ``Member.link_changed``."""
        self.has_link_news = True
        self.wake()

    def wake(self) -> None:
        """Wake the taker: the link came or went, or a stream is to end. Any thread."""
        self.mailbox.wake()
        stream = self.stream() if self.stream is not None else None
        if stream is not None:
            stream._wake()

    def new_batch(self) -> MsgBatch:
        """Return an empty batch for the messages of this inbox."""
        return new_batch(self.mailbox, self._port.outbound, ack_none=self.consumer.ack_none)

    # -- pulling -----------------------------------------------------------------------------------

    def pull(
        self,
        options: PullOptions,
        ack: JetStreamMsg | None = None,
        *,
        is_exact: bool = False,
        seconds: float | None = None,
    ) -> int:
        """Send one pull request; returns its number, 0 when there was no room for it in the
        outbound buffer. Waits for room up to ``seconds`` (None: ``write_timeout``).

        With ``ack`` it goes out with the acknowledgement of that message (``+NXT``). ``is_exact``:
        the user asked for this number of messages, and is told when the consumer does not take it.
        """
        options = self.consumer.within_limits(options, is_exact=is_exact)
        if self.pin is not None and self.pin.id is not None:
            options = dataclasses.replace(options, id=self.pin.id)
        number = self.state.sent(
            options, time.monotonic(), self.mailbox.pending_messages, self._port.reads
        )
        body, reply = options.body(), f"{self._inbox}.{number}"
        try:
            if ack is None:
                self._port.send(self._subject, body, reply, seconds=seconds)
            else:
                self._port.send(ack.reply or "", b"+NXT " + body, reply, seconds=seconds)
                ack._sent_ack()
        except OutboundFullError:
            self.state.not_sent(number, time.monotonic())
            return 0
        return number

    def take(self, limit: int, wait: float, least: int = 1) -> list[Ended]:
        """Take messages into ``batch`` until it has ``limit``; wait up to ``wait`` seconds until it
        has ``least``. Returns what ended on the way.

        After an exception, as of a signal handler, the batch has what was taken.
        """
        self.sent_seq = 0
        before = self.batch.nbytes
        statuses = self.mailbox.take_into(self.batch, limit, wait, least)
        # Charge what was taken to the pulls, once: an interrupted call leaves that to the next.
        taken = self.mailbox.delivered
        if taken != self._charged:
            if self._presence.is_asking:
                self._presence.seen()
            self.state.took(taken - self._charged, self.batch.nbytes - before, self._port.reads)
            self._charged = taken
            if self.pin is not None and len(self.batch):
                self.pin.learn(self.batch[-1])
        if not statuses:
            return []
        self.state.heard(self._port.reads)
        return [ended for msg in statuses if (ended := self._on_status(msg)) is not None]

    def release(self) -> MsgBatch:
        """Return the batch to the loop, which hands it out; the inbox goes on with an empty one."""
        batch, self.batch = self.batch, self.new_batch()
        return batch

    def begin(self, limit: int) -> None:
        """Begin a batch with what earlier calls left, at most ``limit`` messages of it."""
        rest = self._rest
        if len(self.batch):
            rest._take_over(self.batch)
        if rest._buffered:
            self.batch = self.new_batch()
            rest._move_into(self.batch, limit)
        if self.mailbox.pending_messages and len(self.batch) < limit:
            self.take(limit, 0)

    def adopt(self, batch: MsgBatch) -> None:
        """Go on with the batch of another inbox, or with what that one left."""
        if len(self.batch):
            self._rest._take_over(self.batch)
        self.batch = batch

    def _on_status(self, msg: Msg) -> Ended | None:
        ended = self.state.on_status(
            self._number_of(msg.subject),
            msg.status,
            msg.description,
            pending_messages(msg),
            time.monotonic(),
            self.mailbox.pending_messages,
        )
        if ended is None:
            if msg.status == 100:
                self._presence.seen()
                sent = msg.headers.get("Nats-Last-Consumer") or ""
                self.sent_seq = int(sent) if sent.isascii() and sent.isdecimal() else 0
        elif ended.status == 423 and self.pin is not None:
            self.pin.lose(ended.pin)
        return ended

    def _number_of(self, subject: str) -> int | None:
        tail = subject[len(self._inbox) + 1 :]
        return int(tail) if subject.startswith(self._inbox) and tail.isdecimal() else None

    def refusal(self, ended: Ended) -> JetStreamError:
        """The error for a pull that was refused, or that ended the consumer."""
        if ended.fate is not Fate.FATAL:
            return PullTerminatedError(
                f"the server refused a pull of {self.consumer!r}: {ended.status} {ended.text}",
                status=ended.status,
            )
        if "push" in ended.text.lower():
            return PullTerminatedError(
                f"{self.consumer!r} is a push consumer and cannot be pulled", status=ended.status
            )
        return ConsumerDeletedError(f"{self.consumer!r} was deleted")

    def check(self) -> None:
        """Refuse to go on when the connection has ended."""
        self._port.check()

    @property
    def rtt(self) -> float:
        """Seconds within which an answer usually comes; 0.0 before that was measured."""
        return self._port.rtt

    @property
    def least_rtt(self) -> float:
        """The shortest round trip that was seen, without what waits in the link."""
        self._least_rtt = min(self._least_rtt, self._port.rtt) or self._port.rtt
        return self._least_rtt

    # -- watching ----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Messages that wait in the mailbox or are on their way to it."""
        return self.state.waiting(self.mailbox.pending_messages)

    def lost_link(self) -> bool:
        """Whether the link changed since the last look: then every outstanding pull is gone."""
        if not self.has_link_news:
            return False
        self.has_link_news = False  # first: what changes from here on is news again
        self.is_linked = self._port.linked and not self._port.draining
        return self.state.link(self._port.epoch, self.is_linked, self.mailbox.pending_messages)

    def next_look(self) -> float:
        """Seconds until something may have to be done although nothing came."""
        return self.state.next_look(time.monotonic(), self.mailbox.last_put)

    def went_silent(self) -> bool:
        """Whether the server has stopped serving the pulls, which are called off then."""
        mailbox = self.mailbox
        silence = self.state.silence(
            time.monotonic(),
            mailbox.last_put,
            self._port.reads,
            self._ponged,
            mailbox.pending_messages,
        )
        if silence is Silence.DOUBT:
            self._ponged = False
            self._port.after_pong(self._on_pong)
        return silence is Silence.DEAD

    @property
    def is_receiving(self) -> bool:
        """Whether bytes came on the link after the last message or status of this inbox."""
        return self.state.is_receiving(self._port.reads)

    def _on_pong(self) -> None:
        self._ponged = True
        self.mailbox.wake()

    @property
    def why_finished(self) -> Exception:
        """Why nothing comes any more: the server refused the inbox, or the connection drains."""
        error: Exception | None = self.mailbox.error
        return error or DrainingError("the connection is draining")

    def why_gone(self, patience: float = 0.05) -> ConsumerDeletedError | None:
        """After a 503: why the consumer is gone for good; None when it is not, or when no server
        can tell yet. Waits up to ``patience`` seconds for the answer, and looks again when called
        again: while a consumer has no leader no server answers, and pulling must go on
        meanwhile."""
        return self._presence.why_gone(patience)

    # -- ending ------------------------------------------------------------------------------------

    @property
    def has_messages(self) -> bool:
        """Whether something was taken or waits that was not handed out."""
        return bool(len(self.batch) or self._rest._buffered or self.mailbox.pending_messages)

    def hand_back(self) -> None:
        """Give back to the server (nak) what was not handed out."""
        while self.has_messages:
            self.begin(HUGE_BATCH)
            unused = self.release()
            if not self._port.closed:
                unused.nak()

    def retire(self) -> None:
        """Cancel a pull that the server leaves open: give the inbox up. What it had still sent is
        there for the next call where the server would not deliver it again."""
        if self.consumer.delivers_again:
            self.close()
        else:
            self.close(keep=self.consumer.keep_left)

    def close(
        self, unused: MsgBatch | None = None, keep: Callable[[PullInbox], object] | None = None
    ) -> None:
        """Give up the inbox; the server drops the pulls with it. Does not wait; safe to repeat.

        ``unused`` and what waits here go back to the server, after the inbox: else it could send
        them there again. So does what it had still sent when it learnt of it. With ``keep`` that
        is called instead, on the timer thread, when everything has arrived.
        """
        port = self._port
        port.detach(self)
        again, self.closed = self.closed, True
        self._presence.close()
        if port.closed:
            self.wake()
            return
        try:
            if not again:
                self._received.stop()
            if unused is not None:
                unused.nak()
            if keep is None:
                self.hand_back()
            if not again:
                port.after_pong(lambda: self._end(keep))
        except ConnectionClosedError:
            pass  # it closed meanwhile, and the server drops all of it with the connection

    def _end(self, keep: Callable[[PullInbox], object] | None) -> None:
        try:
            if self._port.closed:
                return
            self._received.close()
            if keep is not None:
                keep(self)
            else:
                self.hand_back()
        except ConnectionClosedError:
            pass
