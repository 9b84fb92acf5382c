"""StreamManager: the calls of JetStream that make, change, find and delete streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jetsync._api_errors import StreamNotFoundError
from jetsync._deadline import Seconds
from jetsync.jetstream._wire import build
from jetsync.jetstream.account import AccountInfo
from jetsync.jetstream.consumer_manager import ConsumerManager
from jetsync.jetstream.stream import Stream
from jetsync.jetstream.stream_config import StreamConfig
from jetsync.jetstream.stream_info import StreamInfo
from jetsync.protocol.subjects import check_name

__all__ = ["StreamManager"]


class StreamManager(ConsumerManager):
    """What JetStream has for streams, and for the consumers on them. Thread-safe."""

    def create_stream(
        self, config: StreamConfig | None = None, *, timeout: Seconds | None = None, **fields: Any
    ) -> Stream:
        """Create a stream from a StreamConfig or its fields. The same configuration again is fine;
        another one under this name raises StreamNameInUseError."""
        return self._put_stream("CREATE", build(StreamConfig, config, fields), timeout)

    def update_stream(
        self, config: StreamConfig | None = None, *, timeout: Seconds | None = None, **fields: Any
    ) -> Stream:
        """Replace the configuration of a stream; a field left out gets its default.

        Raises StreamNotFoundError."""
        return self._put_stream("UPDATE", build(StreamConfig, config, fields), timeout)

    def create_or_update_stream(
        self, config: StreamConfig | None = None, *, timeout: Seconds | None = None, **fields: Any
    ) -> Stream:
        """Make sure that a stream with this configuration exists."""
        built = build(StreamConfig, config, fields)
        try:
            return self._put_stream("UPDATE", built, timeout)
        except StreamNotFoundError:
            return self._put_stream("CREATE", built, timeout)

    def _put_stream(self, verb: str, config: StreamConfig, timeout: Seconds | None) -> Stream:
        answer = self._api.request(
            f"STREAM.{verb}.{check_name('stream', config.name)}",
            config.to_wire(include_extra=verb == "UPDATE"),
            timeout=timeout,
        )
        return Stream(self, StreamInfo.from_wire(answer))

    def delete_stream(self, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a stream with everything in it. Raises StreamNotFoundError."""
        self._api.request(f"STREAM.DELETE.{check_name('stream', name)}", timeout=timeout)

    def stream(self, name: str, *, timeout: Seconds | None = None) -> Stream:
        """Look a stream up. Raises StreamNotFoundError."""
        return Stream(self, self._stream_info(name, None, False, timeout))

    def _stream_info(
        self, name: str, subjects_filter: str | None, deleted: bool, timeout: Seconds | None
    ) -> StreamInfo:
        operation = f"STREAM.INFO.{check_name('stream', name)}"
        body: dict[str, Any] = {}
        if subjects_filter is not None:
            body["subjects_filter"] = subjects_filter
        if deleted:
            body["deleted_details"] = True
        answer = self._api.request(operation, body or None, timeout=timeout, repeatable=True)
        subjects = (answer.get("state") or {}).get("subjects")
        # Subjects come in pages of 100,000.
        while subjects and len(subjects) < int(answer.get("total", 0)):
            page = self._api.request(
                operation, {**body, "offset": len(subjects)}, timeout=timeout, repeatable=True
            )
            more = (page.get("state") or {}).get("subjects") or {}
            if not more:
                break
            subjects.update(more)
        return StreamInfo.from_wire(answer)

    def streams(self, subject: str | None = None) -> Iterator[StreamInfo]:
        """Iterate over all streams, or those that take messages of ``subject``."""
        body = None if subject is None else {"subject": subject}
        for item in self._api.pages("STREAM.LIST", "streams", body):
            yield StreamInfo.from_wire(item)

    def stream_names(self, subject: str | None = None) -> Iterator[str]:
        """Iterate over the names of all streams, or those that take messages of ``subject``."""
        body = None if subject is None else {"subject": subject}
        return self._api.pages("STREAM.NAMES", "streams", body)

    def stream_name_by_subject(self, subject: str) -> str:
        """Return the name of the stream that stores a subject. Raises StreamNotFoundError."""
        for name in self.stream_names(subject):
            return name
        raise StreamNotFoundError(
            f"no stream takes messages on {subject!r}",
            code=404,
            err_code=10059,
            description="stream not found",
        )

    def account_info(self, *, timeout: Seconds | None = None) -> AccountInfo:
        """Return usage and limits of the account."""
        return AccountInfo.from_wire(self._api.request("INFO", timeout=timeout, repeatable=True))
