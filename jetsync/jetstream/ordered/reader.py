"""The place of an ordered consumer in its stream, and the server consumers that it reads with.

A generation is one server consumer with one inbox. It is good until anything at all goes wrong: a
gap, a status, a missed heartbeat, another link. Then it is dropped with whatever it still had, and
the next one begins behind the last message that was handed out. So a message of an old generation
can never be mistaken for one of the new, and nothing has to be repaired (ADR-17, with pulls).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jetsync._api_errors import StreamNotFoundError
from jetsync._core.message import message_jsack
from jetsync._deadline import Deadline
from jetsync.errors import (
    ConnectionClosedError,
    DisconnectedError,
    Error,
    JetStreamError,
    NotJetStreamMessageError,
    PermissionsError,
    PullTerminatedError,
    TimeoutError,
)
from jetsync.jetstream.consumers.config import ConsumerConfig, DeliverPolicy
from jetsync.jetstream.consumers.info import ConsumerInfo
from jetsync.jetstream.message import MsgBatch
from jetsync.jetstream.pull.engine import Fate, PullEngine
from jetsync.jetstream.streams.info import StreamInfo
from jetsync.protocol.ids import next_nuid
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.jetstream.consumers.consumer import Consumer
    from jetsync.jetstream.consumers.manager import ConsumerManager

__all__ = ["Generation", "OrderedReader"]

logger = logging.getLogger("jetsync")

# A request that nobody answers is repeated after this; after silence again, twice as long.
_FIRST_SILENCE = 2.0
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 2.0
# A stream that is not found may be on its way back after a restart; after this it is gone.
_GONE_AFTER = 2.0
# A new leader may say less than was read already, until it has caught up; after this it never will.
_ANOTHER_AFTER = 4.0


class Generation:
    """One server consumer and its pulls, good until anything goes wrong."""

    __slots__ = ("consumer", "engine", "epoch", "initial", "next_seq")

    def __init__(self, consumer: Consumer, epoch: int, initial: bool) -> None:
        self.consumer = consumer
        self.engine = PullEngine(consumer)
        self.epoch = epoch
        self.initial = initial
        """It repeats the first part of ``last_per_subject``: see ``OrderedReader._initial``."""
        self.next_seq = 1
        """Consumer sequence of the next message."""


class OrderedReader:
    """Reads a stream in order over any number of generations. For one thread at a time.

    ``last`` is the stream sequence up to which everything was handed out.
    """

    def __init__(
        self, js: ConsumerManager, stream: str, config: ConsumerConfig, prefix: str, max_resets: int
    ) -> None:
        self._js = js
        self._port = js._port
        self.stream = stream
        self._config = config
        self._prefix = prefix
        self._max_resets = max_resets
        self.generation: Generation | None = None
        self.last = 0
        self.resets = 0
        self.on_warning: Callable[[Exception], object] | None = None
        self.error: Error | None = None
        """Why it cannot go on."""
        self.info: ConsumerInfo | None = None
        self.name = ""
        """Of the server consumer that is or was read last."""
        self._begun = False
        self._boundary = 0  # what was in the stream when a last_per_subject reader was opened
        self._created: datetime | None = None  # the stream
        self._head = 0  # the stream reached at least to here
        self._failures = 0  # in a row, without a sign of life between them
        self._not_before = 0.0
        self._gone_since: float | None = None
        self._behind_since: float | None = None
        self._old: list[str] = []  # server consumers to delete

    # -- generations -------------------------------------------------------------------------------

    def open(self, timeout: float) -> None:
        """Make the first generation; what is wrong with the request is raised. Blocks."""
        deadline = Deadline(timeout)
        stream = self._stream_info(deadline.within(timeout))
        self._created = stream.created
        limit = stream.config.consumer_limits
        longest = limit.inactive_threshold if limit is not None else None
        if longest and longest < (self._config.inactive_threshold or 0):
            self._config = dataclasses.replace(self._config, inactive_threshold=longest)
        self._head = stream.state.last_seq
        info = self._make_first(deadline)
        if self._config.deliver_policy != DeliverPolicy.LAST_PER_SUBJECT:
            # Whatever the policy was: from now on it is "behind this sequence".
            self.last = info.delivered.stream_seq
        elif info.num_pending:
            self._boundary = self._head
        else:
            self.last = self._head
        self._begun = True

    def _make_first(self, deadline: Deadline) -> ConsumerInfo:
        """Make the first server consumer. What nobody answers is asked again, for another one: an
        election may have eaten the request, or the server chosen for it may be gone."""
        silence = _FIRST_SILENCE
        while True:
            try:
                return self._make(deadline.within(silence))
            except TimeoutError:
                if deadline.expired:
                    raise
                silence *= 2
            except DisconnectedError:
                if deadline.expired:
                    raise
                self._port.sleep(deadline.within(_FIRST_WAIT))

    def renew(
        self, deadline: Deadline, over: Callable[[], bool] = lambda: False
    ) -> Generation | None:
        """Return the generation to read from, and make one first when there is none.

        Tries until it succeeds, with growing pauses; None when the time is up or it is ``over``.
        Raises when reading cannot go on: the stream is gone or was made again, too many resets in
        a row, the connection has ended.
        """
        while self.generation is None and not over():
            self._port.check()
            if self.error is not None:
                raise self.error
            if deadline.expired:
                return None
            wait = self._not_before - time.monotonic()
            if wait > 0 or not self._port.linked:
                self._port.sleep(deadline.within(min(max(wait, 0.01), 0.05)))
                continue
            try:
                # A request that nobody answers is repeated soon: an election may have eaten it.
                patience = min(self._js._api.timeout, 1.0 + self._failures)
                self._make(deadline.within(patience))
                self._compare(deadline.within(patience))
            except (ConnectionClosedError, PermissionsError) as error:
                self.error = None if isinstance(error, ConnectionClosedError) else error
                raise
            except Error as error:
                self._failed(error)
        return self.generation

    def _stream_info(self, timeout: float) -> StreamInfo:
        operation = f"STREAM.INFO.{check_name('stream', self.stream)}"
        answer = self._js._api.request(operation, timeout=timeout, repeatable=True)
        return StreamInfo.from_wire(answer)

    def _make(self, timeout: float) -> ConsumerInfo:
        """Make a server consumer that begins behind ``last``."""
        name = self._prefix + next_nuid()
        epoch = self._port.epoch
        initial = self._begun and self._boundary > 0
        fields: dict[str, object] = {}
        if self._begun and not initial:
            fields = {
                "deliver_policy": DeliverPolicy.BY_START_SEQUENCE,
                "opt_start_seq": self.last + 1,
                "opt_start_time": None,
            }
        config = dataclasses.replace(self._config, name=name, **fields)  # type: ignore[arg-type]
        try:
            consumer = self._js.create_consumer(self.stream, config, timeout=timeout)
        except BaseException:
            self._old.append(name)  # although we do not hear of it, it may exist
            raise
        self.info = info = consumer.cached_info
        self.name = name
        self._gone_since = None
        self.generation = Generation(consumer, epoch, initial)
        self._delete_old()
        if initial and not info.num_pending:
            self._end_initial()
            self._drop("the initial values are complete")
        return info

    def _compare(self, timeout: float) -> None:
        """Find out whether the stream is still the one it was: else waiting would be for ever."""
        try:
            info = self._stream_info(timeout)
        except StreamNotFoundError:
            self._drop("the stream was not found")
            raise
        except Error:
            return  # nobody can tell now; the next reset asks again
        if info.created == self._created and info.state.last_seq >= self._head:
            self._behind_since = None
            return
        self._drop("the stream is another one")
        now = time.monotonic()
        self._behind_since = self._behind_since or now
        if now - self._behind_since < _ANOTHER_AFTER:
            raise DisconnectedError(
                f"the leader of stream {self.stream!r} is behind what was read already"
            )
        self.error = JetStreamError(
            f"stream {self.stream!r} is not the one it was: it was deleted and made again, or has "
            f"lost its end (last sequence {info.state.last_seq}, was {self._head}); "
            "make a new ordered consumer"
        )
        raise self.error

    def _failed(self, error: Error) -> None:
        """Take a failed attempt to make a server consumer: wait longer, or give up."""
        if self.error is not None:
            raise self.error
        now = time.monotonic()
        if isinstance(error, StreamNotFoundError):
            self._gone_since = self._gone_since or now
            if now - self._gone_since >= _GONE_AFTER:
                self.error = error
                raise error
        self._count(f"{type(error).__name__}: {error}")
        self.warn(error)

    def warn(self, error: Error) -> None:
        """Tell the user what is not right and is being dealt with."""
        if self.on_warning is not None:
            self.on_warning(error)
        self._port.report(error)

    def drop(self, reason: str) -> None:
        """Give the generation up; the next one begins behind ``last``."""
        if self.generation is None:
            return
        self._drop(reason)
        self.resets += 1
        self._count(reason)

    def _drop(self, reason: str) -> None:
        generation, self.generation = self.generation, None
        if generation is None:
            return
        logger.info("ordered consumer of %s at %d: %s", self.stream, self.last, reason)
        self._old.append(generation.consumer.name)
        self._retire(generation)

    def _retire(self, generation: Generation) -> None:
        generation.engine.close()
        if self._port.linked:
            self._delete_old()

    def _count(self, reason: str) -> None:
        """One more failure in a row: the first is repaired at once, the next ones ever later."""
        self._failures += 1
        if 0 <= self._max_resets < self._failures:
            self.error = JetStreamError(
                f"the ordered consumer of {self.stream!r} was reset {self._failures} times in a "
                f"row without a message between; last reason: {reason}"
            )
        wait = 0.0
        if self._failures > 1:
            wait = min(_FIRST_WAIT * 2.0 ** min(self._failures - 2, 8), _LONGEST_WAIT)
        self._not_before = time.monotonic() + wait

    def close(self) -> None:
        """Give up the generation and delete its server consumer. Does not block."""
        self._drop("closed")
        self._delete_old()

    def _delete_old(self) -> None:
        """Delete server consumers without waiting for the answers; those that cannot be deleted
        end by themselves after their inactive threshold."""
        while self._old:
            operation = f"CONSUMER.DELETE.{self.stream}.{self._old.pop()}"
            with contextlib.suppress(Error):
                self._port.connection.publish(self._js._api.subject(operation))

    # -- messages ----------------------------------------------------------------------------------

    def new_batch(self) -> MsgBatch:
        """An empty batch without a generation."""
        batch = MsgBatch()
        batch._ack_none = True
        return batch

    def receive(self, generation: Generation, limit: int, wait: float) -> tuple[MsgBatch, str]:
        """Take what is ready, at most ``limit`` messages; wait for the first up to ``wait`` s.

        Returns the batch, and the status with which a pull ended as it should, if one did. The
        batch is empty when nothing came, or what came did not follow: then the generation is
        dropped.
        """
        mailbox = generation.engine.mailbox
        batch = mailbox.new_batch(MsgBatch, self._port.outbound)
        batch._ack_none = True
        statuses = mailbox.take_into(batch, 1 if generation.initial else limit, wait)
        self._port.check()
        generation.engine.delivered(len(batch), batch.nbytes)
        trouble, done = self.judge(generation, statuses, len(batch), idle=not len(batch))
        if not self.accept(generation, batch, 0):
            return self.new_batch(), done
        if trouble is not None:
            self.drop(trouble)
        return batch, done

    def judge(
        self, generation: Generation, statuses: Sequence[Msg], taken: int, *, idle: bool
    ) -> tuple[str | None, str]:
        """Say why the generation is no good any more (None: it is), and with which status a pull
        ended as it should. ``taken`` messages are not accepted yet; ``idle``: none came now."""
        trouble, done = None, ""
        engine = generation.engine
        for msg in statuses:
            if msg.status == 100:
                self._failures = 0
                sent = msg.headers.get("Nats-Last-Consumer") or ""
                if sent.isdecimal() and int(sent) >= generation.next_seq + taken:
                    trouble = f"the server has sent {sent} messages, not all have arrived"
                continue
            ended = engine.on_status(msg)
            if ended is None:
                continue
            text = f"{msg.status} {msg.description}".rstrip()
            if ended.fate is Fate.DONE:
                done = text
            else:
                trouble = text
                if ended.fate is Fate.WARN and ended.error is not None:
                    self.warn(ended.error)
        if trouble is None and idle:
            if generation.epoch != self._port.epoch:
                trouble = "the link is another one"
            elif engine.mailbox.ended:
                trouble = "its inbox was refused, or the connection drains"
            elif self._port.linked and engine.drop_silent():
                trouble = "the server has missed two heartbeats"
                text = f"the ordered consumer of {self.stream!r}: {trouble}; starting again"
                self.warn(PullTerminatedError(text))
        return trouble, done

    def accept(self, generation: Generation, batch: MsgBatch, start: int) -> bool:
        """Check that the messages from index ``start`` on are the next ones; move on behind them.

        One link delivers in order, so a run that begins and ends with the right numbers and has
        the right length has no gap inside: nothing is done per message. When it is not so the
        generation is dropped and False returned.
        """
        count = len(batch) - start
        if count <= 0:
            return True
        try:
            # Without an index of the whole batch, but for the rare second part of one.
            first = message_jsack(batch[start] if start else batch._first())
            last = message_jsack(batch._last())
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
        self._head = max(self._head, seq)
        self._failures = 0

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

    def mark(self) -> tuple[int, int]:
        """The place as it is now, for :meth:`rewind`."""
        return self.last, self._boundary

    def rewind(self, mark: tuple[int, int], *, later: bool = False) -> None:
        """Go back to a place: what was read since then was not handed out and is read again.

        ``later`` leaves everything that takes a lock to the timer thread.
        """
        self.last, self._boundary = mark
        if not later:
            self._drop("going back")
            return
        generation, self.generation = self.generation, None
        if generation is not None:
            self._old.append(generation.consumer.name)
            self._port.later(0, lambda: self._retire(generation))
