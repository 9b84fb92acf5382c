"""WindowKeeper: settles publishes in flight, for bulk publishing and for futures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from jetsync._core.mailbox import Mailbox
from jetsync._core.window import PublishWindow
from jetsync._deadline import Deadline
from jetsync.client.port import Member, Port
from jetsync.errors import (
    APIError,
    ConnectionClosedError,
    DisconnectedError,
    DuplicateInProcessError,
    MaxPayloadError,
    NoRespondersError,
    OutboundFullError,
    PermissionsError,
    ProtocolError,
)
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.counting import PublishCounts
from jetsync.jetstream.publish.duplicate_window import repeatable_for
from jetsync.jetstream.publish.outcome import PERSISTENCE, failure, judge
from jetsync.jetstream.publish.puback import PubAck, decode_puback
from jetsync.jetstream.publish.unanswered import Unanswered
from jetsync.jetstream.publish.whose import Whose, soon, streams_on

__all__ = ["WindowKeeper", "pending_bounds"]

_PENDING = 4096
_MOST_PENDING = 32_768


def pending_bounds(max_pending: int | None) -> tuple[int, int]:
    """Return how many messages may be unconfirmed at first, and at most when the link holds more.

    A number that was given is both: a hard bound. The memory of a window is bounded by 16 MiB of
    messages in any case."""
    return (_PENDING, _MOST_PENDING) if max_pending is None else (max_pending, max_pending)


W = TypeVar("W", bound=PublishWindow)


class WindowKeeper(Member, Generic[W]):
    """Reads the answers of a window and sends again messages that were refused or lost with a link.

    The rules: a message that was refused for the moment (503) is sent again. A message that may be
    stored is sent again only with a message id, and only within the duplicate window; without an id
    a broken link ends it as unknown. A refusal of a copy says nothing about an earlier one.

    One thread calls ``collect`` and ``recover``. ``collect`` raises when the inbox was refused.
    """

    operation = "publish"

    def __init__(self, port: Port, api: API, make: Callable[[Mailbox, bytes], W]) -> None:
        self._port = port
        self._api = api
        self._mailbox = Mailbox(owner=port.connection)
        prefix = port.new_inbox() + "."
        self.reply_prefix: bytes = prefix.encode()
        self.window = make(self._mailbox, self.reply_prefix)
        self.window.last_attempt = PERSISTENCE.last_attempt
        self.counts: PublishCounts = port.counted(PublishCounts)
        """How the publishes of the connection ended."""
        self.counts.follow(self.window)
        self._whose = Whose(api)
        self._reasons: dict[int, Exception] = {}  # why the last copy was refused
        self._unserved: dict[str, int] = {}  # how often the servers knew no stream for a subject
        self._unheard: set[str] = set()  # subjects on which no stream listened
        self._denials: list[tuple[float, PermissionsError]] = []  # (when it counts, error)
        self._denied = port.connection.last_error
        self._unanswered = Unanswered(port, self.window, self._mailbox.wake)
        self._resend_at: float | None = None
        self._inbox = port.open_inbox(prefix + "*", self._mailbox, answers=True)
        port.attach(self)

    def link_changed(self) -> None:
        """Make ``collect`` return early; see ``Member.link_changed``."""
        self._mailbox.wake()

    def close(self) -> None:
        """See ``Member.close``."""
        self._mailbox.wake()

    def give_up_inbox(self) -> None:
        """Take no more confirmations."""
        self.counts.leave(self.window)
        self._port.detach(self)
        self._port.outbound.leave_window(self.reply_prefix, self.window)
        if not self._port.closed:
            self._inbox.release()

    # -- hooks of the subclasses -----------------------------------------------------------------

    def confirmed(self, number: int, ack: PubAck, text: bytes) -> None:
        """Settle a message by a confirmation in an unusual layout."""
        raise NotImplementedError

    def failed(self, number: int, error: Exception) -> None:
        """Settle a message with its error."""
        raise NotImplementedError

    # -- answers ---------------------------------------------------------------------------------

    def collect(self, timeout: float) -> bool:
        """Take the answers that are there, wait up to ``timeout`` seconds for the first.

        Returns whether anything was heard."""
        before = self.window.stored
        odd = self.window.collect(timeout)
        for number, status, payload in odd:
            self._odd(number, status, payload)
        if not odd and self.window.stored == before:
            if self._mailbox.finished:
                raise self._mailbox.error or ConnectionClosedError("the inbox has ended")
            return False
        self._unanswered.heard(time.monotonic())
        return True

    def _odd(self, number: int, status: int, payload: bytes) -> None:
        """An answer that is not a plain confirmation."""
        if status == 503 and not payload:
            subject = self.window.subject_of(number)
            if subject:
                self._unheard.add(subject)
                self._refused(
                    number,
                    NoRespondersError("no stream takes messages on this subject", subject=subject),
                )
            return
        try:
            ack = decode_puback(payload)
        except APIError as problem:
            within = Deadline(self.may_ask_for())
            subject = self.window.subject_of(number)
            if not self._whose.refusal_counts(subject, payload, within):
                return
            if judge(problem).again:
                self._refused(number, problem)
            else:
                self.give_up(number, problem)
        except ProtocolError as problem:
            self.give_up(number, problem)
        else:
            if self._whose.confirmation_counts(ack.domain):
                if self.expects(number, ack.stream):
                    self.confirmed(number, ack, payload)
                else:
                    text = f"stream {ack.stream!r} confirmed it, not the one that was expected"
                    self.give_up(number, ProtocolError(text))

    def expects(self, number: int, stream: str) -> bool:
        """Whether this stream may confirm a message."""
        return True

    def _refused(self, number: int, reason: Exception) -> None:
        self.window.refuse(number, isinstance(reason, DuplicateInProcessError))
        self._reasons[number] = reason
        self._resend_within(PERSISTENCE.refused_wait)

    def give_up(self, number: int, reason: Exception | None = None) -> None:
        """Settle a message as failed. ``reason`` is the last answer to its last copy; without one
        the text names the earlier answer, or that none came."""
        before = self._reasons.pop(number, None)
        window = self.window
        if reason is None and window.is_refused(number):
            reason = before or self._why_unsent()
            maybe_stored, text = window.is_unknown(number), str(reason)
        elif reason is None:
            maybe_stored, reason = True, before
            text = "no confirmation came in time" + self._whose.explain()
        else:
            maybe_stored = window.is_unknown(number) or judge(reason).maybe_stored
            text = str(reason)
        if window.is_unknown(number) and reason is not None and not judge(reason).maybe_stored:
            # The copy before may be in the stream although this one was refused.
            text = f"an earlier copy may be stored, the last one was refused: {reason}"
        self._fail(number, text, reason, maybe_stored)

    def _why_unsent(self) -> Exception:
        if not self._port.linked:
            return DisconnectedError("there was no connection to send it on")
        return OutboundFullError("messages in front of it were not sent in time")

    def _fail(
        self, number: int, text: str, reason: Exception | None, maybe_stored: bool = True
    ) -> None:
        msg_id = self.window.message_id(number)
        error = failure(
            text, reason, maybe_stored=maybe_stored, operation=self.operation, msg_id=msg_id
        )
        self.failed(number, error)

    def give_up_all(self, reason: Exception | None = None) -> None:
        """Settle everything that is still open."""
        for number in self.window.open_numbers():
            if reason is not None and not self.window.is_refused(number):
                self._fail(number, str(reason), reason)
            else:
                self.give_up(number)

    # -- sending again ---------------------------------------------------------------------------

    def _resend_within(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        if self._resend_at is None or at < self._resend_at:
            self._resend_at = at

    @property
    def recovers_in(self) -> float:
        """Seconds after which :meth:`recover` has something to do, if nothing happens before."""
        if not self._port.linked:
            return 0.2
        if self._resend_at is not None:
            return min(0.2, max(0.0, self._resend_at - time.monotonic()))
        return PERSISTENCE.room_wait if self.window.waiting else 0.2

    def recover(self) -> None:
        """Send again messages lost by a broken link, a refusal or silence, and send those that wait
        for a link or for room."""
        now = time.monotonic()
        window = self.window
        if not window.open_count:
            self._unanswered.restart(now)
            self._resend_at = None
            self._reasons.clear()
            window.flush()
            return
        self._check_denials(now)
        if window.link_changed:
            self._unanswered.restart(now)
            for number in window.mark_lost():
                self._fail(number, "the link broke", None)
            self._resend_at = now
        elif below := self._unanswered.lost_below(now):
            window.mark_lost(below)
            self._resend_at = now
        if self._resend_at is None:
            if not window.flush():
                self._give_up_oversized()
        elif now >= self._resend_at and self._port.linked:
            self._give_up_oversized()
            self._resend()

    def _give_up_oversized(self) -> None:
        """Settle messages that are too large for the server of the new link: it would cut the
        link."""
        for number in self.window.oversized():
            self.give_up(number, MaxPayloadError("larger than the server takes now"))

    def _resend(self) -> None:
        self._resend_at = None
        if self._unheard:
            self._find_streams()
        if not self.window.has_turn:
            self.window.flush()
            self._resend_within(PERSISTENCE.room_wait)
            return
        subjects = self.window.unknown_subjects()
        age: float | None = 0.0
        if subjects:
            age = repeatable_for(self._api, subjects, self.may_ask_for())
        if age is None:
            self._resend_within(PERSISTENCE.refused_wait)
        else:
            self.collect(0.0)  # what was answered meanwhile is not sent again
            self.window.resend(age)
            if self.window.waiting:
                self._resend_within(PERSISTENCE.room_wait)

    def may_ask_for(self) -> float:
        """Seconds that a question to the servers may take: nothing is settled meanwhile."""
        return PERSISTENCE.slack

    def _find_streams(self) -> None:
        """Look up streams for the subjects on which none listened. Messages wait for a leader, but
        not for a stream that does not exist: when the servers have said twice that there is none,
        they are given up."""
        subjects, self._unheard = self._unheard, set()
        for subject in subjects:
            within = soon(self._api, Deadline(self.may_ask_for()))
            if streams_on(self._api, subject, within) == []:
                self._unserved[subject] = self._unserved.get(subject, 0) + 1
            else:
                self._unserved.pop(subject, None)
            if self._unserved.get(subject, 0) >= 2:
                del self._unserved[subject]
                for number in self.window.numbers_on(subject):
                    if self.window.is_refused(number):
                        text = f"no stream takes messages on {subject!r}"
                        self.give_up(number, NoRespondersError(text, subject=subject))

    def _check_denials(self, now: float) -> None:
        """End the messages of a subject for which the server has sent a permission violation.

        Confirmations of messages that came before the refusal may still be under way."""
        error = self._port.connection.last_error
        if error is not self._denied:
            self._denied = error
            if isinstance(error, PermissionsError) and error.operation == "publish":
                self._denials.append((now + PERSISTENCE.refused_wait, error))
        while self._denials and self._denials[0][0] <= now:
            _, denial = self._denials.pop(0)
            for number in self.window.numbers_on(denial.subject or ""):
                self.give_up(number, denial)
