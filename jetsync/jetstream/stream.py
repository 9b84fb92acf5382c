"""Stream: a handle on one stream."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds
from jetsync.errors import ConfigError
from jetsync.headers import Headers
from jetsync.jetstream._wire import parse_time, parse_time_ns
from jetsync.jetstream.consumer import Consumer
from jetsync.jetstream.consumer_config import ConsumerConfig
from jetsync.jetstream.consumer_info import ConsumerInfo
from jetsync.jetstream.stream_info import StreamInfo

if TYPE_CHECKING:
    from jetsync.jetstream.stream_manager import StreamManager

__all__ = ["StoredMsg", "Stream"]


@dataclasses.dataclass(frozen=True)
class StoredMsg:
    """A message as it lies in its stream. ``time`` is when it was stored (UTC)."""

    subject: str
    seq: int
    data: bytes
    time: datetime | None
    raw_headers: bytes = b""
    time_ns: int | None = None
    """``time`` in nanoseconds since 1970."""

    @property
    def headers(self) -> Headers:
        """The headers; empty when there are none."""
        return Headers.parse(self.raw_headers)


class Stream:
    """A stream. Made by the stream calls of ``JetStream``. Thread-safe; every call blocks.

    Each call takes ``timeout`` in seconds (default: the JetStream object's) and raises the APIError
    subclass of the server's answer, or TimeoutError.
    """

    def __init__(self, js: StreamManager, info: StreamInfo) -> None:
        self._js = js
        self._info = info
        self.name: str = info.config.name

    @property
    def cached_info(self) -> StreamInfo:
        """What the server said last. Does not block."""
        return self._info

    def info(
        self,
        *,
        subjects_filter: str | None = None,
        deleted_details: bool = False,
        timeout: Seconds | None = None,
    ) -> StreamInfo:
        """Ask the leader about the stream.

        With ``subjects_filter`` the message counts per matching subject come along (every page of
        them), with ``deleted_details`` the sequences of interior deletes.
        """
        self._info = self._js._stream_info(self.name, subjects_filter, deleted_details, timeout)
        return self._info

    def purge(
        self,
        *,
        subject: str | None = None,
        keep: int | None = None,
        seq: int | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Remove messages: all, those of a subject, all but the last ``keep``, or those below
        ``seq``. Returns how many were removed."""
        if keep is not None and seq is not None:
            raise ConfigError("give either keep or seq, not both")
        body = {"filter": subject, "keep": keep, "seq": seq}
        answer = self._js._api.request(
            f"STREAM.PURGE.{self.name}",
            {name: value for name, value in body.items() if value is not None},
            timeout=timeout,
        )
        return int(answer.get("purged", 0))

    def get_msg(
        self, seq: int, *, next_by_subject: str | None = None, timeout: Seconds | None = None
    ) -> StoredMsg:
        """Return the message with this sequence, or with ``next_by_subject`` the first one of that
        subject (wildcards allowed) at or after it. Asks the leader. Raises MessageNotFoundError."""
        body: dict[str, Any] = {"seq": seq}
        if next_by_subject is not None:
            body["next_by_subj"] = next_by_subject
        return self._get(body, timeout)

    def get_last_msg(self, subject: str, *, timeout: Seconds | None = None) -> StoredMsg:
        """Return the last message of a subject. Asks the leader. Raises MessageNotFoundError."""
        return self._get({"last_by_subj": subject}, timeout)

    def _get(self, body: dict[str, Any], timeout: Seconds | None) -> StoredMsg:
        answer = self._js._api.request(
            f"STREAM.MSG.GET.{self.name}", body, timeout=timeout, repeatable=True
        )
        message = answer.get("message") or {}
        return StoredMsg(
            subject=message.get("subject", ""),
            seq=int(message.get("seq", 0)),
            data=base64.b64decode(message.get("data") or ""),
            time=parse_time(message.get("time")),
            raw_headers=base64.b64decode(message.get("hdrs") or ""),
            time_ns=parse_time_ns(message.get("time")),
        )

    def delete_msg(self, seq: int, *, secure: bool = False, timeout: Seconds | None = None) -> None:
        """Delete one message; ``secure`` also overwrites its bytes on disk."""
        body: dict[str, Any] = {"seq": seq}
        if not secure:
            body["no_erase"] = True
        self._js._api.request(f"STREAM.MSG.DELETE.{self.name}", body, timeout=timeout)

    def delete(self, *, timeout: Seconds | None = None) -> None:
        """Delete the stream with everything in it."""
        self._js.delete_stream(self.name, timeout=timeout)

    # -- consumers of this stream ---------------------------------------------------------------

    def create_consumer(
        self, config: ConsumerConfig | None = None, *, timeout: Seconds | None = None, **fields: Any
    ) -> Consumer:
        """See ``JetStream.create_consumer``."""
        return self._js.create_consumer(self.name, config, timeout=timeout, **fields)

    def update_consumer(
        self, config: ConsumerConfig | None = None, *, timeout: Seconds | None = None, **fields: Any
    ) -> Consumer:
        """See ``JetStream.update_consumer``."""
        return self._js.update_consumer(self.name, config, timeout=timeout, **fields)

    def create_or_update_consumer(
        self, config: ConsumerConfig | None = None, *, timeout: Seconds | None = None, **fields: Any
    ) -> Consumer:
        """See ``JetStream.create_or_update_consumer``."""
        return self._js.create_or_update_consumer(self.name, config, timeout=timeout, **fields)

    def consumer(self, name: str, *, timeout: Seconds | None = None) -> Consumer:
        """See ``JetStream.consumer``."""
        return self._js.consumer(self.name, name, timeout=timeout)

    def delete_consumer(self, name: str, *, timeout: Seconds | None = None) -> None:
        """See ``JetStream.delete_consumer``."""
        self._js.delete_consumer(self.name, name, timeout=timeout)

    def consumers(self) -> Iterator[ConsumerInfo]:
        """See ``JetStream.consumers``."""
        return self._js.consumers(self.name)

    def consumer_names(self) -> Iterator[str]:
        """See ``JetStream.consumer_names``."""
        return self._js.consumer_names(self.name)

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"
