"""Where the entries of a bucket are read and where they are written.

That is one stream, except for a mirror: reads come from the copy, writes go to the stream it is a
copy of, maybe in another domain, and what is decided before a write is read there too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetsync._api_errors import MessageNotFoundError
from jetsync._deadline import Deadline
from jetsync.errors import BucketNotFoundError, Error, KeyValueError
from jetsync.jetstream import DirectGetNotAllowedError, StoredMsg
from jetsync.jetstream.streams.config import StreamConfig
from jetsync.jetstream.streams.direct import get_from_leader, get_one
from jetsync.kv.names import STREAM_PREFIX, subjects

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream

__all__ = ["Place", "gone"]

_DEFAULT_API = "$JS.API"
_ORIGIN_ANSWERS = 2.0
"""Seconds for an origin to say what it is; reading a copy has to go on while it is away."""


class Place:
    """The streams of one bucket, as they were when the bucket was looked up. Thread-safe."""

    def __init__(self, js: JetStream, config: StreamConfig) -> None:
        self.js = js
        self.stream = config.name
        self.bucket = config.name.removeprefix(STREAM_PREFIX)
        self._direct = config.allow_direct
        self.origin = js
        """JetStream as seen from where the bucket is written."""
        self.origin_stream = self.stream
        self.prefix = subjects(self.bucket)
        """What the subjects of the entries that are read begin with."""
        mirror = config.mirror
        if mirror is not None:
            self.origin_stream = mirror.name
            api = mirror.external.api if mirror.external is not None else js._api.prefix
            if api != js._api.prefix:
                self.origin = js._nc.jetstream(
                    api_prefix=api, timeout=js._api.timeout, auto_msg_id=js._auto_msg_id
                )
        self.origin_prefix = subjects(self.origin_stream.removeprefix(STREAM_PREFIX))
        if mirror is not None and not mirror.subject_transforms:
            self.prefix = self.origin_prefix
        # A stream of another domain takes entries below the prefix of its API (ADR-19).
        api = self.origin._api.prefix
        self.write_prefix = self.origin_prefix
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
            info = self.origin._stream_info(
                self.origin_stream, None, False, deadline.within(_ORIGIN_ANSWERS)
            )
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
        if direct and self._direct:
            subject = self.prefix + key
            try:
                if revision is None:
                    return get_one(self.js, self.stream, {}, deadline, last_of=subject)
                return _of(subject, get_one(self.js, self.stream, {"seq": revision}, deadline))
            except DirectGetNotAllowedError:
                pass  # turned off since; the leader always answers
        subject = self.origin_prefix + key
        if revision is None:
            return self._ask_origin({"last_by_subj": subject}, deadline)
        return _of(subject, self._ask_origin({"seq": revision}, deadline))

    def last_revision(self, patterns: Sequence[str], deadline: Deadline) -> int:
        """Return the last revision that is there of keys that match; 0 for none. Blocks.

        It is looked up where entries are read, by the leader.
        """
        last = 0
        for pattern in patterns:
            body: dict[str, object] = {"last_by_subj": self.prefix + pattern}
            with contextlib.suppress(MessageNotFoundError):
                last = max(last, get_from_leader(self.js, self.stream, body, deadline).seq)
        return last

    def first_behind(self, key: str, revision: int, deadline: Deadline) -> StoredMsg | None:
        """Return the first message of a key behind a revision, as the leader knows it. Blocks."""
        body = {"seq": revision + 1, "next_by_subj": self.origin_prefix + key}
        try:
            return self._ask_origin(body, deadline)
        except MessageNotFoundError:
            return None

    def purge(self, key: str, below: int, deadline: Deadline) -> int:
        """Remove the messages of a key below a revision; return how many there were. Blocks."""
        answer = self.origin._api.request(
            f"STREAM.PURGE.{self.origin_stream}",
            {"filter": self.origin_prefix + key, "seq": below},
            timeout=deadline.remaining(),
        )
        return int(answer.get("purged", 0))

    def _ask_origin(self, body: dict[str, object], deadline: Deadline) -> StoredMsg:
        return get_from_leader(self.origin, self.origin_stream, body, deadline)


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
