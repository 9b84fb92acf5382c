"""The flights of the demo as input of a job of its own, which is disturbed, and what must come out.

The job is a process, so that it can be killed, and its master can be chosen.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from jetsync.cli.demo_check import Reference, check_results, check_rows, decode_results
from jetsync.cli.demo_data import Flights, find_flights_csv
from tests.cli.demo_process import Running
from tests.harness.places import SEARCH_PATH
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

ROWS = scaled(6_000, 336_776)
BATCHES = scaled(4, 8)
PATIENCE = scaled(300.0, 1200.0)


class Job(Running):
    """The job, running in a folder of its own where it goes on if it was there before."""

    def __init__(self, folder: Path, link: Mapping[str, str], master: str, **environment: str):
        options = {**link, "rows_per_batch": str(ROWS // BATCHES)}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (environment.get("PYTHONPATH"), SEARCH_PATH, os.environ.get("PYTHONPATH")))
        )
        # Starting quickly matters for few rows, speed for many.
        environment["JAVA_TOOL_OPTIONS"] = scaled("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "")
        super().__init__(
            folder,
            *("-m", "tests.spark.flights_job", str(folder), master, json.dumps(options)),
            **environment,
        )
        self._folder = folder

    def wait_for_batch(self, query: str, batch: int) -> None:
        """Wait until a query works on a batch; the query must not have ended."""
        started = self._folder / query / "offsets" / str(batch)
        wait_until(lambda: started.exists() or self._code() is not None, timeout=PATIENCE)
        assert self._code() is None, self.log()
        assert not (self._folder / query / "commits" / str(BATCHES - 1)).exists(), "too late"

    def kill_one(self, word: str) -> None:
        """Kill one process of the job whose command line has this word."""
        for pid in self._pids():
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"no process with {word} in {self.survivors()}")

    def wait_for_success(self) -> None:
        wait_until(lambda: self._code() is not None, timeout=PATIENCE)
        assert self._code() == 0, self.log()
        self.wait_until_gone()

    def _code(self) -> int | None:
        return self._process.poll()

    def log(self) -> str:
        """Return what the job said, and the end of what its Java said."""
        log = self._folder / "spark.log"
        return self._err.read_text() + (log.read_text() if log.exists() else "")


class Pipeline:
    """The streams of one run, filled, and the answers."""

    def __init__(self, js: Any, *, num_replicas: int = 1) -> None:
        self._js = js
        for name in ("FLIGHTS", "RESULTS"):
            js.create_stream(
                name=name,
                subjects=[f"{name.lower()}.>"],
                duplicate_window=3600,
                allow_direct=True,
                num_replicas=num_replicas,
            )
        csv = find_flights_csv()
        flights = Flights.read(csv, ROWS)
        js.publish_many(flights.messages()).raise_for_failed()
        js.publish_many([flights.end_marker()]).raise_for_failed()
        self.reference = Reference.compute(csv, ROWS)

    def assert_complete(self, folder: Path) -> str:
        """Every flight once in the files, every result once in the stream, all as pandas says.

        Returns the figures.
        """
        rows = check_rows(self.reference.flights, self._rows(folder / "parquet"))
        assert rows.passed, rows
        expected = len(self.reference.daily)
        state = self._js.stream("RESULTS").info().state
        assert state.messages == expected, (state.messages, expected)
        found = [
            bytes(self._js.stream("RESULTS").get_msg(seq).data)
            for seq in range(state.first_seq, state.last_seq + 1)
        ]
        results = check_results(self.reference.daily, decode_results(found))
        assert results.passed, results
        return f"{rows.agreeing} flights, {results.agreeing} results"

    @staticmethod
    def _rows(folder: Path) -> Any:
        """Read what Spark committed: a task that was killed may leave a file beside it."""
        logs = sorted(
            (log for log in (folder / "_spark_metadata").iterdir() if not log.name.startswith(".")),
            key=lambda log: int(log.name.partition(".")[0]),
        )
        files: dict[str, None] = {}
        for log in logs:
            if log.suffix == ".compact":
                files.clear()
            for line in log.read_text().splitlines()[1:]:
                files[json.loads(line)["path"].removeprefix("file://")] = None
        return pq.ParquetDataset(list(files)).read().to_pandas()
