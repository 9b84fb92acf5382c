"""BatchPull: one batch, one deadline. The loop of fetch, next, fetch_no_wait, ack_next.

It ends with the final status of its pull, with a full batch, or a quarter of a second after the
caller's deadline at the latest. Its pulls expire one measured round trip before that deadline, so
that their final status arrives in time.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._core.delivered import publish_ack
from jetsync._deadline import Deadline
from jetsync.errors import Error, PullTerminatedError, PullUnansweredError
from jetsync.jetstream.pull.options import HUGE_BATCH, PullOptions
from jetsync.jetstream.pull.statuses import Fate

if TYPE_CHECKING:
    from jetsync.jetstream.message import JetStreamMsg, MsgBatch
    from jetsync.jetstream.pull.inbox import PullInbox
    from jetsync.jetstream.pull.source import Source
    from jetsync.jetstream.pull.state import Ended

__all__ = ["BatchOptions", "BatchPull", "Mode"]

_GRACE = 0.2
"""Seconds after the deadline for which the final status of a pull is awaited. Every call may
take 0.25 s longer than its timeout; the rest of that is for leaving."""

_LEAVING = 0.03
"""Seconds of that in which a server says whether the consumer exists at all."""

_ALIVE = 0.5
"""Seconds after a message during which a missing final status is not reported as an error."""

_SHORTEST = 0.001

_QUIET = 0.1
"""Seconds of silence, at least two round trips, after which a no-wait pull is probed: at
``max_ack_pending`` the server does not answer it."""


_VAIN_PROBES = 2
"""Probes in a row, each after such a silence, that show that nothing more is ready."""


def _never() -> bool:
    return False


class Mode(enum.Enum):
    """When a batch is complete although it is not full."""

    WAIT = "when its time is up"
    EAGER = "when something came and the server has nothing more ready"
    NO_WAIT = "when the server has nothing more ready"


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """The options of one call. ``timeout`` and ``heartbeat`` in seconds."""

    max_messages: int | None
    max_bytes: int | None
    timeout: float
    heartbeat: float | None = None
    mode: Mode = Mode.WAIT
    group: dict[str, object] = dataclasses.field(default_factory=dict)
    ack: JetStreamMsg | None = None
    """The message whose acknowledgement carries the first pull."""


class BatchPull:
    """One fetch over as many pulls and inboxes as it takes. For one thread."""

    def __init__(self, source: Source, options: BatchOptions) -> None:
        self._source = source
        self._options = options
        self._limit = HUGE_BATCH if options.max_messages is None else options.max_messages
        self._least = self._limit  # messages that end a wait
        self._ends_at = time.monotonic() + options.timeout
        self._ack = options.ack
        self._inbox: PullInbox | None = None
        self._number = 0  # of the pull that the server has not ended, or 0
        self._probe = 0  # number of the probe, or 0
        self._probed_at = 0  # messages in the batch when it was sent
        self._vain_probes = 0  # probes in a row
        self._is_stuck = False  # the server leaves the pull open without answering it
        self._sent_at = 0.0
        self._has_pulled = False
        self._accepted = 0  # messages of the batch that the source has checked
        self._last_end: Ended | None = None
        self._is_answered = False  # the server has no more messages for this call
        self._is_over = False
        self._is_without_inbox = False
        self._is_unsent = False  # the outbound buffer had no room for the last pull
        self._error: Exception | None = None

    def run(self) -> MsgBatch | None:
        """Return the batch, with the reason if it ended early; None when there was no inbox.

        Raises the reason when nothing came.
        """
        while not self._is_over:
            inbox = self._open()
            if inbox is None:
                self._is_over = self._is_without_inbox = True
                break
            if not self._is_over:
                self._ask(inbox, time.monotonic())
            if not self._is_over and len(inbox.batch) < self._least:
                self._take(inbox)
            if len(inbox.batch) >= self._least:
                break
        return self._result()

    def _result(self) -> MsgBatch | None:
        inbox = self._inbox
        batch = None if inbox is None else inbox.release()
        error = self._error
        if error is None and not self._is_answered:
            error = self._unanswered(batch)
        if self._is_stuck and inbox is not None:
            inbox.retire()
        if batch is None or not (len(batch) or self._is_answered):
            if error is not None:
                raise error
        else:
            batch.error = error
        return batch

    def _open(self) -> PullInbox | None:
        """The inbox to pull on; None when there is none in time."""
        before = self._inbox
        if before is not None and self._source.is_lasting:
            return before
        inbox = self._source.inbox
        if inbox is None:
            left = max(0.0, self._ends_at - time.monotonic())
            inbox = self._source.open(Deadline(left), _never)
        if inbox is None or inbox is before:
            return inbox
        self._inbox = inbox
        self._number = self._probe = 0
        is_single = self._source.takes_singly
        if before is None:
            if inbox.is_left_over:
                inbox.begin(1 if is_single else self._limit)
                inbox.forget_lapsed()
            if not self._source.is_lasting and not self._accept(inbox):
                return inbox
        else:
            inbox.adopt(before.release())
        if len(inbox.batch) >= (1 if is_single else self._limit):
            self._end()
        return inbox

    def _end(self) -> None:
        self._is_over = self._is_answered = True

    def _fail(self, error: Exception) -> None:
        self._is_over, self._error = True, error

    # -- asking ------------------------------------------------------------------------------------

    def _ask(self, inbox: PullInbox, now: float) -> None:
        """Send a pull, if none is under way and one may be sent."""
        if self._number:
            self._examine_silence(inbox, now)
            return
        if inbox.has_link_news:
            inbox.lost_link()
        if not inbox.is_linked or now < inbox.state.not_before:
            return
        left = max(0.0, self._ends_at - now)
        margin = inbox.margin(left)
        if self._has_pulled and left - margin < _SHORTEST:
            return  # the remaining time is for messages under way
        mode, options, batch = self._options.mode, self._options, inbox.batch
        expires, beat = 0.0, None
        if mode is not Mode.NO_WAIT:
            expires = inbox.state.pull_length(max(left - margin, _SHORTEST), now)
            beat = inbox.state.heartbeat(options.heartbeat, expires, now)
        size = options.max_bytes
        request = PullOptions(
            batch=self._limit - len(batch),
            expires=expires,
            max_bytes=None if size is None else max(1, size - batch.nbytes),
            heartbeat=beat,
            no_wait=mode is not Mode.WAIT,
            **options.group,  # type: ignore[arg-type]
        )
        ack = self._ack
        if ack is not None and self._has_pulled:
            # Whether the first one arrived is not known: the acknowledgement goes out again.
            publish_ack(ack, b"+ACK")
            ack = self._ack = None
        self._number = inbox.pull(
            request, ack, is_exact=options.max_messages is not None, seconds=left
        )
        self._is_unsent = not self._number
        if self._is_unsent:
            return  # no room for it: another try is made while there is time
        self._sent_at, self._has_pulled, self._probe = now, True, 0
        self._last_end = None

    def _quiet_until(self, inbox: PullInbox) -> float:
        """When a silent no-wait pull is probed."""
        mode = self._options.mode
        if not self._number or self._probe or mode is Mode.WAIT:
            return math.inf
        if mode is Mode.EAGER and not len(inbox.batch):
            return math.inf  # it is meant to wait for the first message
        quiet = max(_QUIET, 2 * inbox.rtt)
        return max(self._sent_at, inbox.mailbox.last_put) + quiet

    def _examine_silence(self, inbox: PullInbox, now: float) -> None:
        """Send a probe: at ``max_ack_pending`` the server does not answer a no-wait pull, but it
        answers one that expires at once, which shows that nothing more is ready."""
        if now >= self._quiet_until(inbox):
            self._sent_at, self._probed_at = now, len(inbox.batch)
            group = self._options.group
            self._probe = inbox.pull(
                PullOptions(1, _SHORTEST, no_wait=True, **group),  # type: ignore[arg-type]
                seconds=max(0.0, self._ends_at - now),
            )

    # -- taking ------------------------------------------------------------------------------------

    def _last_moment(self, inbox: PullInbox) -> float:
        waits = self._number and inbox.is_linked
        return self._ends_at + (_GRACE if waits else 0.0)

    def _take(self, inbox: PullInbox) -> None:
        """Wait for messages, take them, and see what ended."""
        before = len(inbox.batch)
        limit = min(self._limit, before + 1) if self._source.takes_singly else self._limit
        # One wake-up for all that is wanted: when so many messages are there, or a status.
        least = min(limit, self._least)
        until = last_moment = self._last_moment(inbox)
        if self._options.mode is not Mode.WAIT:
            until = min(until, self._quiet_until(inbox) + 0.001)
        ends = inbox.take(limit, max(0.0, until - time.monotonic()), least)
        is_full = len(inbox.batch) >= limit
        if not is_full:
            inbox.check()
        is_late = time.monotonic() >= last_moment
        trouble = None if ends or is_full else self._trouble(inbox)
        judges = ends or is_full or is_late or inbox.sent_seq or trouble is not None
        if judges and not self._source.is_lasting and not self._accept(inbox):
            self._forget_ended(inbox)
            self._is_over = is_late
            return
        for ended in ends:
            self._on_end(inbox, ended)
        if is_full:
            self._is_over = self._is_answered = True
            return
        if trouble is not None:
            trouble(inbox)
        self._forget_ended(inbox)
        if time.monotonic() >= self._last_moment(inbox):
            self._is_over = True

    def _forget_ended(self, inbox: PullInbox) -> None:
        """A pull that was served in full ends without a status."""
        if self._number and not inbox.state.is_waiting_for(self._number):
            self._number = 0
        if self._probe and not inbox.state.is_waiting_for(self._probe):
            self._probe = 0

    def _trouble(self, inbox: PullInbox) -> Callable[[PullInbox], None] | None:
        """Act on a lost link, a silent server or a closed inbox."""
        if inbox.mailbox.ended:
            return self._on_finished
        if inbox.has_link_news and inbox.lost_link():
            return self._source.on_new_link
        return self._on_silence if inbox.went_silent() else None

    def _on_silence(self, inbox: PullInbox) -> None:
        error = self._source.on_silence(inbox)
        if error is not None:
            self._fail(error)

    def _on_finished(self, inbox: PullInbox) -> None:
        error = self._source.on_finished(inbox)
        if error is not None:
            self._fail(error)

    def _accept(self, inbox: PullInbox) -> bool:
        is_single = self._source.takes_singly
        if self._source.accept(inbox, self._accepted):
            self._accepted = len(inbox.batch)
            return True
        inbox.release()
        self._accepted = 0
        if not is_single:  # otherwise only this message did not fit
            self._source.discarded()
        return False

    # -- the end of pulls --------------------------------------------------------------------------

    def _on_end(self, inbox: PullInbox, ended: Ended) -> None:
        if ended.number == self._probe and self._probe:
            self._on_probed(inbox)
            return
        is_ours = ended.number == self._number
        error = self._source.on_end(inbox, ended)
        if error is not None and (is_ours or ended.fate is not Fate.WARN):
            self._fail(error)
        if not is_ours:
            return  # a pull of an earlier call
        self._last_end, self._number = ended, 0
        if ended.fate is Fate.LIMIT:
            self._end()
            if not len(inbox.batch):
                self._error = PullTerminatedError(
                    f"the next message of {inbox.consumer!r} is larger than max_bytes "
                    f"({self._options.max_bytes}); raise it",
                    status=ended.status,
                )
        elif ended.fate is Fate.DONE and not self._asks_again(inbox, ended):
            self._end()

    def _asks_again(self, inbox: PullInbox, ended: Ended) -> bool:
        """Whether another pull goes out behind one whose time is over: it was shorter than the
        call, because the consumer allows no longer ones or the round trip was not known."""
        mode = self._options.mode
        if not ended.text.lower().startswith("request timeout"):
            return False
        if mode is Mode.NO_WAIT or (mode is Mode.EAGER and len(inbox.batch)):
            return False
        left = self._ends_at - time.monotonic()
        return left - inbox.margin(left) > 2 * _SHORTEST

    def _on_probed(self, inbox: PullInbox) -> None:
        """The server has answered the probe and not the pull before it. The answer may overtake
        messages that are being delivered, so it counts when nothing came after the last one too."""
        self._probe = 0
        if not self._number or len(inbox.batch) != self._probed_at:
            self._vain_probes = 0
            return
        self._vain_probes += 1
        if self._vain_probes == _VAIN_PROBES:
            self._is_stuck = True
            self._end()

    def _unanswered(self, batch: MsgBatch | None) -> Error | None:
        """Why the server has sent no final status."""
        inbox, last = self._inbox, self._last_end
        if inbox is None or not inbox.is_linked:
            cause, text = "link", "there is no link to a server"
        elif self._is_without_inbox:
            cause, text = "leader", f"{self._source!r} has no server consumer at the moment"
        elif self._is_unsent:
            cause = "link"
            text = "the outbound buffer stayed full, so the pull could not be sent"
        elif not self._number:
            if last is not None and last.fate is Fate.DONE:
                return None  # it had nothing by then, and no time was left to ask again
            said = "" if last is None else f" (the last answer was {last.status} {last.text})"
            cause, text = "leader", f"no server leads {inbox.consumer!r} at the moment{said}"
        elif inbox.is_receiving or time.monotonic() - inbox.mailbox.last_put < _ALIVE:
            if batch:
                return None  # what is on its way is there for the next call
            cause, text = "link", "a message is still on its way; the next call returns it"
        else:
            gone = inbox.why_gone(_LEAVING) if self._source.is_lasting else None
            if gone is not None:
                return gone
            cause, text = "server", f"the server did not answer the pull of {inbox.consumer!r}"
        return PullUnansweredError(
            f"no answer within {self._options.timeout:g} s: {text}", cause=cause, operation="fetch"
        )
