"""The state of streaming queries outside of Spark: a listener that logs or exports."""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from jetsync._locks import lock
from jetsync._log import Log
from jetsync.spark.helpers import lag

__all__ = ["LagListener", "QueryState"]

log: Log = Log("jetsync.spark")


@dataclass(frozen=True)
class QueryState:
    """One query after its last progress. ``lag`` is what :func:`jetsync.spark.lag` returns."""

    query_id: str
    name: str
    batch_id: int
    rows_per_second: float
    lag: dict[str, dict[str, int]] = field(default_factory=dict)


class LagListener(StreamingQueryListener):
    """Tells how far the queries of a session are behind: ``spark.streams.addListener(...)``.

    After each progress of a query that reads jetstream ``export`` is called with its
    :class:`QueryState`; without one, it is logged by ``jetsync.spark`` at level INFO. What
    ``export`` raises is logged, so a query never ends by it. Spark calls on a thread of its own;
    :attr:`states` and :meth:`prometheus` may be used in any thread.
    """

    def __init__(self, export: Callable[[QueryState], object] | None = None) -> None:
        super().__init__()
        self._export = export or _log
        self._lock = lock("spark/monitoring.py _lock")
        self._states: dict[str, QueryState] = {}

    @property
    def states(self) -> list[QueryState]:
        """The queries that run, as of their last progress."""
        with self._lock:
            return list(self._states.values())

    def prometheus(self) -> str:
        """Return the lag of all streams in the text format of Prometheus, to serve or to write."""
        lines = [
            "# HELP jetsync_spark_behind Sequences that a query has still to look through.",
            "# TYPE jetsync_spark_behind gauge",
        ]
        for state in self.states:
            for stream, found in state.lag.items():
                labels = {"query": state.name or state.query_id, "stream": stream}
                text = ",".join(f'{key}="{_label(value)}"' for key, value in labels.items())
                lines.append(f"jetsync_spark_behind{{{text}}} {found['behind']}")
        return "\n".join(lines) + "\n"

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: the first progress tells more."""

    def onQueryProgress(self, event: Any) -> None:
        """Note and export a progress. Called by Spark."""
        progress = event.progress
        found = lag(progress)
        if not found:
            return
        state = QueryState(
            str(progress.id),
            progress.name or "",
            progress.batchId,
            float(progress.processedRowsPerSecond or 0.0),
            found,
        )
        with self._lock:
            self._states[state.query_id] = state
        try:
            self._export(state)
        except Exception:
            log.exception("exporting the state of query %s", state.name or state.query_id)

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the last progress still holds."""

    def onQueryTerminated(self, event: Any) -> None:
        """Forget the query. Called by Spark."""
        with self._lock:
            self._states.pop(str(event.id), None)


def _log(state: QueryState) -> None:
    log.info("query %s: batch %d, %s", state.name or state.query_id, state.batch_id, state.lag)


def _label(value: str) -> str:
    return re.sub(r"([\\\"])", r"\\\1", value).replace("\n", "\\n")
