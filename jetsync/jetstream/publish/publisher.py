"""Publisher: the publishing calls of JetStream."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jetsync._core.encoding import encode_headers
from jetsync._core.handles import AsyncPublishing
from jetsync._deadline import Seconds, to_seconds
from jetsync._locks import lock
from jetsync._signatures import check_options, spells_out
from jetsync.headers import HeaderInput
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.arrow import ArrowData
from jetsync.jetstream.publish.batch import PublishBatch
from jetsync.jetstream.publish.futures import AsyncPublisher, PubAckFuture
from jetsync.jetstream.publish.headers import (
    AUTO,
    Auto,
    PublishOptions,
    identified,
    publish_headers,
    publish_needs,
)
from jetsync.jetstream.publish.many import ArrowBatches, IterableRows, bulk_publish
from jetsync.jetstream.publish.one import publish
from jetsync.jetstream.publish.puback import PubAck, PublishReport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.client import Connection
    from jetsync.client.port import Port

__all__ = ["Publisher"]

_making = lock("jetstream/publish/publisher.py _making")


def _retire(publisher: weakref.ref[AsyncPublisher]) -> None:
    """End the asynchronous publisher, unless it was freed with the end of its thread."""
    if (one := publisher()) is not None:
        one.retire()


class Publisher(AsyncPublishing):
    """The calls of JetStream that store messages. Thread-safe."""

    _nc: Connection
    _port: Port
    _api: API
    _max_pending: int | None
    _auto_msg_id: bool
    _async: AsyncPublisher | None = None

    def _resolve_id(self, msg_id: str | Auto | None) -> str | Auto | None:
        return None if msg_id is AUTO and not self._auto_msg_id else msg_id

    def _budget(self, timeout: Seconds | None) -> float:
        return self._api.timeout if timeout is None else to_seconds(timeout)

    @spells_out(publish_headers)
    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
        timeout: Seconds | None = None,
        msg_id: str | Auto | None = AUTO,
        **options: Unpack[PublishOptions],
    ) -> PubAck:
        """Store one message and return the stream's confirmation (ADR-22).

        Retries "no responders" and lost connections until the time is over. With ``msg_id=AUTO``
        the message gets an id, so a retry after a lost confirmation is never stored twice; a string
        is an id of yours; None sends none and never retries an unknown outcome. A retry is never
        sent later than the stream remembers ids.

        ``rollup`` ("sub" or "all") replaces earlier messages; the ``expected_*`` conditions refuse
        the message unless they hold; ``ttl`` (seconds, or "never") needs a stream with
        ``allow_msg_ttl``; ``incr`` adds to a counter (stream with ``allow_msg_counter``, no data),
        whose new total is ``PubAck.value``. ``schedule`` (stream with ``allow_msg_schedules``) has
        the stream publish the message to ``schedule_target``: once at a datetime, again and again
        after a timedelta, or by a pattern such as ``"@hourly"`` or six cron fields (then with
        ``schedule_time_zone``); ``schedule_source`` is a subject whose last message is sent instead
        of this one's data, ``schedule_ttl`` and ``schedule_rollup`` go to what is published.

        Blocks up to ``timeout`` seconds (default: this object's). Raises NotStoredError when the
        message is certainly not in the stream (among its subclasses: WrongLastSequenceError),
        PublishUnknownError (a TimeoutError) when it may be; ConfigError, MaxPayloadError and
        ApiLevelRequiredError (``ttl``, ``incr`` or ``schedule`` with an older server) before
        anything is sent; ConnectionClosedError. Thread-safe.
        """
        return self._publish(subject, data, headers, timeout, msg_id, options)

    def _publish(
        self,
        subject: str,
        data: bytes,
        headers: HeaderInput | None,
        timeout: Seconds | None,
        msg_id: str | Auto | None,
        options: PublishOptions,
    ) -> PubAck:
        """``publish``, which a subclass may observe."""
        given = self._resolve_id(msg_id)
        if options:
            check_options("publish", options, PublishOptions)
            merged, sent_id = publish_headers(headers, msg_id=given, **options)
        else:
            merged, sent_id = identified(headers, given)
        self._port.check()
        if options:
            self._api.check_needs(publish_needs(options))
        return publish(self._port, self._api, subject, data, self._budget(timeout), merged, sent_id)

    # -- asynchronously --------------------------------------------------------------------------

    def _publish_async(
        self,
        subject: str,
        data: bytes,
        headers: HeaderInput | None,
        timeout: Seconds | None,
        msg_id: str | Auto | None,
        options: PublishOptions,
    ) -> PubAckFuture:
        """``publish_async`` with options that the compiled path does not handle."""
        if options:
            check_options("publish_async", options, PublishOptions)
        msg_id = self._resolve_id(msg_id)
        given = None if msg_id is AUTO else msg_id
        block = b""
        if options or given is not None:
            block = encode_headers(publish_headers(headers, msg_id=given, **options)[0])
        elif headers:
            block = encode_headers(headers)
        self._port.check()
        if options:
            self._api.check_needs(publish_needs(options))
        seconds = self._budget(timeout)
        stream = options.get("expected_stream")
        expected = None if stream is None else str(stream).encode()
        return self._start_async().publish(subject, data, block, msg_id is AUTO, seconds, expected)

    def _start_async(self) -> AsyncPublisher:
        with _making:
            if self._async is None or self._async.window.ended:
                self._async = AsyncPublisher(
                    self._port, self._api, self._max_pending, self._auto_msg_id
                )
                self._window = self._async.window
                # Weakly: it refers to the connection, whose handlers may refer to this object.
                weakref.finalize(self, _retire, weakref.ref(self._async)).atexit = False
            return self._async

    @property
    def publish_async_pending(self) -> int:
        """How many messages of :meth:`publish_async` are not settled yet."""
        return 0 if self._async is None else self._async.pending

    def publish_async_wait(self, timeout: Seconds | None = None) -> None:
        """Wait until every message of :meth:`publish_async` so far is settled, one way or another.

        Blocks up to ``timeout`` seconds (default: this object's) and raises TimeoutError then.
        Callbacks may still be running. Look at the futures for the outcomes. Thread-safe.
        """
        if self._async is not None and self._async.pending:
            self._async.wait(self._budget(timeout))

    # -- in bulk ---------------------------------------------------------------------------------

    def publish_many(
        self,
        messages: Iterable[tuple[Any, ...]],
        *,
        timeout: Seconds | None = None,
        max_pending: int | None = None,
        msg_id: Auto | None = AUTO,
        expected_stream: str | None = None,
        max_failed: int | None = 1000,
    ) -> PublishReport:
        """Store many messages and wait until each one is confirmed or has failed.

        ``messages`` is an iterable of ``(subject, data)`` or ``(subject, data, headers)``; at most
        ``max_pending`` are unconfirmed at a time, in order of sending. With ``expected_stream`` a
        message is refused where another stream would take it. Messages with an id (automatic unless
        ``msg_id`` is None, or a ``Nats-Msg-Id`` among their headers) are sent again after a lost
        connection, and the stream drops the copies; without an id an unknown outcome is reported,
        not repeated.

        After more than ``max_failed`` failures (None: never), or a row of another shape, nothing
        more is taken from ``messages``; the report is not ``complete`` then.

        Blocks up to ``timeout`` seconds for everything; None: as long as confirmations keep coming
        (it gives up after 30 seconds without any). Never raises for single messages: look at
        ``report.failed`` or call ``report.raise_for_failed()``. Raises ConnectionClosedError, and
        whatever the iterable raises (then nothing is known about the messages in flight).
        """
        auto = self._resolve_id(msg_id) is AUTO
        self._port.check()
        return bulk_publish(
            self._port,
            self._api,
            IterableRows(messages),
            timeout=None if timeout is None else to_seconds(timeout),
            max_pending=self._max_pending if max_pending is None else max_pending,
            max_failed=max_failed,
            auto_ids=auto,
            expected_stream=expected_stream,
        )

    def publish_arrow(
        self,
        batch: ArrowData,
        *,
        subject: str | None = None,
        data: str = "data",
        headers: str | None = None,
        msg_id: str | Auto | None = AUTO,
        timeout: Seconds | None = None,
        max_pending: int | None = None,
        expected_stream: str | None = None,
    ) -> PublishReport:
        """Store the rows of a pyarrow RecordBatch or Table, or of anything else that gives Arrow
        columns (``__arrow_c_stream__`` or ``__arrow_c_array__``), such as a Polars or pandas frame
        or a RecordBatchReader, which is read to its end first; builds no Python object per row.
        With ``expected_stream`` a message is refused where another stream would take it.

        ``subject`` is a column when the batch has one of that name, else the constant subject
        (None: the column ``subject``); ``data`` and ``headers`` (map<string, string> or map<string,
        list<string>>, or binary) are columns; ``msg_id`` is AUTO, None or a column of ids. String
        and binary columns of both widths are taken; null data is an empty message. Messages with an
        id are sent again after a lost connection, and the stream drops the copies; ``max_pending``
        are unconfirmed at a time.

        Blocks up to ``timeout`` seconds for everything; None: as long as confirmations keep coming
        (it gives up after 30 seconds without any). Never raises for single rows: look at
        ``report.failed`` or call ``report.raise_for_failed()``. Raises ConfigError before anything
        is sent for a missing column or one of another type, ConnectionClosedError.
        """
        column = msg_id if isinstance(msg_id, str) else None
        auto = column is None and self._resolve_id(msg_id) is AUTO
        self._port.check()
        return bulk_publish(
            self._port,
            self._api,
            ArrowBatches(batch, subject=subject, data_column=data, headers=headers, msg_id=column),
            timeout=None if timeout is None else to_seconds(timeout),
            max_pending=self._max_pending if max_pending is None else max_pending,
            max_failed=None,  # a batch lies in memory, as its errors may
            auto_ids=auto,
            expected_stream=expected_stream,
        )

    # -- atomically ------------------------------------------------------------------------------

    def batch(self, *, timeout: Seconds | None = None) -> PublishBatch:
        """Begin an atomic batch: all of its messages are stored together, or none (ADR-50).

        For a stream with ``allow_atomic`` (nats-server 2.12). ``timeout`` is the budget, in
        seconds, of each of the batch's calls (default: this object's). Does not block. Raises
        ConfigError for a timeout that is none, ConnectionClosedError.
        """
        self._port.check()
        return PublishBatch(self._port, self._api, self._budget(timeout))
