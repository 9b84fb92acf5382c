"""Watching a bucket: an iterator over the writes of some keys."""

from __future__ import annotations

from collections.abc import Sequence

from jetsync._deadline import Deadline, Seconds
from jetsync.errors import ConfigError, KeyValueError
from jetsync.jetstream.config.consumer import DeliverPolicy
from jetsync.kv.names import check_patterns
from jetsync.kv.reading import Reading, check_revision
from jetsync.kv.resume import ResumeToken
from jetsync.kv.status import KeyValueStatus
from jetsync.kv.watcher import Watcher

__all__ = ["Watching"]


class Watching(Reading):
    """The calls of ``KeyValue`` that follow writes."""

    def watch(
        self,
        keys: str | Sequence[str] = ">",
        *,
        ignore_deletes: bool = False,
        include_history: bool = False,
        updates_only: bool = False,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
        resume_token: str | None = None,
        timeout: Seconds | None = None,
    ) -> Watcher:
        """Return an iterator over the entries of a key, or of all keys that match a pattern.

        ``keys`` is one or several patterns, with the wildcards ``*`` (one token) and ``>`` (the
        rest), that do not overlap. It begins with the last entry of each key; with
        ``include_history`` with all entries that the bucket has kept; with ``updates_only`` with
        the next one that is written. With ``resume_token`` (``Watcher.resume_token`` of an earlier
        watch) it goes on behind the last entry of that watch; with ``resume_from_revision`` it
        begins with that revision, of whatever bucket has this name now. ``ignore_deletes`` leaves
        out deletions, ``meta_only`` the values.

        Blocks for four round trips, up to ``timeout`` seconds (default: the JetStream object's).
        Raises KeyValueError for a revision that the bucket has not reached, or for a token of a
        bucket that was deleted and made again since; BucketNotFoundError or another APIError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        patterns = check_patterns(keys)
        if (
            include_history
            + updates_only
            + (resume_from_revision is not None)
            + (resume_token is not None)
        ) > 1:
            raise ConfigError(
                "include_history, updates_only, resume_from_revision and resume_token exclude "
                "each other"
            )
        token = None if resume_token is None else ResumeToken.parse(resume_token)
        if resume_from_revision is not None:
            check_revision(resume_from_revision)
        start = resume_from_revision if token is None else token.revision + 1
        deadline = self._deadline(timeout)
        status = self.status(timeout=deadline.remaining())
        now = ResumeToken.of(status)
        if token is not None and token.created_ns != now.created_ns:
            raise KeyValueError(
                f"bucket {self.bucket!r} was deleted and made again since, so a watch cannot go "
                f"on behind revision {token.revision} of the old one: begin a new watch",
                bucket=self.bucket,
            )
        if start is not None:
            self._check_reached(start - 1, status)
        return self._watch(
            patterns,
            deadline,
            include_history=include_history,
            updates_only=updates_only,
            meta_only=meta_only,
            ignore_deletes=ignore_deletes,
            start=start,
            origin=now,
        )

    def _watch(
        self,
        patterns: Sequence[str],
        deadline: Deadline,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        meta_only: bool = False,
        ignore_deletes: bool = False,
        start: int | None = None,
        origin: ResumeToken | None = None,
    ) -> Watcher:
        policy = DeliverPolicy.LAST_PER_SUBJECT
        if include_history:
            policy = DeliverPolicy.ALL
        elif updates_only:
            policy = DeliverPolicy.NEW
        elif start is not None:
            policy = DeliverPolicy.BY_START_SEQUENCE
        backing, end = self._backing, 0
        with self._named():
            ordered = backing.js.ordered_consumer(
                backing.stream,
                filter_subjects=[backing.prefix + pattern for pattern in patterns],
                deliver_policy=policy,
                opt_start_seq=start,
                headers_only=meta_only,
                timeout=deadline.remaining(),
            )
            if not updates_only:
                end = backing.last_revision(patterns, deadline)
        return Watcher(
            backing, patterns, ordered, end=end, ignore_deletes=ignore_deletes, origin=origin
        )

    def _check_reached(self, revision: int, status: KeyValueStatus) -> None:
        """Raise KeyValueError for a revision that the bucket never had."""
        last = status.stream_info.state.last_seq
        if revision > last:
            raise KeyValueError(
                f"bucket {self.bucket!r} has no revision above {last}, so a watch cannot go on "
                f"behind {revision}: it was made again or has lost its end",
                bucket=self.bucket,
            )
