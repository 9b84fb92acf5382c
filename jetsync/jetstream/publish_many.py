"""publish_many and publish_arrow: bulk publishing with no Python object per acknowledgement."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.bulk import BulkWindow
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import encode_headers
from jetsync._deadline import Deadline
from jetsync.errors import (
    APIError,
    ConfigError,
    NotStoredError,
    OutboundFullError,
    ProtocolError,
    PublishUnknownError,
)
from jetsync.jetstream.puback import PublishReport, decode_puback
from jetsync.jetstream.publish import RETRY_WINDOW
from jetsync.protocol.ids import next_nuid

if TYPE_CHECKING:
    from jetsync.client import Connection

__all__ = ["ArrowBatches", "IterableRows", "bulk_publish"]

STALL = 30.0
"""Without a time budget: give up when nothing was confirmed for so long."""
_RESEND_AFTER = 2.0
_READ_AHEAD = 512


class _Source(Protocol):
    """Feeds a window, one chunk a call."""

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
        # Counted before the call: rows that were added stay added when sending has to wait.
        before = window.added
        try:
            window.add_rows(self._rows, start)
        finally:
            self._at = start + (window.added - before)
        return True


class ArrowBatches:
    """The rows of pyarrow record batches or a table."""

    def __init__(
        self, data: Any, *, subject: str, data_column: str, headers: str | None, msg_id: str | None
    ) -> None:
        batches = data.to_batches() if hasattr(data, "to_batches") else [data]
        self._batches = [ArrowRows(batch) for batch in batches]
        names = self._batches[0].names if self._batches else []
        self._subject_column = subject if subject in names else None
        self._subject = None if subject in names else subject.encode()
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


class _Bulk:
    """One bulk publish: a window, an inbox of its own, and the clock that watches both."""

    def __init__(
        self,
        nc: Connection,
        *,
        timeout: float | None,
        max_pending: int,
        ids: str | None,
        has_ids: bool,
        fixed: dict[str, str],
    ) -> None:
        self._nc = nc
        self._deadline = Deadline(timeout)
        self._timeout = timeout
        self._repeatable = ids is not None or has_ids
        prefix = nc.new_inbox() + "."
        self._mailbox = Mailbox(owner=nc)
        self._subscription = nc._open_subscription(prefix + "*", None, self._mailbox)
        block = encode_headers(fixed)
        self.window = BulkWindow(
            nc._outbound,
            self._mailbox,
            prefix.encode(),
            None if ids is None else ids.encode(),
            block[len(b"NATS/1.0\r\n") : -2] if block else b"",
            max_pending,
        )
        self._failed: dict[int, Exception] = {}
        self._unknown: set[int] = set()  # sent on a link that broke
        self._refused: dict[int, Exception] = {}  # to be sent again
        self._epoch = nc._session.epoch
        self._progress = self._heard = (
            time.monotonic()
        )  # last confirmation, last answer of any kind
        self._resend_at = 0.0
        nc._add_engine(self)

    def poke(self) -> None:
        self._mailbox.poke()

    def run(self, source: _Source) -> PublishReport:
        try:
            more = True
            while more or self.window.in_flight:
                self._nc._check()
                if self._out_of_time():
                    self._give_up()
                    return self._report(complete=not more)
                if not self._nc.is_connected:
                    self._nc._pause(self._deadline.within(0.05))
                    continue
                self._recover()
                if more and not self.window.full:
                    more = self._feed(source)
                    self._collect(0.0)
                else:
                    self._collect(self._deadline.within(0.2))
            return self._report(complete=True)
        finally:
            self._nc._remove_engine(self)
            if not self._nc.is_closed:
                self._nc._unsubscribe(self._subscription._sid)

    def _feed(self, source: _Source) -> bool:
        if not self.window.in_flight:
            self._progress = time.monotonic()
        try:
            return source.feed(self.window)
        except OutboundFullError:
            # The chunk is in the window; it goes out with the next resend.
            self._resend_at = time.monotonic() + 0.1
            return True

    def _collect(self, timeout: float) -> None:
        before = self.window.in_flight
        odd = self.window.collect(timeout)
        for number, status, payload in odd:
            self._odd(number, status, payload)
        if self.window.in_flight < before:
            self._progress = self._heard = time.monotonic()
        elif odd:
            self._heard = time.monotonic()

    def _odd(self, number: int, status: int, payload: bytes) -> None:
        """An answer that is not a plain confirmation."""
        if status == 503 and not payload:
            error: Exception = NotStoredError("no stream takes messages on this subject")
            self._retry_or_fail(number, error)
            return
        try:
            decode_puback(payload)
        except APIError as problem:
            if problem.retryable:
                self._retry_or_fail(number, NotStoredError(str(problem)))
            elif number in self._unknown:
                # The copy before may be in the stream although this one was refused.
                self._fail(number, PublishUnknownError(str(problem), operation="publish_many"))
            else:
                refused = NotStoredError(str(problem))
                refused.__cause__ = problem
                self._fail(number, refused)
        except ProtocolError as problem:
            self._fail(number, PublishUnknownError(str(problem), operation="publish_many"))
        else:
            # A confirmation in an unusual layout: count it as the plain ones are.
            self.window.confirm(
                number, decode_puback(payload).seq, decode_puback(payload).duplicate
            )

    def _retry_or_fail(self, number: int, error: Exception) -> None:
        if not self._repeatable:
            self._fail(number, error)
            return
        self._refused[number] = error
        if not self._resend_at:
            self._resend_at = time.monotonic() + 0.25

    def _fail(self, number: int, error: Exception) -> None:
        if self.window.settle(number):
            self._failed[number] = error

    def _recover(self) -> None:
        """Send again what a broken link or a refusal may have cost."""
        now = time.monotonic()
        epoch = self._nc._session.epoch
        lost = epoch != self._epoch
        due = bool(self._resend_at) and now >= self._resend_at
        silent = (
            self.window.in_flight > 0
            and now - self._heard > _RESEND_AFTER
            and now >= self._resend_at
        )
        if not (lost or due or silent):
            return
        self._epoch = epoch
        if lost or silent:
            # What was refused since it was sent last is known not to be stored.
            self._unknown.update(n for n in self.window.open_numbers() if n not in self._refused)
        self._resend_at = 0.0
        if not self.window.in_flight or not self._repeatable:
            return
        if silent:
            self._resend_at = now + _RESEND_AFTER
        self._refused.clear()
        try:
            self.window.resend(RETRY_WINDOW)
        except OutboundFullError:
            self._resend_at = now + 0.1

    def _out_of_time(self) -> bool:
        if self._timeout is not None:
            return self._deadline.expired
        return bool(self.window.in_flight) and time.monotonic() - self._progress > STALL

    def _give_up(self) -> None:
        self._collect(0.05)  # answers that are on their way
        for number in self.window.open_numbers():
            refused = self._refused.get(number)
            if refused is not None and number not in self._unknown:
                self._fail(number, refused)
            else:
                self._fail(
                    number,
                    PublishUnknownError(
                        "no confirmation in time; the message may be stored",
                        operation="publish_many",
                    ),
                )

    def _report(self, *, complete: bool) -> PublishReport:
        window = self.window
        failed = sorted([*self._failed.items(), *window.rejected], key=lambda item: item[0])
        return PublishReport(
            window.stored, window.duplicates, failed, window.first_seq, window.last_seq, complete
        )


def bulk_publish(
    nc: Connection,
    source: _Source,
    *,
    timeout: float | None,
    max_pending: int,
    auto_ids: bool,
    has_ids: bool,
    expected_stream: str | None,
) -> PublishReport:
    """Publish everything a source has and wait until each message is settled."""
    if max_pending < 1:
        raise ConfigError("max_pending must be 1 or more")
    fixed = {} if expected_stream is None else {"Nats-Expected-Stream": expected_stream}
    ids = f"{next_nuid()}." if auto_ids else None
    bulk = _Bulk(
        nc, timeout=timeout, max_pending=max_pending, ids=ids, has_ids=has_ids, fixed=fixed
    )
    return bulk.run(source)
