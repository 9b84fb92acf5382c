"""The streams of a task's subjects, checked before the rows are published.

A server drops a message whose subject no stream takes, and waiting for a confirmation that never
comes takes long. So each subject that matches no stream known so far is looked up first. What a
stream lacks (a duplicate window, settings that columns need) is found at the same time.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jetsync._locks import lock
from jetsync.errors import NoRespondersError
from jetsync.spark.connection import shared, with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.options import LinkOptions
from jetsync.spark.subjects import matches
from jetsync.spark.target import check_stream, find_stream, stream_config
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import StreamConfig
    from jetsync.spark.sink_columns import SinkColumns

__all__ = ["Destinations"]

# Tasks of one worker process follow each other quickly: later ones reuse the answers.
_REMEMBERED = 30.0


@dataclass
class _Known:
    """The streams that one process knows on one connection."""

    since: float
    # By stream: the patterns of its subjects, and its settings.
    streams: dict[str, tuple[list[str], StreamConfig]] = field(default_factory=dict)


_lock = lock("spark/destinations.py _lock")
_known: dict[LinkOptions, _Known] = {}


def _known_of(link: LinkOptions) -> _Known:
    with _lock:
        found = _known.get(link)
        if found is None or time.monotonic() - found.since > _REMEMBERED:
            found = _known[link] = _Known(time.monotonic())
        return found


class Destinations:
    """Checks the subjects of one task. Not thread-safe: a task has one."""

    def __init__(self, options: WriteOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns
        self._checked: set[str] = set()
        # Subjects lead to a stream that the API here does not know: there is nothing to check.
        self._unknown = columns.subject is not None

    def look_at(self, rows: pa.RecordBatch) -> tuple[int, int] | None:
        """Make sure that a stream takes each subject of normalised ``rows``. Blocks.

        Returns the row that was published to find that out, if one had to be, and its sequence.
        Raises
        ``JETSYNC_NO_SUBJECT``, and what :func:`jetsync.spark.target.check_stream` raises.
        """
        if self._unknown:
            return None
        import pyarrow.compute as pc

        known = _known_of(self._options.link)
        subjects = pc.unique(rows.column("subject"))
        for stream, (patterns, config) in list(known.streams.items()):
            subjects = self._checked_of(stream, patterns, config, subjects)
        while len(subjects):
            subject = subjects[0].as_py()
            try:
                stream = find_stream(self._options, subject)
                config = stream_config(self._options, stream)
            except SparkSourceError as error:
                return self._without_api(error, rows, subject)
            # A subject that the stream takes in another way than by its own list counts as well.
            patterns = [*(config.subjects or ()), subject]
            known.streams[stream] = patterns, config
            subjects = self._checked_of(stream, patterns, config, subjects)
        return None

    def _checked_of(
        self, stream: str, patterns: list[str], config: StreamConfig, subjects: pa.Array
    ) -> pa.Array:
        """Check a stream if some of the subjects lead to it; return those that do not."""
        import pyarrow.compute as pc

        others = subjects.filter(pc.invert(matches(subjects, patterns)))
        if len(others) < len(subjects) and stream not in self._checked:
            check_stream(stream, config, self._options, self._columns)
            self._checked.add(stream)
        return others

    def _without_api(
        self, error: SparkSourceError, rows: pa.RecordBatch, subject: str
    ) -> tuple[int, int] | None:
        """Decide about a subject of which the API here says nothing, or nothing good."""
        if self._options.small_window_fails:
            raise error
        if error.code != "JETSYNC_NO_SUBJECT":
            # No permission, or no API in this account: publishing will show the error.
            self._unknown = True
            return None
        row = int(rows.column("subject").index(subject).as_py())
        stored = self._try(rows, row)
        if stored is None:
            raise error
        self._unknown = True
        return row, stored

    def _try(self, rows: pa.RecordBatch, row: int) -> int | None:
        """Publish a row: a stream of another account or domain may take it.

        Returns its sequence, or None if no stream has stored it.
        """
        headers: dict[str, list[str | bytes]] = {}
        if "headers" in rows.schema.names:
            for name, value in rows.column("headers")[row].as_py() or ():
                headers.setdefault(name, []).append(value)
        if "msg_id" in rows.schema.names:
            headers["Nats-Msg-Id"] = [rows.column("msg_id")[row].as_py()]
        if self._options.publish_stream is not None:
            headers["Nats-Expected-Stream"] = [self._options.publish_stream]
        subject = self._columns.subject_of(rows, row)
        data = rows.column("data")[row].as_py()

        def ask(_: object) -> int | None:
            try:
                answer = shared(self._options.link).request(
                    subject, data, headers=headers, timeout=self._options.publish_timeout
                )
            except NoRespondersError:
                return None
            return json.loads(answer.data).get("seq") or None

        return with_patience(self._options.link, f"publishing to {subject}", ask)
