"""PullInbox: one inbox of a consumer, with the pulls that are answered there.

It joins the pure ``PullState`` to a connection: it sends what the state notes, takes what comes out
of the mailbox, and tells the state what happened to the link and to the clock.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._core.mailbox import Mailbox
from jetsync._core.prefetch import PrefetchBuffer, wake_buffer
from jetsync._core.pull_line import PullLine
from jetsync.client.port import Member
from jetsync.errors import (
    ConnectionClosedError,
    ConsumerDeletedError,
    DrainingError,
    JetStreamError,
    PullTerminatedError,
)
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.options import HUGE_BATCH
from jetsync.jetstream.pull.presence import Presence
from jetsync.jetstream.pull.state import Ended, PullState
from jetsync.jetstream.pull.statuses import Fate, pending_messages
from jetsync.jetstream.silence import Silence

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.jetstream.pull.priority import Pin
    from jetsync.jetstream.pull.source import PulledConsumer

__all__ = ["PullInbox"]


class PullInbox(PullLine, Member):
    """The pulls of one consumer on one inbox. For one thread at a time.

    :meth:`wake` may be called by any thread: a waiting taker checks again, and so does a ``stream``
    that still has what was taken. ``pin`` is the place of this client in a priority group with the
    policy ``pinned_client``: its id goes with every pull. ``batch`` holds what was taken out of the
    mailbox and not handed out: an interrupted call leaves it to the next one.
    """

    consumer: PulledConsumer
    state: PullState
    batch: MsgBatch
    pin: Pin | None
    sent_seq: int
    has_link_news: bool
    is_linked: bool
    closed: bool

    def __init__(self, consumer: PulledConsumer) -> None:
        self._port = port = consumer.port
        subject = consumer.api.subject(f"CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}")
        prefix = f"{port.new_inbox()}."
        mailbox = Mailbox(
            msg_type=JetStreamMsg, owner=port.connection, context=consumer, absorbs=True
        )
        self._presence = Presence(consumer)
        self._bind(
            consumer,
            subject,
            prefix,
            mailbox,
            PullState(time.monotonic(), port.epoch),
            port.outbound,
            self._presence,
            MsgBatch,
            port.round_trip,
        )
        self._prefix = prefix
        self._received = port.open_inbox(f"{prefix}*", mailbox, asks=subject)
        self._round_trip = port.round_trip
        self._least_rtt = port.rtt
        # Weakly: a stream without references ends itself.
        self.stream: weakref.ref[PrefetchBuffer] | None = None
        self._ponged_at = 0.0  # when the doubt began whose PING was answered last
        self._is_asking = False
        self._all_came_at = 0.0
        self.is_left_over = False
        """A call before this one may have left something in it."""
        # The link may have come or gone since the last check: see ``lost_link``.
        self.has_link_news = True
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
            wake_buffer(stream)

    def _on_statuses(self, statuses: list[Msg]) -> list[Ended]:
        """Account for statuses that were taken; returns what ended."""
        return [ended for msg in statuses if (ended := self._on_status(msg)) is not None]

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
        tail = subject[len(self._prefix) :]
        return int(tail) if subject.startswith(self._prefix) and tail.isdecimal() else None

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
        return self._round_trip.seconds

    def margin(self, left: float) -> float:
        """How much earlier than ``left`` seconds a pull expires, so that its final status arrives
        in time: half of the time at most, and a third of it while the round trip is not known."""
        rtt = self._round_trip.seconds
        return min(rtt, left / 2) if rtt else left / 3

    @property
    def least_rtt(self) -> float:
        """The shortest round trip that was measured: that of a link with empty queues."""
        rtt = self._round_trip.seconds
        self._least_rtt = min(self._least_rtt, rtt) or rtt
        return self._least_rtt

    # -- watching ----------------------------------------------------------------------------------

    def lost_link(self) -> bool:
        """Whether the link changed since the last check: then every outstanding pull is gone."""
        if not self.has_link_news:
            return False
        self.has_link_news = False  # first: the next check sees later changes
        self.is_linked = self._port.linked and not self._port.draining
        return self.state.link(self._port.epoch, self.is_linked, self.mailbox.pending_messages)

    def went_silent(self) -> bool:
        """Whether the server has stopped serving the pulls, which are called off then."""
        mailbox = self.mailbox
        # Read before the mailbox, which then has whatever came before the PONG.
        ponged = self._ponged_at == self.state.asked_at
        if mailbox.last_reads > self.state.sign_reads:
            self.state.heard(mailbox.last_reads)  # only a repeated heartbeat came
        silence = self.state.silence(
            time.monotonic(),
            mailbox.last_put,
            self._port.reads,
            ponged,
            mailbox.pending_messages,
            self._port.has_unread,
        )
        if silence is Silence.DOUBT:
            asked_at = self.state.asked_at
            self._port.after_pong(lambda: self._on_pong(asked_at))
        return silence is Silence.DEAD

    def forget_lapsed(self) -> None:
        """Forget pulls of earlier calls that the server ended without a word. Does not wait.

        Their messages may be on a slow link for long after their end. A PONG comes behind those.
        """
        if self._all_came_at and not self.mailbox.pending_messages:
            self.state.forget_lapsed(self._all_came_at)
            self._all_came_at = 0.0
        now = time.monotonic()
        if not self._is_asking and self.state.has_lapsed(now):
            self._is_asking = True
            self._port.after_pong(lambda: self._note_all_came(now))

    def _note_all_came(self, asked_at: float) -> None:
        self._all_came_at, self._is_asking = asked_at, False

    @property
    def is_receiving(self) -> bool:
        """Whether bytes came on the link after the last message or status of this inbox."""
        return self.state.is_receiving(self._port.reads) or self._port.has_unread()

    def _on_pong(self, asked_at: float) -> None:
        self._ponged_at = asked_at
        self.mailbox.wake()

    @property
    def why_finished(self) -> Exception:
        """Why nothing comes any more: the server refused the inbox, or the connection drains."""
        error: Exception | None = self.mailbox.error
        return error or DrainingError("the connection is draining")

    def why_gone(self, patience: float = 0.05) -> ConsumerDeletedError | None:
        """After a 503: why the consumer is gone for good; None when it is not, or when no server
        can tell yet. Waits up to ``patience`` seconds for the answer, and checks again when called
        again: while a consumer has no leader no server answers, and pulling must go on
        meanwhile."""
        return self._presence.why_gone(patience)

    # -- ending ------------------------------------------------------------------------------------

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
        is called instead, on the timer thread, when everything has arrived. A PONG tells when,
        unless every pull was served in full: then that is now.
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
            if not again and self.state.is_served:
                self._end(keep)
            elif not again:
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
