"""Publisher: the publishing calls of JetStream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds, to_seconds
from jetsync.headers import HeaderInput
from jetsync.jetstream.api import API
from jetsync.jetstream.puback import PubAck, PublishReport
from jetsync.jetstream.publish import AUTO, Auto, publish, publish_headers
from jetsync.jetstream.publish_many import ArrowBatches, IterableRows, bulk_publish

if TYPE_CHECKING:
    import pyarrow

    from jetsync.client import Connection

__all__ = ["Publisher"]


class Publisher:
    """What JetStream has for storing messages. Thread-safe."""

    _nc: Connection
    _api: API
    _max_pending: int
    _auto_msg_id: bool

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
