"""fetch: one batch, one deadline. Loops over pulls only when the world breaks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import DrainingError, JetStreamError
from jetsync.jetstream.consumers.priority import shared_pin
from jetsync.jetstream.message import MsgBatch
from jetsync.jetstream.pull.engine import (
    HUGE_BATCH,
    WARY_HEARTBEAT,
    EndedPull,
    Fate,
    PullEngine,
    PullOptions,
)

if TYPE_CHECKING:
    from jetsync.jetstream.consumers.consumer import Consumer

__all__ = ["fetch"]

# The server is asked to end the pull this much before the caller's own deadline, so that its last
# word arrives in time and no message is sent to somebody who has left.
_MARGIN = 0.02
_RETRY_WAIT = 0.1
_VOID_WAIT = 0.01
# With no_wait alone a server says nothing when max_ack_pending is reached. After so much silence a
# second pull, which does expire, is sent behind it: its end is the end of both.
_SILENCE = 0.2
_SECOND = 0.02
# An eager fetch has taken what there was when nothing more came for so long.
_EAGER = 0.02


def fetch(
    consumer: Consumer,
    engine: PullEngine,
    *,
    max_messages: int | None,
    max_bytes: int | None,
    timeout: float,
    heartbeat: float | None,
    no_wait: bool,
    eager: bool,
    group: dict[str, object],
) -> MsgBatch:
    """Fetch one batch with an engine that nobody else uses meanwhile."""
    engine.pin = shared_pin(consumer, group.get("group"))
    batch = engine.new_batch()
    work = _Fetch(
        consumer,
        engine,
        batch,
        limit=max_messages if max_messages is not None else HUGE_BATCH,
        max_bytes=max_bytes,
        deadline=Deadline(timeout),
        heartbeat=heartbeat,
        no_wait=no_wait,
        eager=eager,
        group=group,
    )
    try:
        work.run()
    except BaseException:
        # Interrupted, or the consumer cannot be used: nobody will see what came.
        engine.close(batch)
        raise
    if engine.outstanding:
        # Out of time without a last word: leave, so that nothing is delivered to nobody.
        engine.close()
    return batch


class _Fetch:
    """One fetch: pulls until the batch is full, its time is up, or the server ends it."""

    def __init__(
        self,
        consumer: Consumer,
        engine: PullEngine,
        batch: MsgBatch,
        *,
        limit: int,
        max_bytes: int | None,
        deadline: Deadline,
        heartbeat: float | None,
        no_wait: bool,
        eager: bool,
        group: dict[str, object],
    ) -> None:
        self._port = consumer._js._port
        self._engine = engine
        self._batch = batch
        self._limit = limit
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._heartbeat = heartbeat
        self._no_wait = no_wait
        self._eager = eager
        self._group = group
        self._not_before = Deadline(0)  # when the next pull may be sent
        self._asked_twice = False
        self._wary = False
        self._over = False

    def run(self) -> None:
        engine, batch = self._engine, self._batch
        # Whatever happened to the link since the last fetch is not about this one.
        engine.lost_link()
        self._pull()
        while True:
            before, size = len(batch), batch.nbytes
            # All at once, if nothing has to be looked at before: one wake-up for the whole batch.
            least = 1 if self._eager else self._limit
            statuses = engine.mailbox.take_into(batch, self._limit, self._wait(), least)
            after = len(batch)
            engine.delivered(after - before, batch.nbytes - size)
            if after > before:
                engine.learn(batch)
            # The connection may have ended, or a signal may have to be seen.
            self._port.check()
            for msg in statuses:
                ended = engine.on_status(msg)
                if ended is not None:
                    self._on_end(ended)
            if self._over or after >= self._limit:
                return
            if not engine.lost_link():
                engine.drop_silent()
            if self._deadline.expired:
                return
            if engine.mailbox.ended:
                # The inbox is no more: the connection drains, or the server refused it.
                self._fail(engine.mailbox.error or DrainingError("the connection is draining"))
                return
            if self._eager and before and after == before and not statuses:
                return
            if engine.outstanding:
                self._nudge(statuses or after > before)
            else:
                self._pull()

    def _wait(self) -> float:
        """How long to wait for the next message before something has to be looked at."""
        if self._eager and len(self._batch):
            return self._deadline.within(_EAGER)
        if self._no_wait and not self._asked_twice and self._engine.outstanding:
            return self._deadline.within(_SILENCE)
        if not self._engine.outstanding and self._engine.linked:
            return self._deadline.within(self._not_before.within(_RETRY_WAIT) + 0.001)
        return self._deadline.within(self._engine.next_look())

    def _pull(self) -> None:
        """Ask for what is missing, when that is possible now; the loop comes back if it is not."""
        if not self._engine.linked or not self._not_before.expired:
            return
        left = self._deadline.within(3600.0)
        expires = left - min(_MARGIN, left / 4)
        if self._no_wait:
            expires = 0.0
        elif expires < 0.001:
            # Too little time for a pull of its own; what is asked for first is asked for anyway.
            expires = 0.001
        beat = WARY_HEARTBEAT if self._wary else self._heartbeat
        if beat is not None and beat * 2 > expires:
            beat = None
        batch, max_bytes = self._batch, self._max_bytes
        self._asked_twice = False
        self._send(
            self._limit - len(batch),
            expires,
            max_bytes=None if max_bytes is None else max(1, max_bytes - batch.nbytes),
            heartbeat=beat,
            no_wait=self._no_wait or self._eager,
        )

    def _nudge(self, heard: object) -> None:
        if self._no_wait and not heard and not self._asked_twice and self._engine.linked:
            self._asked_twice = True
            self._send(1, _SECOND, no_wait=True)

    def _send(
        self,
        count: int,
        expires: float,
        *,
        no_wait: bool,
        max_bytes: int | None = None,
        heartbeat: float | None = None,
    ) -> None:
        self._engine.pull(
            PullOptions(
                batch=count,
                expires=expires,
                max_bytes=max_bytes,
                heartbeat=heartbeat,
                no_wait=no_wait,
                **self._group,  # type: ignore[arg-type]
            )
        )

    def _on_end(self, ended: EndedPull) -> None:
        error: JetStreamError | None = ended.error
        if ended.fate is Fate.LOST:
            error = self._engine.why_gone()
            self._not_before = Deadline(_RETRY_WAIT)
        if error is not None:
            self._fail(error)
        elif ended.fate is Fate.DONE:
            self._over = True
        elif ended.fate is Fate.VOID:
            # A server that is shutting down would say so again at once.
            self._not_before = Deadline(_VOID_WAIT)
            self._wary = True

    def _fail(self, error: Exception) -> None:
        """What came is returned with the reason; nothing came is an error."""
        if not len(self._batch):
            raise error
        self._batch.error = error
        self._over = True
