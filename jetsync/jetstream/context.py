"""JetStream: the entry to streams, consumers and publishing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from jetsync._api_errors import StreamNotFoundError
from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError
from jetsync.headers import HeaderInput
from jetsync.jetstream._wire import build, format_time
from jetsync.jetstream.account import AccountInfo
from jetsync.jetstream.api import API
from jetsync.jetstream.consumer import Consumer
from jetsync.jetstream.consumer_config import ConsumerConfig
from jetsync.jetstream.consumer_info import ConsumerInfo
from jetsync.jetstream.puback import PubAck, PublishReport
from jetsync.jetstream.publish import AUTO, Auto, publish, publish_headers
from jetsync.jetstream.publish_many import ArrowBatches, IterableRows, bulk_publish
from jetsync.jetstream.stream import Stream
from jetsync.jetstream.stream_config import StreamConfig
from jetsync.jetstream.stream_info import StreamInfo
from jetsync.protocol.ids import next_nuid
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    import pyarrow

    from jetsync.client import Connection

__all__ = ["JetStream"]


class JetStream:
    """Streams, consumers and publishing on one connection. Made by ``Connection.jetstream``.

    Thread-safe. Every call blocks up to ``timeout`` seconds (default: this object's) and raises the
    APIError subclass of the server's answer, JetStreamNotEnabledError, TimeoutError,
    DisconnectedError or ConnectionClosedError.
    """

    def __init__(
        self,
        nc: Connection,
        *,
        domain: str | None,
        api_prefix: str | None,
        timeout: float,
        max_pending: int,
        auto_msg_id: bool,
    ) -> None:
        if max_pending < 1:
            raise ConfigError("max_pending must be 1 or more")
        self._nc = nc
        self._api = API(nc, domain=domain, api_prefix=api_prefix, timeout=timeout)
        self._max_pending = max_pending
        self._auto_msg_id = auto_msg_id

    # -- publishing ------------------------------------------------------------------------------

    def _resolve_id(self, msg_id: str | Auto | None) -> str | Auto | None:
        return None if msg_id is AUTO and not self._auto_msg_id else msg_id

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
        timeout: Seconds | None = None,
        msg_id: str | Auto | None = AUTO,
        rollup: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        expected_last_subject_filter: str | None = None,
        expected_last_msg_id: str | None = None,
        ttl: Seconds | str | None = None,
    ) -> PubAck:
        """Store one message and return the stream's confirmation.

        Retries "no responders" and lost connections until ``timeout`` seconds are over. With
        ``msg_id=AUTO`` the message gets an id, so a retry after a lost confirmation is never stored
        twice; a string is an id of yours; None sends none and never retries an unknown outcome.

        ``rollup`` ("sub" or "all") replaces earlier messages; the ``expected_*`` conditions refuse
        the message unless they hold; ``ttl`` (seconds, or "never") needs a stream with
        ``allow_msg_ttl``.

        Raises NotStoredError when the message is certainly not in the stream (among its
        subclasses: WrongLastSequenceError), PublishUnknownError (a TimeoutError) when it may be,
        ConfigError and MaxPayloadError before anything is sent.
        """
        merged, sent_id = publish_headers(
            headers,
            msg_id=self._resolve_id(msg_id),
            rollup=rollup,
            expected_stream=expected_stream,
            expected_last_seq=expected_last_seq,
            expected_last_subject_seq=expected_last_subject_seq,
            expected_last_subject_filter=expected_last_subject_filter,
            expected_last_msg_id=expected_last_msg_id,
            ttl=ttl,
        )
        seconds = self._api.timeout if timeout is None else to_seconds(timeout)
        self._nc._check()
        return publish(self._nc, subject, data, seconds, merged, sent_id)

    def publish_many(
        self,
        messages: Iterable[tuple[Any, ...]],
        *,
        timeout: Seconds | None = None,
        max_pending: int | None = None,
        msg_id: Auto | None = AUTO,
        expected_stream: str | None = None,
    ) -> PublishReport:
        """Store many messages and wait until each one is confirmed or has failed.

        ``messages`` is an iterable of ``(subject, data)`` or ``(subject, data, headers)``; at most
        ``max_pending`` are unconfirmed at a time, in order of sending. With automatic ids (or a
        ``Nats-Msg-Id`` among the headers) messages are sent again after a lost connection, and the
        stream drops the copies; without ids an unknown outcome is reported, not repeated.

        Blocks up to ``timeout`` seconds for everything; None: as long as confirmations keep coming
        (it gives up after 30 seconds without any). Never raises for single messages: look at
        ``report.failed`` or call ``report.raise_for_failed()``. Raises ConnectionClosedError, and
        whatever the iterable raises (then nothing is known about the messages in flight).
        """
        auto = self._resolve_id(msg_id) is AUTO
        self._nc._check()
        return bulk_publish(
            self._nc,
            IterableRows(messages),
            timeout=None if timeout is None else to_seconds(timeout),
            max_pending=self._max_pending if max_pending is None else max_pending,
            auto_ids=auto,
            has_ids=False,
            expected_stream=expected_stream,
        )

    def publish_arrow(
        self,
        batch: pyarrow.RecordBatch | pyarrow.Table,
        *,
        subject: str,
        data: str = "data",
        headers: str | None = None,
        msg_id: str | Auto | None = AUTO,
        timeout: Seconds | None = None,
        max_pending: int | None = None,
        expected_stream: str | None = None,
    ) -> PublishReport:
        """Store the rows of a pyarrow RecordBatch or Table; builds no Python object per row.

        ``subject`` is a column when the batch has one of that name, else the constant subject;
        ``data`` and ``headers`` (map<string, string> or map<string, list<string>>, or binary) are
        columns; ``msg_id`` is AUTO, None or a column of ids. String and binary columns of both
        widths are taken; null data is an empty message. Otherwise like :meth:`publish_many`.
        """
        column = msg_id if isinstance(msg_id, str) else None
        auto = column is None and self._resolve_id(msg_id) is AUTO
        self._nc._check()
        return bulk_publish(
            self._nc,
            ArrowBatches(batch, subject=subject, data_column=data, headers=headers, msg_id=column),
            timeout=None if timeout is None else to_seconds(timeout),
            max_pending=self._max_pending if max_pending is None else max_pending,
            auto_ids=auto,
            has_ids=column is not None,
            expected_stream=expected_stream,
        )

    # -- streams -----------------------------------------------------------------------------------

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

    # -- consumers ---------------------------------------------------------------------------------

    def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Any,
    ) -> Consumer:
        """Create a consumer from a ConsumerConfig or its fields; without a name an ephemeral one.

        An identical consumer that exists is returned; a different one under this name raises
        ConsumerExistsError."""
        return self._put_consumer(stream, build(ConsumerConfig, config, fields), "create", timeout)

    def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Any,
    ) -> Consumer:
        """Change an existing consumer. Raises ConsumerDoesNotExistError."""
        return self._put_consumer(stream, build(ConsumerConfig, config, fields), "update", timeout)

    def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Any,
    ) -> Consumer:
        """Make sure that a consumer with this configuration exists."""
        return self._put_consumer(stream, build(ConsumerConfig, config, fields), None, timeout)

    def _put_consumer(
        self, stream: str, config: ConsumerConfig, action: str | None, timeout: Seconds | None
    ) -> Consumer:
        check_name("stream", stream)
        wire = config.to_wire(include_extra=action == "update")
        name = config.name or config.durable_name
        if name is None:
            if action == "update":
                raise ConfigError("updating a consumer needs its name or durable_name")
            name = next_nuid()
            wire["name"] = name
        operation = f"CONSUMER.CREATE.{stream}.{check_name('consumer', name)}"
        if config.filter_subject:
            operation += f".{config.filter_subject}"
        if config.durable_name is None and "inactive_threshold" not in wire:
            # The server adds this default itself; sending it keeps a repeated create identical.
            wire["inactive_threshold"] = 5_000_000_000
        body: dict[str, Any] = {"stream_name": stream, "config": wire}
        if action is not None:
            body["action"] = action
        answer = self._api.request(operation, body, timeout=timeout)
        return Consumer(self, ConsumerInfo.from_wire(answer))

    def consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> Consumer:
        """Look a consumer up. Raises ConsumerNotFoundError."""
        return Consumer(self, self._consumer_info(stream, name, timeout))

    def _consumer_info(self, stream: str, name: str, timeout: Seconds | None) -> ConsumerInfo:
        operation = f"CONSUMER.INFO.{check_name('stream', stream)}.{check_name('consumer', name)}"
        return ConsumerInfo.from_wire(
            self._api.request(operation, timeout=timeout, repeatable=True)
        )

    def delete_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a consumer. Raises ConsumerNotFoundError."""
        self._api.request(
            f"CONSUMER.DELETE.{check_name('stream', stream)}.{check_name('consumer', name)}",
            timeout=timeout,
        )

    def consumers(self, stream: str) -> Iterator[ConsumerInfo]:
        """Iterate over the consumers of a stream."""
        for item in self._api.pages(f"CONSUMER.LIST.{check_name('stream', stream)}", "consumers"):
            yield ConsumerInfo.from_wire(item)

    def consumer_names(self, stream: str) -> Iterator[str]:
        """Iterate over the names of the consumers of a stream."""
        return self._api.pages(f"CONSUMER.NAMES.{check_name('stream', stream)}", "consumers")

    def pause_consumer(
        self, stream: str, name: str, until: datetime, *, timeout: Seconds | None = None
    ) -> None:
        """Deliver nothing until a point in time (server 2.11)."""
        self._pause(stream, name, {"pause_until": format_time(until)}, timeout)

    def resume_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause_consumer`."""
        past = datetime(1970, 1, 2, tzinfo=timezone.utc)
        self._pause(stream, name, {"pause_until": format_time(past)}, timeout)

    def _pause(self, stream: str, name: str, body: dict[str, Any], timeout: Seconds | None) -> None:
        self._api.request(
            f"CONSUMER.PAUSE.{check_name('stream', stream)}.{check_name('consumer', name)}",
            body,
            timeout=timeout,
        )

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r} on {self._nc!r})"
