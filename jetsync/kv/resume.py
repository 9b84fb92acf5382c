"""ResumeToken: the position of a watch in its bucket, to begin another one there."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from jetsync.errors import ConfigError
from jetsync.kv.status import KeyValueStatus

__all__ = ["ResumeToken"]

_TOKEN = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ResumeToken(NamedTuple):
    """A revision of one bucket, which its time of creation identifies: a new bucket of the same
    name has another one."""

    created_ns: int
    revision: int

    @classmethod
    def of(cls, status: KeyValueStatus) -> ResumeToken:
        """The beginning of a bucket."""
        created = status.stream_info.created
        since = (created - _EPOCH) if created is not None else timedelta()
        return cls(since // timedelta(microseconds=1) * 1000, 0)

    @classmethod
    def parse(cls, text: str) -> ResumeToken:
        """Read what ``str()`` gave. Raises ConfigError."""
        found = _TOKEN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ConfigError(f"{text!r} is no resume token: take what Watcher.resume_token gave")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.created_ns}-{self.revision}"
