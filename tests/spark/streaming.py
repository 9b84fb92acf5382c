"""Running streaming queries to their end, with what they delivered."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jetsync.spark.versions import HAS_READ_LIMITS
from tests.harness.waiting import wait_until

__all__ = [
    "Collected",
    "going",
    "in_time",
    "needs_limits",
    "offset_log",
    "read_stream",
    "run_available",
    "to_its_end",
]

T = TypeVar("T")

needs_limits = pytest.mark.skipif(
    not HAS_READ_LIMITS,
    reason="PySpark 4.2 says how long a batch may be; batches without limits run",
)
"""A test of batches with limits, or of what a query does after a restart."""


class Collected:
    """Rows per batch, as ``foreachBatch`` got them; repeated batches replace earlier attempts."""

    def __init__(self, column: str = "seq", *, fail_on: int | None = None) -> None:
        self.batches: dict[int, list[Any]] = {}
        self._column = column
        self._fail_on = fail_on

    def __call__(self, frame: Any, batch_id: int) -> None:
        self.batches[batch_id] = sorted(row[0] for row in frame.select(self._column).collect())
        if batch_id == self._fail_on:
            raise RuntimeError("the sink of this test fails here")

    @property
    def rows(self) -> list[Any]:
        return [value for _, batch in sorted(self.batches.items()) for value in batch]


def read_stream(spark: Any, stream: Any, **options: Any) -> Any:
    return spark.readStream.format("jetstream").options(**stream.read_options, **options).load()


NOT_STARTED = "failed to connect back"
TRIES = 5


def in_time(run: Callable[[], T]) -> T:
    """Return what ``run()`` returns; it starts a query, and is called again if Spark is too late.

    Spark gives a Python process ten seconds to start, whatever the machine is busy with, and no
    setting changes that. A query that ended for that goes on from its checkpoint, as an operator
    would have it.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(_TooLateError):
            return _unless_late(run)
    return run()


class _TooLateError(Exception):
    pass


def _unless_late(run: Callable[[], T]) -> T:
    try:
        return run()
    except Exception as error:
        if NOT_STARTED in str(error):
            raise _TooLateError from error
        raise


def to_its_end(start: Callable[[], Any], timeout: float = 120) -> Any:
    """Start a query and wait for its end; returns the ended query."""

    def ended() -> Any:
        query = start()
        assert query.awaitTermination(timeout), "the query did not end"
        return query

    return in_time(ended)


def going(start: Callable[[], Any], timeout: float = 120) -> Any:
    """Start a query that goes on; returns it when its source has begun to answer."""

    def answers() -> Any:
        query = start()
        wait_until(
            lambda: query.exception() or not query.status["message"].startswith("Initializing"),
            timeout=timeout,
        )
        if query.exception() is not None:
            raise query.exception()
        return query

    return in_time(answers)


def run_available(frame: Any, sink: Any, checkpoint: Path) -> Any:
    """Read what is there and wait for the end; returns the ended query."""
    writer = (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    return to_its_end(writer.start)


def offset_log(checkpoint: Path, batch_id: int) -> dict[str, Any]:
    """Return the end offset that Spark wrote for a batch."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    return json.loads(lines[2])
