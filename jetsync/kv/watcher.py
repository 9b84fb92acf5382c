"""Watcher: the entries of a bucket as they come, first those that are there (ADR-8)."""

from __future__ import annotations

from collections.abc import Sequence

from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync.errors import BucketNotFoundError
from jetsync.jetstream import JetStreamMsg, OrderedConsumer
from jetsync.jetstream.buckets.watcher import BucketWatcher
from jetsync.kv.backing import KeyValueBacking, gone
from jetsync.kv.entry import Entry, KeyValueOperation, from_delivery
from jetsync.kv.resume import ResumeToken

__all__ = ["Watcher"]

logger: Log = Log("jetsync.kv")


class Watcher(BucketWatcher[Entry]):
    """An endless iterator over the entries of a bucket. Made by ``KeyValue.watch``.

    First come the initial entries, those that were there when the watch began; :meth:`initial`
    iterates over them alone. Then it blocks until a key is written. No entry is left out and no
    revision comes twice, also when servers and connections fail. An entry that is replaced before
    it is read comes as its replacement; one that is replaced several times while the initial ones
    are read may come after them, as an update.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` may be called by any. As a
    context manager it stops at the end.
    """

    def __init__(
        self,
        backing: KeyValueBacking,
        patterns: Sequence[str],
        ordered: OrderedConsumer,
        *,
        end: int,
        ignore_deletes: bool,
        origin: ResumeToken | None,
    ) -> None:
        super().__init__(backing.js, backing.bucket, ordered, end)
        self._backing = backing
        self._patterns = patterns
        self._ignore_deletes = ignore_deletes
        self._origin = origin
        self._handed = ordered.last_seq
        logger.debug(
            "a watch of %s in bucket %s begins behind revision %d; %d was the last one",
            ", ".join(patterns),
            backing.bucket,
            ordered.last_seq,
            end,
        )

    @property
    def resume_token(self) -> str:
        """Where the watch has come to: give it to ``KeyValue.watch`` as ``resume_token`` to go on
        behind the last entry that was handed out, also in another process. Save it when the entry
        is dealt with. It says which bucket it is of, so a bucket that was deleted and made again is
        told from it. Does not block."""
        created_ns = self._origin.created_ns if self._origin is not None else 0
        return str(ResumeToken(created_ns, self._handed))

    def _read(self, msg: JetStreamMsg) -> Entry | None:
        entry = from_delivery(self._backing.bucket, msg.subject[len(self._backing.prefix) :], msg)
        self._handed = entry.revision
        is_left_out = self._ignore_deletes and entry.operation is not KeyValueOperation.PUT
        return None if is_left_out else entry

    def _last(self, deadline: Deadline) -> int:
        return self._backing.last_revision(self._patterns, deadline)

    def _gone(self) -> BucketNotFoundError:
        return gone(self._backing.bucket)
