"""KeyValueBacking: the stream that a bucket is read from, and the one it is written to.

That is one stream, except for a mirror: reads come from the copy, writes go to the origin, maybe in
another domain, and the reads that decide about a write go to the origin too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import (
    ApiLevelRequiredError,
    BucketNotFoundError,
    DirectGetNotAllowedError,
    DisconnectedError,
    Error,
    JetStreamUnavailableError,
    KeyValueError,
    MessageNotFoundError,
    PermissionsError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream import StoredMsg
from jetsync.jetstream.access import api_of, at_prefix
from jetsync.jetstream.config.stream import StreamConfig
from jetsync.jetstream.streams.direct import get_from_leader, get_one, read_many
from jetsync.kv.names import STREAM_PREFIX, subjects

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream
    from jetsync.jetstream.api import API

__all__ = ["KeyValueBacking", "gone", "prefix_of"]

_DEFAULT_API = "$JS.API"
_ANOTHER_ANSWERS = 1.0
"""Seconds for a server that holds the bucket to answer, before the leader is asked."""
_ASK_THE_LEADER = (
    DirectGetNotAllowedError,
    DisconnectedError,
    JetStreamUnavailableError,
    TimeoutError,
)
"""Errors of a direct get that do not tell whether the entry exists."""
_LEAST = 0.2
"""Seconds for a request at the end of a call whose own time is over."""
_ORIGIN_ANSWERS = 2.0
"""Seconds for an origin to answer; a copy can be read while its origin is away."""


class KeyValueBacking:
    """The streams behind one bucket, as they were when the bucket was looked up. Thread-safe."""

    def __init__(self, js: JetStream, config: StreamConfig) -> None:
        self.js = js
        self.api: API = api_of(js)
        self.stream: str = config.name
        self.bucket: str = config.name.removeprefix(STREAM_PREFIX)
        self.is_direct: bool = config.allow_direct
        self.origin: JetStream = js
        """JetStream as seen from where the bucket is written."""
        self.origin_stream: str = self.stream
        self.prefix: str = prefix_of(config)
        """The prefix of the subjects of the entries that are read."""
        mirror = config.mirror
        if mirror is not None:
            self.origin_stream = mirror.name
            api = mirror.external.api if mirror.external is not None else self.api.prefix
            if api != self.api.prefix:
                self.origin = at_prefix(js, api)
        self.origin_prefix: str = subjects(self.origin_stream.removeprefix(STREAM_PREFIX))
        # A stream of another domain takes entries below the prefix of its API (ADR-19).
        api = api_of(self.origin).prefix
        self.write_prefix: str = self.origin_prefix
        if api != _DEFAULT_API:
            self.write_prefix = f"{api}.{self.origin_prefix}"

    def check_origin(self, deadline: Deadline) -> None:
        """Refuse a mirror of a mirror. Blocks, for a mirror; does not fail when its origin is away.

        Its entries have the subjects of the first bucket, where no client would look for them, and
        writes would go to a stream that takes none. Raises KeyValueError.
        """
        if self.origin_stream == self.stream:
            return
        try:
            info = self.origin.stream(
                self.origin_stream, timeout=deadline.within(_ORIGIN_ANSWERS)
            ).cached_info
        except Error:
            return
        first = info.config.mirror
        if first is not None:
            raise KeyValueError(
                f"bucket {self.bucket!r} is a mirror of {self.origin_stream!r}, which is a mirror "
                f"itself: mirror {first.name!r} instead",
                bucket=self.bucket,
            )

    def read(
        self, key: str, revision: int | None, deadline: Deadline, *, direct: bool
    ) -> StoredMsg:
        """Return the last message of a key, or the one of a revision. Blocks.

        With ``direct`` any server that holds it may answer, else the leader of the origin does.
        Raises MessageNotFoundError.
        """
        if direct and self.is_direct:
            return self._read_anywhere(key, revision, deadline)
        subject = self.origin_prefix + key
        if revision is None:
            return self._ask_origin({"last_by_subj": subject}, deadline)
        return _of(subject, self._ask_origin({"seq": revision}, deadline))

    def _read_anywhere(self, key: str, revision: int | None, deadline: Deadline) -> StoredMsg:
        """Ask any server that holds the bucket, and the leader when another stream answered.

        A mirror of the bucket may answer in its place, with what it has copied so far: such an
        answer does not count, and neither does a "not found", which does not name its stream. A
        server that does not answer may be frozen while the leader is not.
        """
        subject = self.prefix + key
        first = Deadline(deadline.within(_ANOTHER_ANSWERS))
        left = deadline.remaining()
        if left is not None and left < 2 * _ANOTHER_ANSWERS:
            first = Deadline(left / 2)
        refusal: Exception | None = None
        try:
            if revision is None:
                msg = get_one(self.api, self.stream, {}, first, last_of=subject)
            else:
                msg = get_one(self.api, self.stream, {"seq": revision}, first)
            if msg.stream == self.stream:
                return msg if revision is None else _of(subject, msg)
        except MessageNotFoundError as error:
            if self.origin_stream != self.stream:
                raise  # the bucket is a mirror itself: it cannot have another one
            refusal = error
        except _ASK_THE_LEADER:
            pass
        body: dict[str, object] = {"seq": revision} if revision else {"last_by_subj": subject}
        try:
            msg = get_from_leader(self.api, self.stream, body, deadline)
        except PermissionsError:
            if refusal is not None:
                raise refusal from None
            raise
        return msg if revision is None else _of(subject, msg)

    def read_many(self, keys: Sequence[str], deadline: Deadline) -> dict[str, StoredMsg] | None:
        """Return the last messages of several keys, as of one moment; those of keys that never had
        any are missing. Blocks. None when the server has no such request, or when another stream
        answered (see :meth:`read`)."""
        if not self.is_direct:
            return None
        body = {"multi_last": [self.prefix + key for key in keys]}
        first = Deadline(deadline.within(_ANOTHER_ANSWERS))
        try:
            self.api.require("reading many keys at once", "2.11")
            batch = read_many(self.api, self.stream, body, first)
        except (ApiLevelRequiredError, *_ASK_THE_LEADER):
            return None
        found: dict[str, StoredMsg] = {}
        for msg in batch:
            meta = msg.metadata
            if meta.stream != self.stream:
                return None
            found[msg.subject[len(self.prefix) :]] = StoredMsg(
                subject=msg.subject,
                seq=meta.stream_seq,
                data=msg.data,
                time=None,
                raw_headers=msg.raw_headers,
                time_ns=meta.timestamp_ns,
                stream=meta.stream,
            )
        return found if found and batch.error is None else None

    def last_revision(self, patterns: Sequence[str], deadline: Deadline) -> int:
        """Return the highest revision of the matching keys; 0 for none. Blocks.

        It is looked up where entries are read, by the leader.
        """
        last = 0
        for pattern in patterns:
            body: dict[str, object] = {"last_by_subj": self.prefix + pattern}
            with contextlib.suppress(MessageNotFoundError):
                last = max(last, get_from_leader(self.api, self.stream, body, deadline).seq)
        return last

    def last(self, key: str, deadline: Deadline) -> StoredMsg | None:
        """Return the last message of a key, as the leader knows it; None for none. Blocks."""
        try:
            return self.read(key, None, deadline, direct=False)
        except MessageNotFoundError:
            return None

    def is_gone(self) -> bool:
        """Whether the stream for writes certainly does not exist. Blocks for a moment."""
        try:
            self.origin.stream(self.origin_stream, timeout=_LEAST)
        except StreamNotFoundError:
            return True
        except Error:
            pass
        return False

    def first_behind(self, key: str, revision: int, deadline: Deadline) -> StoredMsg | None:
        """Return the first message of a key behind a revision, as the leader knows it. Blocks."""
        body = {"seq": revision + 1, "next_by_subj": self.origin_prefix + key}
        try:
            return self._ask_origin(body, deadline)
        except MessageNotFoundError:
            return None

    def purge(self, key: str, below: int, deadline: Deadline) -> int:
        """Remove the messages of a key below a revision; return how many there were. Blocks."""
        answer = api_of(self.origin).request(
            f"STREAM.PURGE.{self.origin_stream}",
            {"filter": self.origin_prefix + key, "seq": below},
            timeout=deadline.remaining(),
        )
        return int(answer.get("purged", 0))

    def _ask_origin(self, body: dict[str, object], deadline: Deadline) -> StoredMsg:
        return get_from_leader(api_of(self.origin), self.origin_stream, body, deadline)


def prefix_of(config: StreamConfig) -> str:
    """The prefix of the subjects of the entries in a bucket's stream. Does not block.

    A mirror keeps those of its origin, if it does not transform them.
    """
    mirror = config.mirror
    is_copy = mirror is not None and not mirror.subject_transforms
    name = mirror.name if mirror is not None and is_copy else config.name
    return subjects(name.removeprefix(STREAM_PREFIX))


def gone(bucket: str) -> BucketNotFoundError:
    """The error for a bucket that is not there."""
    return BucketNotFoundError(
        f"there is no bucket {bucket!r}: create it, or correct the name or the domain",
        bucket=bucket,
    )


def _of(subject: str, msg: StoredMsg) -> StoredMsg:
    """Return a message that was read by its sequence if it is one of ``subject``."""
    if msg.subject != subject:
        raise MessageNotFoundError("this revision belongs to another key", code=404)
    return msg
