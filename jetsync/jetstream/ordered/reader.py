"""The place of an ordered consumer in its stream, and the server consumers that it reads with.

A generation is one server consumer with one inbox. It is good until anything at all goes wrong: a
gap, a status, a missed heartbeat, another link. Then it is dropped with the messages it still had,
and the next one begins behind the last message that was handed out. So a message of an old
generation can never be mistaken for one of the new, and nothing has to be repaired (ADR-17, with
pulls).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._core.batch import first_of, last_of
from jetsync._core.message import message_jsack
from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync.errors import (
    APIError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    JetStreamUnavailableError,
    NotJetStreamMessageError,
    PermissionsError,
    PullTerminatedError,
    ServerError,
    StreamNotFoundError,
)
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer import ConsumerConfig, DeliverPolicy
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.jetstream.consumers.requests import put_any_consumer
from jetsync.jetstream.consumers.shared import SharedConsumer
from jetsync.jetstream.message import MsgBatch
from jetsync.jetstream.ordered.orphans import Orphans
from jetsync.jetstream.ordered.recovery import FIRST_WAIT, Recovery
from jetsync.jetstream.pull.inbox import PullInbox
from jetsync.jetstream.pull.statuses import Fate
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    from jetsync.client.port import Exchange, Port
    from jetsync.jetstream.pull.state import Ended

__all__ = ["Generation", "OrderedReader"]

logger: Log = Log("jetsync.pull")

Position = tuple[int, int]
"""The stream sequence to go on behind, and up to which sequence the first values are repeated."""


class Generation:
    """One server consumer and its pulls, good until anything goes wrong."""

    __slots__ = ("consumer", "inbox", "initial", "next_seq")

    def __init__(self, consumer: SharedConsumer, initial: bool) -> None:
        self.consumer: SharedConsumer = consumer
        self.inbox: PullInbox = PullInbox(consumer)
        self.initial: bool = initial
        """It repeats the first part of ``last_per_subject``: see ``_accept_initial``."""
        self.next_seq: int = 1
        """Consumer sequence of the next message."""


class OrderedReader:
    """Reads a stream in order over any number of generations. For one thread at a time.

    ``last`` is the stream sequence up to which everything was handed out.
    """

    is_lasting = False
    inbox = None

    def __init__(
        self, api: API, stream: str, config: ConsumerConfig, prefix: str, max_resets: int
    ) -> None:
        self.api = api
        self.port: Port = api.port
        self.stream = stream
        self._config = config
        self._prefix = prefix
        self._recovery = Recovery(stream, max_resets)
        self._orphans = Orphans(api, stream)
        self.generation: Generation | None = None
        self.last: int = 0
        self.resets: int = 0
        self.on_warning: Callable[[Exception], object] | None = None
        self.error: Error | None = None
        """Why it cannot go on."""
        self.info: ConsumerInfo | None = None
        self.name: str = ""
        """Of the server consumer that is or was read last."""
        self._begun = False
        self._boundary = 0  # what was in the stream when a last_per_subject reader began
        self._fetch_position: Position = (0, 0)

    # -- generations -------------------------------------------------------------------------------

    def begin(self, timeout: float) -> None:
        """Make the first generation; what is wrong with the request is raised. Blocks."""
        try:
            info = self._ask_and_make(timeout)
        except BaseException:
            self.close()
            raise
        if self._config.deliver_policy != DeliverPolicy.LAST_PER_SUBJECT:
            # From now on the position is a sequence, whichever policy the reader began with.
            self.last = info.delivered.stream_seq
        elif info.num_pending:
            self._boundary = self._recovery.head
        else:
            self.last = self._recovery.head
        self._begun = True

    def _ask_and_make(self, timeout: float) -> ConsumerInfo:
        """Ask about the stream and make the first server consumer.

        Both requests are on their way at the same time, except for ``last_per_subject``: there the
        first values end at the last sequence that the stream had before the consumer was made.
        """
        info, deadline = None, Deadline(timeout)
        with self.api.ask_ahead(self._info_operation, deadline) as ahead:
            if self._config.deliver_policy != DeliverPolicy.LAST_PER_SUBJECT:
                with contextlib.suppress(APIError):  # the answer about the stream says why
                    info = self._make_first(deadline)
            stream = self._stream_info(deadline.within(timeout), ahead)
        self._recovery.begin(stream)
        limit = stream.config.consumer_limits
        longest = limit.inactive_threshold if limit is not None else None
        if longest and longest < (self._config.inactive_threshold or 0):
            self._config = dataclasses.replace(self._config, inactive_threshold=longest)
        return info or self._make_first(deadline)

    def _make_first(self, deadline: Deadline) -> ConsumerInfo:
        """Make the first server consumer; wait for a link when it breaks meanwhile."""
        while True:
            try:
                return self._make(deadline.remaining())
            except JetStreamUnavailableError:
                if deadline.expired:
                    raise
            except DisconnectedError:
                if deadline.expired:
                    raise
                self.port.sleep(deadline.within(FIRST_WAIT))

    def renew(
        self, deadline: Deadline, over: Callable[[], bool] = lambda: False
    ) -> Generation | None:
        """Return the generation to read from, and make one first when there is none.

        Tries until it succeeds, with growing pauses; None when the time is up or it is ``over``.
        Raises when reading cannot go on: the stream is gone or was made again, too many resets in
        a row, the connection has ended.
        """
        while self.generation is None and not over():
            self.port.check()
            if self.error is not None:
                raise self.error
            if deadline.expired:
                return None
            at = self.recovers_at
            wait = 0.05 if at is None else at - time.monotonic()
            if wait > 0:
                self.port.sleep(deadline.within(min(max(wait, 0.01), 0.05)))
                continue
            self.attempt(deadline)
        return self.generation

    @property
    def recovers_at(self) -> float | None:
        """When the next attempt may be made (monotonic); None: when there is a link again."""
        return self._recovery.not_before if self.port.linked else None

    def attempt(self, deadline: Deadline) -> None:
        """Try once to make the next generation. Blocks; raises when reading cannot go on."""
        if self.error is not None:
            raise self.error
        try:
            within = min(self.api.timeout, self._recovery.attempt(time.monotonic()))
            self._make(deadline.within(within))
            self._compare(deadline.within(within))
        except (ConnectionClosedError, PermissionsError) as error:
            self.error = None if isinstance(error, ConnectionClosedError) else error
            raise
        except Error as error:
            self._failed(error)

    @property
    def _info_operation(self) -> str:
        return f"STREAM.INFO.{check_name('stream', self.stream)}"

    def _stream_info(self, timeout: float, ahead: Exchange | None = None) -> StreamInfo:
        answer = self.api.request(
            self._info_operation, timeout=timeout, repeatable=True, ahead=ahead
        )
        return StreamInfo.from_wire(answer)

    def _make(self, timeout: float | None) -> ConsumerInfo:
        """Make a server consumer that begins behind ``last``."""
        initial = self._begun and self._boundary > 0
        fields: dict[str, object] = {}
        if self._begun and not initial:
            fields = {
                "deliver_policy": DeliverPolicy.BY_START_SEQUENCE,
                "opt_start_seq": self.last + 1,
                "opt_start_time": None,
            }

        def config_of(name: str) -> ConsumerConfig:
            return dataclasses.replace(self._config, name=name, **fields)  # type: ignore[arg-type]

        info = put_any_consumer(
            self.api,
            self.stream,
            self._prefix,
            config_of,
            timeout,
            unused=lambda name: self._orphans.add(name, is_certain=False),
        )
        self.info = info
        self.name = info.name
        self._recovery.found()
        self.generation = Generation(SharedConsumer(self.api, info), initial)
        self._orphans.delete()
        if initial and not info.num_pending:
            self._end_initial()
            self._drop("the initial values are complete")
        return info

    def _compare(self, timeout: float) -> None:
        """Check that the stream is still the same one."""
        try:
            info = self._stream_info(timeout)
        except StreamNotFoundError:
            self._drop("the stream was not found")
            raise
        except Error:
            return  # no server answers now; the next reset asks again
        try:
            self.error = self._recovery.compare(info, time.monotonic())
        except DisconnectedError:
            self._drop("the stream is shorter than it was")
            raise
        if self.error is not None:
            self._drop("the stream is another one")
            raise self.error

    def _failed(self, error: Error) -> None:
        """Count a failed attempt to make a server consumer: wait longer, or give up."""
        if self.error is not None:
            raise self.error
        if self._recovery.is_final(error, time.monotonic()):
            self.error = error
            raise error
        self._count(f"{type(error).__name__}: {error}")
        self.warn(error)

    def warn(self, error: Error) -> None:
        """Report a trouble that the reader is recovering from."""
        if self.on_warning is not None:
            self.on_warning(error)
        self.port.report(error)

    def drop(self, reason: str) -> None:
        """Give the generation up; the next one begins behind ``last``."""
        if self.generation is None:
            return
        self._drop(reason)
        self.resets += 1
        self._count(reason)

    def _drop(self, reason: str, level: int = logging.INFO) -> None:
        generation, self.generation = self.generation, None
        if generation is None:
            return
        logger.log(level, "ordered consumer of %s at %d: %s", self.stream, self.last, reason)
        self._orphans.add(generation.consumer.name)
        self._retire(generation)

    def _retire(self, generation: Generation) -> None:
        # Nothing is handed back to the server: messages not handed out are read again.
        generation.inbox.close(keep=lambda inbox: None)
        if self.port.linked:
            self._orphans.delete()

    def _count(self, reason: str) -> None:
        self.error = self._recovery.failed(reason, time.monotonic()) or self.error

    def close(self) -> None:
        """Give up the generation and delete its server consumer. Does not block."""
        self._drop("closed")
        self._orphans.delete()

    # -- what the pull loops ask (pull/source.py) --------------------------------------------------

    @property
    def takes_singly(self) -> bool:
        """Whether each message is checked before the next one is taken."""
        return self.generation is not None and self.generation.initial

    def open(self, deadline: Deadline, over: Callable[[], bool]) -> PullInbox | None:
        """Return the inbox of the generation to read from; make one first when there is none."""
        generation = self.generation or self.renew(deadline, over)
        if generation is None:
            return None
        generation.inbox.is_left_over = True  # all calls read from one inbox
        return generation.inbox

    def on_end(self, inbox: PullInbox, ended: Ended) -> Error | None:
        """End the generation, unless the pull ended normally."""
        if ended.fate not in (Fate.DONE, Fate.LIMIT):
            if ended.fate is Fate.WARN:
                self.warn(inbox.refusal(ended))
            self.drop(f"{ended.status} {ended.text}".rstrip())
        return None

    def on_silence(self, inbox: PullInbox) -> Error | None:
        trouble = "the server has missed two heartbeats"
        text = f"the ordered consumer of {self.stream!r}: {trouble}; starting again"
        self.warn(PullTerminatedError(text))
        self.drop(trouble)
        return None

    def on_new_link(self, inbox: PullInbox) -> None:
        self.drop("the link is another one")

    def on_finished(self, inbox: PullInbox) -> Exception | None:
        error = inbox.mailbox.error
        if isinstance(error, PermissionsError):
            self.error = error
        self.drop("its inbox was refused, or the connection drains")
        # A limit of subscriptions ends this call; the next one may find room.
        return self.error or (error if isinstance(error, ServerError) else None)

    def discarded(self) -> None:
        """A fetch dropped its messages: they are read again."""
        self.rewind(self._fetch_position)

    def begin_fetch(self) -> Position:
        """Note where a fetch begins."""
        self._fetch_position = self.position()
        return self._fetch_position

    def accept(self, inbox: PullInbox, start: int) -> bool:
        """Check that the messages of the batch from index ``start`` on are the next ones; move on
        behind them.

        One link delivers in order, so a run with the right first number, last number and length has
        no gap; no message is read singly. Otherwise the generation is dropped and False
        returned.
        """
        generation, batch = self.generation, inbox.batch
        count = len(batch) - start
        if generation is None or generation.inbox is not inbox:
            return count <= 0
        if count > 0 and not self._follows(generation, batch, start):
            return False
        sent = inbox.sent_seq
        if sent:
            self._recovery.alive()
            if sent >= generation.next_seq:
                self.drop(f"the server has sent {counted(sent, 'message')}, not all have arrived")
        return True

    def _follows(self, generation: Generation, batch: MsgBatch, start: int) -> bool:
        count = len(batch) - start
        try:
            # The batch is indexed only for the rare second part of one.
            first = message_jsack(batch[start] if start else first_of(batch))
            last = message_jsack(last_of(batch))
        except NotJetStreamMessageError:
            self.drop("something else than a delivery came")
            return False
        in_order = first[6] == generation.next_seq and last[6] == generation.next_seq + count - 1
        generation.next_seq += count
        if in_order and generation.initial:
            return self._accept_initial(first[5], last[8])
        if not in_order or first[5] <= self.last or last[5] - first[5] < count - 1:
            self.drop(
                f"sequences {first[6]} to {last[6]} (stream {first[5]} to {last[5]}) came, "
                f"{generation.next_seq - count} was next"
            )
            return False
        self._moved(last[5])
        if not last[8]:
            self._boundary = 0
        return True

    def _moved(self, seq: int) -> None:
        self.last = seq
        self._recovery.progress(seq)

    def _accept_initial(self, seq: int, pending: int) -> bool:
        """Take one message of a generation that repeats the start of ``last_per_subject``.

        The server chooses the last message of each subject anew, so of what it sends only those
        between ``last`` and the boundary are wanted; all behind the boundary are read by sequence.
        """
        wanted = self.last < seq <= self._boundary
        if wanted:
            self._moved(seq)
        if seq >= self._boundary or not pending:
            self._end_initial()
            self._drop("the initial values are complete")
        return wanted

    def _end_initial(self) -> None:
        self.last = max(self.last, self._boundary)
        self._boundary = 0

    def position(self) -> Position:
        """The present position, for :meth:`rewind`."""
        return self.last, self._boundary

    def rewind(self, position: Position, *, later: bool = False) -> None:
        """Go back to a position: the messages since then were not handed out and are read again.

        ``later`` leaves everything that takes a lock to the timer thread.
        """
        self.last, self._boundary = position
        if not later:
            self._drop("resuming behind it (re-read requested)", logging.DEBUG)
            return
        generation, self.generation = self.generation, None
        if generation is not None:
            self._orphans.add(generation.consumer.name)
            self.port.later(0, lambda: self._retire(generation))

    def __repr__(self) -> str:
        return f"ordered consumer of {self.stream!r}"
