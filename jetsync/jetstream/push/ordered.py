"""OrderedPushSubscription: a push subscription that misses nothing and repeats nothing (ADR-17).

Its consumer needs no acknowledgements and may end at any time. Whenever something is missing, or
might be (another link, no heartbeats, the consumer is gone), a new one is made behind the last
message that was handed out, on a new inbox: what the old one still sends is dropped. The thread
that takes the next message makes it; a subscription that is not read is not reset.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync.errors import ConnectionClosedError, Error
from jetsync.jetstream.config.consumer import ConsumerConfig, DeliverPolicy
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.jetstream.consumers.requests import put_any_consumer
from jetsync.jetstream.ordered.recovery import Recovery
from jetsync.jetstream.push.receiver import SHORTEST_REQUEST, PushOptions
from jetsync.jetstream.push.status import ConsumerSequence
from jetsync.jetstream.push.subscription import PushSubscription

if TYPE_CHECKING:
    from jetsync.jetstream.api import API

__all__ = ["OrderedPushSubscription"]

logger: Log = Log("jetsync.pull")


class OrderedPushSubscription(PushSubscription):
    """Every message of a stream once and in order. Made by ``JetStream.subscribe(ordered=True)``.

    Resets happen while a thread waits for a message, which does not see them. Ends with
    StreamNotFoundError when the stream was deleted, JetStreamError when it was deleted and made
    again.
    """

    def __init__(
        self,
        api: API,
        options: PushOptions,
        stream: str,
        to_create: Callable[[str | None], ConsumerConfig],
    ) -> None:
        super().__init__(api, None, options)
        self._stream = stream
        self._to_create = to_create
        self._deliveries.ordered = True
        self._recovery = Recovery(stream)
        self._failed_at = -1  # the last sequence at the last failure

    def _begin_sequences(self, info: ConsumerInfo, created: bool) -> ConsumerSequence:
        if info.config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT:
            return ConsumerSequence(0)
        # From now on the position is a sequence, whichever policy it began with.
        return ConsumerSequence(0, info.delivered.stream_seq)

    @property
    def _last(self) -> int:
        """Stream sequence of the last message handed out."""
        return 0 if self._sequence is None else self._sequence.stream

    # -- what is wrong -----------------------------------------------------------------------------

    def _on_delivery(self, stream_seq: int, consumer_seq: int) -> bool:
        assert self._sequence is not None
        expected = (self._sequence.last or 0) + 1
        if consumer_seq != expected or stream_seq <= self._last:
            self._reset(
                f"consumer sequence {consumer_seq} (stream {stream_seq}) came, {expected} was next"
            )
            return False
        self._sequence.delivery(consumer_seq, stream_seq)
        if self._mailbox.dropped and not self._mailbox.pending_messages:
            self._reset("too many messages waited, the last ones were dropped")
        return True

    def _on_gap(self, expected: int, received: int) -> None:
        self._reset(f"consumer sequences {expected} to {received - 1} did not arrive")

    def _on_new_link(self) -> None:
        self._reset("the link is another one")

    def _on_silence(self) -> None:
        super()._on_silence()
        self._reset("no heartbeats came")

    def _gone(self, reason: str) -> None:
        self._reset(reason)

    def _reset(self, reason: str) -> None:
        """Have a new consumer made by the thread that takes the next message. Any thread may call
        this; it does not block."""
        if self._suspect_since is not None:
            return
        logger.info("ordered subscription of %s at %d: %s", self._stream, self._last, reason)
        if self._last != self._failed_at:
            self._recovery.progress(self._last)
            self._failed_at = self._last
        self._recovery.failed(reason, time.monotonic())
        self._suspect_since = self._recovery.not_before
        self._mailbox.wake()

    # -- recovery ----------------------------------------------------------------------------------

    def _check_consumer(self, deadline: Deadline) -> None:
        due = self._suspect_since
        if due is None or due > time.monotonic() or not self._port.linked:
            return
        if self._over or self._mailbox.finished:
            return
        self._suspect_since = None
        patience = self._recovery.attempt(time.monotonic())
        try:
            self._check_stream(max(deadline.within(patience), SHORTEST_REQUEST))
            self._renew(max(deadline.within(patience), SHORTEST_REQUEST))
        except ConnectionClosedError:
            self._mailbox.finish()
        except Error as error:
            if self._recovery.is_final(error, time.monotonic()):
                self._fail(error)
            else:
                self._again(error)

    def _again(self, error: Error) -> None:
        if self._over:
            return
        self._suspect_since = None
        self._reset(f"{type(error).__name__}: {error}")

    def _fail(self, error: Error) -> None:
        self._mailbox.discard()
        self._early.clear()
        self._mailbox.finish(error)
        self._end()

    def _check_stream(self, timeout: float) -> None:
        """Check that the stream is still the same: in another one the position has no meaning."""
        answer = self._api.request(f"STREAM.INFO.{self._stream}", timeout=timeout, repeatable=True)
        self._recovery.reached(self._last)
        error = self._recovery.compare(StreamInfo.from_wire(answer), time.monotonic())
        if error is not None:
            self._fail(error)

    def _renew(self, timeout: float) -> None:
        """Make a consumer behind the last message. ``_turn`` is held. Blocks; raises what fails."""
        if self._over:
            return
        old = self.name
        self._early.clear()
        self._listen(self._port.new_inbox())
        # From here on only the new inbox is read, even if the answer below gets lost.
        self._deliveries.sequences = ConsumerSequence(0, self._last)
        self._flow = None
        inboxes: dict[str, str] = {}

        def config_of(name: str) -> ConsumerConfig:
            # A consumer that is not needed sends nothing: nothing listens on its inbox.
            inboxes[name] = self._port.new_inbox() if inboxes else self.subject
            config = dataclasses.replace(self._to_create(inboxes[name]), name=name)
            if not self._last and config.deliver_policy != DeliverPolicy.NEW:
                return config
            return dataclasses.replace(
                config,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self._last + 1,
                opt_start_time=None,
            )

        info = put_any_consumer(self._api, self._stream, "", config_of, timeout, self._discard)
        if inboxes[info.name] != self.subject:
            self._listen(inboxes[info.name])
        self._bound.info = info
        self._flow = self._flow_control(info)
        if self._watch is not None:
            self._watch.restart()
        self.resets += 1
        self._discard(self.name if self._over else old)

    def _discard(self, name: str) -> None:
        """Delete a consumer without waiting; else it ends by its inactive threshold."""
        with contextlib.suppress(Error):
            operation = f"CONSUMER.DELETE.{self._stream}.{name}"
            self._port.send(self._api.subject(operation), seconds=0.0)
