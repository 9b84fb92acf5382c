"""publish_many and publish_arrow: bulk publishing with no Python object per acknowledgement."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.bulk import BulkWindow, ShapeError
from jetsync._core.encoding import encode_headers
from jetsync._core.ids import next_nuid
from jetsync._deadline import Deadline
from jetsync._numbers import check_whole
from jetsync.errors import ConfigError
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.arrow import ArrowData, record_batches
from jetsync.jetstream.publish.headers import stream_header
from jetsync.jetstream.publish.outcome import PERSISTENCE
from jetsync.jetstream.publish.puback import PubAck, PublishReport
from jetsync.jetstream.publish.window_keeper import WindowKeeper, pending_bounds

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = [
    "ArrowBatches",
    "BulkSource",
    "BulkWindow",
    "IterableRows",
    "bulk_publish",
    "subject_column",
]

STALL = 30.0
"""Seconds without any confirmation after which a call without a timeout gives up."""
PENDING_BYTES = 16 << 20
"""The frames that may be unconfirmed at a time."""
_READ_AHEAD = 512


class BulkSource(Protocol):
    """Feeds a window, one chunk a call. May block while it makes rows."""

    def feed(self, window: BulkWindow) -> bool:
        """Add a chunk; False when there is nothing left."""


class IterableRows:
    """``(subject, data[, headers])`` tuples of any iterable, read a little ahead."""

    def __init__(self, messages: Iterable[Any]) -> None:
        self._messages: Iterator[Any] = iter(messages)
        self._rows: list[Any] = []
        self._at = 0

    def feed(self, window: BulkWindow) -> bool:
        if self._at == len(self._rows):
            self._rows = list(itertools.islice(self._messages, _READ_AHEAD))
            self._at = 0
            if not self._rows:
                return False
        start = self._at
        # Counted before the call: rows stay added when sending has to wait.
        before = window.added
        try:
            window.add_rows(self._rows, start)
        finally:
            self._at = start + (window.added - before)
        return True


def subject_column(names: Collection[str], subject: str | None) -> str | None:
    """Return the column that holds the subjects; None when ``subject`` is one for all rows."""
    if subject is None and "subject" not in names:
        raise ConfigError(
            f"give subject=, a column or one for all rows: the batch has {', '.join(names)}"
        )
    column = "subject" if subject is None else subject
    return column if column in names else None


class ArrowBatches:
    """The rows of record batches, a table or a stream of Arrow data."""

    def __init__(
        self,
        data: ArrowData,
        *,
        subject: str | None,
        data_column: str,
        headers: str | None,
        msg_id: str | None,
    ) -> None:
        used = (subject or "subject", data_column, headers, msg_id)
        self._batches = [ArrowRows(batch) for batch in record_batches(data, used)]
        names = self._batches[0].names if self._batches else []
        self._subject_column = subject_column(names, subject) if names else None
        self._subject = None if self._subject_column else (subject or "").encode()
        self._data = data_column
        self._headers = headers
        self._msg_id = msg_id
        self._at = 0
        for name in (data_column, headers, msg_id):
            if name is not None and names and name not in names:
                raise ConfigError(f"the batch has no column {name!r}; it has {', '.join(names)}")

    def feed(self, window: BulkWindow) -> bool:
        while self._batches and self._at >= self._batches[0].length:
            self._batches.pop(0)
            self._at = 0
        if not self._batches:
            return False
        before, start = window.added, self._at
        try:
            window.add_arrow(
                self._batches[0],
                self._subject_column,
                self._subject,
                self._data,
                self._headers,
                self._msg_id,
                start,
            )
        finally:
            self._at = start + (window.added - before)
        return True


class _Bulk(WindowKeeper[BulkWindow]):
    """One bulk publish: a window, an inbox of its own, and their deadlines."""

    operation = "publish_many"

    def __init__(
        self,
        port: Port,
        api: API,
        *,
        timeout: float | None,
        max_pending: int | None,
        max_pending_bytes: int,
        max_failed: int | None,
        stall: float | None,
        ids: str | None,
        fixed: dict[str, str],
    ) -> None:
        block = encode_headers(fixed)
        first, most = pending_bounds(max_pending)
        super().__init__(
            port,
            api,
            lambda mailbox, prefix: BulkWindow(
                port.outbound,
                mailbox,
                prefix,
                None if ids is None else ids.encode(),
                block[len(b"NATS/1.0\r\n") : -2] if block else b"",
                first,
                max_pending_bytes,
                only_linked=True,
                most=most,
                key=os.urandom(16),
                domain=(api.domain or "").encode(),
                expected=fixed.get("Nats-Expected-Stream", "").encode(),
            ),
        )
        port.outbound.enter_window(self.reply_prefix, None)
        self._expected = fixed.get("Nats-Expected-Stream", "")
        self._deadline = Deadline(timeout)
        if self._deadline.at is not None:
            self.window.ends = self._deadline.at
        self._timeout = timeout
        self._stall = stall
        self._max_failed = max_failed
        self._failed: dict[int, Exception] = {}
        self._progress = time.monotonic()  # last confirmation

    def run(self, source: BulkSource) -> PublishReport:
        window = self.window
        try:
            more, cut_short = True, False
            while more or window.in_flight:
                self._port.check()
                if self._out_of_time():
                    self.collect(0.05)  # answers that are on their way
                    self.give_up_all()
                    return self._report(complete=not more and not cut_short)
                self.recover()
                if more and self._has_failed_too_often():
                    more, cut_short = False, True
                if more and self._port.linked and not window.full:
                    idle, began = not window.in_flight, time.monotonic()
                    more = source.feed(window)
                    # Confirmations are not looked at while the source makes rows.
                    now = time.monotonic()
                    self._progress = now if idle else self._progress + (now - began)
                    self._collect(0.0)
                elif more and window.in_flight < window.capacity_now and self._port.linked:
                    self._collect(self._deadline.within(0.01))  # the link takes no more just now
                else:
                    self._collect(self._deadline.within(self.recovers_in))
            return self._report(complete=not cut_short)
        finally:
            self.give_up_inbox()

    def _collect(self, timeout: float) -> None:
        before = self.window.open_count
        self.collect(timeout)
        # Messages of this thread that go first count while there is a link to send them on.
        waits = self._port.linked and not self.window.has_turn
        if waits or self.window.open_count < before:
            self._progress = time.monotonic()

    def confirmed(self, number: int, ack: PubAck, text: bytes) -> None:
        self.window.confirm(number, ack.seq, ack.duplicate)

    def failed(self, number: int, error: Exception) -> None:
        if self.window.settle(number):
            self._failed[number] = error
            self.counts.failed(error)

    def expects(self, number: int, stream: str) -> bool:
        return self._expected in ("", stream)

    def may_ask_for(self) -> float:
        return max(PERSISTENCE.slack, self._deadline.within(PERSISTENCE.ask_within))

    def _has_failed_too_often(self) -> bool:
        """Whether to stop taking messages: after so many failures the rest would likely fail
        too."""
        rejected = self.window.rejected
        if any(isinstance(error, ShapeError) for _, error in rejected):
            return True
        return self._max_failed is not None and len(self._failed) + len(rejected) > self._max_failed

    def _out_of_time(self) -> bool:
        if self._timeout is not None:
            return self._deadline.expired
        waits = self.window.in_flight or (self._stall is not None and not self._port.linked)
        return bool(waits) and time.monotonic() - self._progress > (self._stall or STALL)

    def _report(self, *, complete: bool) -> PublishReport:
        window = self.window
        failed = sorted([*self._failed.items(), *window.rejected], key=lambda item: item[0])
        return PublishReport(
            window.stored, window.duplicates, failed, window.first_seq, window.last_seq, complete
        )


def bulk_publish(
    port: Port,
    api: API,
    source: BulkSource,
    *,
    timeout: float | None,
    max_pending: int | None,
    max_failed: int | None,
    auto_ids: bool,
    expected_stream: str | None,
    max_pending_bytes: int = PENDING_BYTES,
    stall: float | None = None,
) -> PublishReport:
    """Publish everything a source has and wait until each message is settled.

    Without a ``timeout`` it gives up what is open after 30 seconds without a confirmation; with
    ``stall`` after so many, and after so many without a link.
    """
    if max_failed is not None:
        check_whole("max_failed", max_failed, least=0)
    if max_pending is not None:
        check_whole("max_pending", max_pending)
    fixed = stream_header(expected_stream)
    ids = f"{next_nuid()}." if auto_ids else None
    bulk = _Bulk(
        port,
        api,
        timeout=timeout,
        max_pending=max_pending,
        max_pending_bytes=max_pending_bytes,
        max_failed=max_failed,
        stall=stall,
        ids=ids,
        fixed=fixed,
    )
    return bulk.run(source)
