"""The pull engine: outstanding pulls of one consumer, and what every status means for them.

Pull lives here: fetch, next, messages and consume all stand on this engine. Each pull has a reply
subject of its own under one wildcard inbox, so a status names its pull; data messages do not, they
arrive under the subject they were stored with. Accounting is therefore per pull: data is charged
to the oldest pull, and a status drops exactly the remainder of the pull it names (ADR-13, ADR-37).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jetsync._core.mailbox import Mailbox
from jetsync.client import Msg
from jetsync.errors import ConsumerDeletedError, Error, JetStreamError, PullTerminatedError
from jetsync.jetstream.message import JetStreamMsg

if TYPE_CHECKING:
    from jetsync.jetstream.consumer import Consumer

__all__ = ["EndedPull", "Fate", "PullEngine", "PullOptions"]

HUGE_BATCH = 1_000_000
"""Messages asked for when only bytes are limited: the server takes 0 as 1."""


class Fate(enum.Enum):
    """What a status means."""

    ALIVE = "the pull goes on"
    DONE = "the pull is over as it should be"
    RETRY = "the pull is void through no fault of its own: pull again"
    LOST = "nobody serves the consumer: look whether it still exists, then pull again"
    WARN = "the pull was refused: tell the user"
    FATAL = "the consumer cannot be pulled any more"


# (code, beginning of the lower-cased text, fate); the first row that fits. spec: ADR-37 and
# nats-server, see docs/internals/architecture.md "pull statuses".
STATUSES: tuple[tuple[int, str, Fate], ...] = (
    (100, "", Fate.ALIVE),
    (404, "", Fate.DONE),
    (408, "", Fate.DONE),
    (409, "message size exceeds maxbytes", Fate.DONE),
    (409, "batch completed", Fate.DONE),
    (409, "consumer deleted", Fate.FATAL),
    (409, "consumer is push based", Fate.FATAL),
    (409, "leadership change", Fate.RETRY),
    (409, "server shutdown", Fate.RETRY),
    (409, "exceeded", Fate.WARN),
    (423, "", Fate.RETRY),
    (503, "", Fate.LOST),
)


def fate_of(status: int, text: str) -> Fate:
    """Look a status up; an unknown one ends its pull and is told to the user."""
    lowered = text.lower()
    for code, beginning, fate in STATUSES:
        if status == code and lowered.startswith(beginning):
            return fate
    return Fate.WARN


@dataclasses.dataclass(frozen=True)
class PullOptions:
    """The body of a pull request; durations in seconds."""

    batch: int
    expires: float
    max_bytes: int | None = None
    heartbeat: float | None = None
    no_wait: bool = False
    group: str | None = None
    min_pending: int | None = None
    min_ack_pending: int | None = None
    priority: int | None = None

    def body(self) -> bytes:
        fields: dict[str, Any] = {"batch": self.batch, "expires": round(self.expires * 1e9)}
        if self.max_bytes is not None:
            fields["max_bytes"] = self.max_bytes
        if self.heartbeat:
            fields["idle_heartbeat"] = round(self.heartbeat * 1e9)
        if self.no_wait:
            fields["no_wait"] = True
        for name in ("group", "min_pending", "min_ack_pending", "priority"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        return json.dumps(fields, separators=(",", ":")).encode()


@dataclasses.dataclass
class _Pull:
    remaining: int
    remaining_bytes: int | None
    heartbeat: float | None
    lapses: float
    """When the server should have ended it, on the monotonic clock."""


@dataclasses.dataclass(frozen=True)
class EndedPull:
    """A status that ended a pull, or refused one."""

    fate: Fate
    error: JetStreamError | None


class PullEngine:
    """The outstanding pulls of one consumer on one inbox. For one thread at a time.

    ``mailbox`` receives messages and statuses. ``poke`` may be called by any thread: it makes a
    waiting taker look at the engine again.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._nc = consumer._js._nc
        self._subject = consumer._js._api.subject(
            f"CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}"
        )
        self._inbox = self._nc.new_inbox()
        self.mailbox = Mailbox(msg_type=JetStreamMsg, owner=self._nc, context=consumer)
        self._subscription = self._nc._open_subscription(f"{self._inbox}.*", None, self.mailbox)
        self._pulls: dict[int, _Pull] = {}
        self._number = 0
        self._epoch = self._nc._session.epoch
        self._idle_since = time.monotonic()
        self._nc._add_engine(self)

    def poke(self) -> None:
        """Wake whoever waits on the mailbox."""
        self.mailbox.poke()

    def close(self, unused: Iterable[JetStreamMsg] = ()) -> None:
        """Give up the inbox; the server drops the pulls with it. Does not wait.

        ``unused`` and what waits in the mailbox go back to the server, after the inbox: else it
        could send them there again. So does what it had still sent when it learnt of it.
        """
        self._nc._remove_engine(self)
        if self._nc.is_closed:
            return
        self._nc._outbound.unsubscribe(self._subscription._sid)
        for msg in unused:
            msg.nak()
        self._hand_back()
        self._nc._after_pong(self._end)

    def _end(self) -> None:
        if not self._nc.is_closed:
            self._nc._unsubscribe(self._subscription._sid)
            self._hand_back()

    def _hand_back(self) -> None:
        while (msg := self.mailbox.get(0)) is not None:
            if isinstance(msg, JetStreamMsg) and not msg.status:
                msg.nak()

    # -- pulling -----------------------------------------------------------------------------------

    @property
    def outstanding(self) -> int:
        """Messages asked for and neither delivered nor called off."""
        return sum(pull.remaining for pull in self._pulls.values())

    def pull(self, options: PullOptions) -> None:
        """Send one pull request. Blocks only while the outbound buffer is full."""
        now = time.monotonic()
        self._number += 1
        self._pulls[self._number] = _Pull(
            options.batch, options.max_bytes, options.heartbeat, now + options.expires
        )
        self._idle_since = now
        outbound = self._nc._outbound
        outbound.publish(self._subject, options.body(), f"{self._inbox}.{self._number}", b"", False)
        outbound.send_now()

    @property
    def outstanding_bytes(self) -> int:
        """The same in bytes, over the pulls that limit bytes."""
        return sum(pull.remaining_bytes or 0 for pull in self._pulls.values())

    def delivered(self, count: int, size: int = 0) -> None:
        """Charge delivered messages (and their bytes) to the pulls, oldest first."""
        for number, pull in list(self._pulls.items()):
            if count <= 0:
                return
            taken = min(count, pull.remaining)
            pull.remaining -= taken
            count -= taken
            if pull.remaining_bytes is not None:
                # The server counts the same bytes; the next message may just not fit any more.
                charged = min(size, pull.remaining_bytes)
                pull.remaining_bytes -= charged
                size -= charged
            if pull.remaining == 0:
                del self._pulls[number]

    def on_status(self, msg: Msg) -> EndedPull | None:
        """Account for a status message; None when its pull goes on (or was over already)."""
        fate = fate_of(msg.status, msg.description)
        if fate is Fate.ALIVE:
            return None
        number = self._number_of(msg.subject)
        known = number is not None and self._pulls.pop(number, None) is not None
        if fate is Fate.FATAL:
            self._pulls.clear()
            return EndedPull(fate, self._fatal(msg))
        if not known:
            return None
        if fate is Fate.RETRY and msg.status == 409:
            # Leadership change or shutdown: every pull of the consumer is void, not only this one.
            self._pulls.clear()
        error = None
        if fate is Fate.WARN:
            error = PullTerminatedError(
                f"the server refused a pull of {self._consumer!r}: {msg.status} {msg.description}",
                status=msg.status,
            )
        return EndedPull(fate, error)

    def _fatal(self, msg: Msg) -> JetStreamError:
        if "push" in msg.description.lower():
            return PullTerminatedError(
                f"{self._consumer!r} is a push consumer and cannot be pulled", status=msg.status
            )
        return ConsumerDeletedError(f"{self._consumer!r} was deleted")

    def _number_of(self, subject: str) -> int | None:
        tail = subject[len(self._inbox) + 1 :]
        return int(tail) if subject.startswith(self._inbox) and tail.isdigit() else None

    # -- watching ----------------------------------------------------------------------------------

    def lost_link(self) -> bool:
        """Whether the link changed since the last look: then every outstanding pull is gone."""
        epoch = self._nc._session.epoch
        if epoch == self._epoch and self._nc._session.server is not None:
            return False
        had = bool(self._pulls)
        self._pulls.clear()
        if self._nc._session.server is not None:
            self._epoch = epoch
        return had or epoch != self._epoch

    def silent_for(self) -> float:
        """Seconds without any sign of life from the server while pulls are outstanding."""
        return time.monotonic() - max(self.mailbox.last_put, self._idle_since)

    def drop_silent(self) -> bool:
        """Call off the pulls when the server has missed two heartbeats, or has not ended a pull
        long after it lapsed. Returns whether it did: then pull again."""
        if not self._pulls:
            return False
        now = time.monotonic()
        newest = list(self._pulls.values())[-1]
        missed = newest.heartbeat is not None and self.silent_for() > 2 * newest.heartbeat
        lapsed = all(now > pull.lapses + 1.0 for pull in self._pulls.values())
        if missed or lapsed:
            self._pulls.clear()
        return missed or lapsed

    def exists(self) -> Error | None:
        """Ask whether the consumer still exists; returns why not, None when it does or nobody can
        tell at the moment."""
        from jetsync._api_errors import ConsumerNotFoundError, StreamNotFoundError

        try:
            self._consumer.info(timeout=1.0)
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            return ConsumerDeletedError(f"{self._consumer!r} does not exist (any more): {error}")
        except Error:
            return None
        return None
