"""fetch: one batch, one deadline. Loops over pulls only when the world breaks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import ConsumerDeletedError, JetStreamError
from jetsync.jetstream.message import MsgBatch
from jetsync.jetstream.pull import HUGE_BATCH, Fate, PullEngine, PullOptions

if TYPE_CHECKING:
    from jetsync.jetstream.consumer import Consumer

__all__ = ["fetch"]

# The server is asked to end the pull this much before the caller's own deadline, so that its last
# word arrives in time and no message is sent to somebody who has left.
_MARGIN = 0.02
_RETRY_WAIT = 0.1


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
    deadline = Deadline(timeout)
    limit = max_messages if max_messages is not None else HUGE_BATCH
    batch: MsgBatch = engine.mailbox.new_batch(MsgBatch, consumer._js._nc._outbound)
    batch._ack_none = consumer._ack_none

    def pull() -> bool:
        """Ask for what is missing; False when there is no time left for it."""
        left = deadline.within(3600.0)
        expires = max(left - min(_MARGIN, left / 4), 0.001)
        if left <= 0.001 and not no_wait:
            return False
        beat = heartbeat if heartbeat is not None and heartbeat * 2 <= expires else None
        remaining_bytes = None if max_bytes is None else max(1, max_bytes - batch.nbytes)
        engine.pull(
            PullOptions(
                batch=limit - len(batch),
                expires=expires,
                max_bytes=remaining_bytes,
                heartbeat=beat,
                no_wait=no_wait or eager,
                **group,  # type: ignore[arg-type]
            )
        )
        return True

    pulling = pull()
    while pulling and len(batch) < limit:
        before, before_bytes = len(batch), batch.nbytes
        wait = deadline.within(heartbeat if heartbeat is not None else 3600.0)
        statuses = engine.mailbox.take_into(batch, limit, wait)
        engine.delivered(len(batch) - before, batch.nbytes - before_bytes)
        # The connection may have ended, or a signal may have to be seen.
        consumer._js._nc._check()
        again = engine.lost_link() or engine.drop_silent()
        for msg in statuses:
            ended = engine.on_status(msg)
            if ended is None:
                continue
            if ended.fate is Fate.FATAL:
                return _ended(batch, ended.error)
            if ended.fate is Fate.WARN:
                return _ended(batch, ended.error)
            if ended.fate is Fate.DONE:
                return batch
            if ended.fate is Fate.LOST:
                gone = engine.exists()
                if gone is not None:
                    return _ended(batch, gone)  # type: ignore[arg-type]
                consumer._js._nc._pause(deadline.within(_RETRY_WAIT))
            again = True
        if deadline.expired:
            break
        if again and not engine.outstanding:
            while not consumer._js._nc.is_connected and not deadline.expired:
                consumer._js._nc._check()
                consumer._js._nc._pause(deadline.within(_RETRY_WAIT))
            engine.lost_link()
            pulling = pull()
    if engine.outstanding:
        # Out of time without a last word: leave, so that nothing is delivered to nobody.
        consumer._discard(engine)
    return batch


def _ended(batch: MsgBatch, error: JetStreamError | None) -> MsgBatch:
    """A pull that ended early: what came is returned with the reason; nothing came is an error."""
    batch.error = error
    if error is not None and not len(batch) and isinstance(error, ConsumerDeletedError):
        raise error
    if error is not None and not len(batch):
        raise error
    return batch
