"""Removing chunks that no description refers to, on the timer when the call has no time left.

When the call's time is over the removal goes on on the connection's timer: first it waits until no
chunk is under way any more, so that none is stored afterwards, then it requests the removal until
an answer comes. When that fails too, the chunks take room until ``ObjectStore.prune`` finds them; a
warning in the log names them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync.errors import DisconnectedError, Error, PermissionsError, TimeoutError
from jetsync.jetstream import PubAckFuture
from jetsync.jetstream.access import Member, Reply
from jetsync.jetstream.api import decode

if TYPE_CHECKING:
    from jetsync.objectstore.backing import ObjectBacking

__all__ = ["remove_chunks"]

logger: Log = Log("jetsync.objects")

_LONGEST = 5.0
"""Seconds that removing takes of a call that has no limit of its own."""
_STEP = 0.25
_DRAIN_STEP = 0.02
_ANSWER = 5.0
_GIVE_UP = 120.0


def remove_chunks(
    backing: ObjectBacking, nuid: str, deadline: Deadline, under_way: Sequence[PubAckFuture] = ()
) -> None:
    """Remove the chunks of one content, and those ``under_way`` when they are stored. Blocks for
    what is left of the call's time, at most a few seconds; never raises an error of the library."""
    limit = Deadline(deadline.within(_LONGEST))
    try:
        for future in under_way:
            with contextlib.suppress(TimeoutError):
                future.exception(limit.remaining())
        if not limit.expired and all(future.done() for future in under_way):
            backing.stream.purge(subject=backing.chunk_subject(nuid), timeout=limit.remaining())
            return
    except (TimeoutError, DisconnectedError):
        pass
    except Error as error:
        _log(backing, nuid, error)
        return
    _Removal(backing, nuid, under_way).step()


def _log(backing: ObjectBacking, nuid: str, why: object) -> None:
    logger.warning(
        "chunks of %s in bucket %s were not removed (%s): ObjectStore.prune() finds them",
        nuid,
        backing.bucket,
        why,
    )


class _Removal(Member):
    """A removal that goes on behind the call that began it, on the timer thread."""

    def __init__(
        self, backing: ObjectBacking, nuid: str, under_way: Sequence[PubAckFuture]
    ) -> None:
        self._backing = backing
        self._nuid = nuid
        self._under_way = under_way
        self._give_up = Deadline(_GIVE_UP)
        self._answer: Reply | None = None
        self._answer_by = Deadline(None)
        self._port = backing.api.port
        self._is_over = False
        self._port.attach(self, hold=True)

    def step(self) -> None:
        """Do the next step that is possible, and schedule another one. Does not block."""
        try:
            if self._is_over or self._is_removed():
                self._end()
                return
        except Error as error:
            self._end(error)
            return
        if self._give_up.expired:
            self._end("the server did not answer")
            return
        self._port.later(_STEP, self.step)

    def _is_removed(self) -> bool:
        """Read the answer if it came, and send the request (again) when it is due."""
        if self._answer is not None:
            msg = self._answer.mailbox.get(0)
            if msg is not None:
                decode(msg.data)
                return True
            if isinstance(self._answer.mailbox.error, PermissionsError):
                raise self._answer.mailbox.error
            if not self._answer_by.expired and self._answer.mailbox.error is None:
                return False
            self._answer.close()
            self._answer = None
        if self._port.linked and all(future.done() for future in self._under_way):
            subject = self._backing.api.subject(f"STREAM.PURGE.{self._backing.stream.name}")
            body = json.dumps({"filter": self._backing.chunk_subject(self._nuid)}).encode()
            self._answer = self._port.ask(subject, body, seconds=0)
            self._answer_by = Deadline(_ANSWER)
        return False

    def _end(self, why: object = None) -> None:
        if self._answer is not None:
            self._answer.close()
        self._port.detach(self)
        if why is not None and not self._is_over:
            _log(self._backing, self._nuid, why)
        self._is_over = True

    def drain(self, deadline: Deadline) -> None:
        """Wait until the chunks are removed, for half of the time: the rest of the drain has to
        fit in too, and chunks that stay are in the log."""
        limit = Deadline(deadline.within(_GIVE_UP) / 2)
        while not self._is_over and not limit.expired:
            self._port.sleep(limit.within(_DRAIN_STEP))

    def close(self) -> None:
        """The connection has ended, and nothing can be removed any more."""
        self._end("the connection was closed")
