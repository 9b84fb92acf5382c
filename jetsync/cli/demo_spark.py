"""The demo's Spark side: a quiet session of its own, and the two streaming queries."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetsync._log import Log
from jetsync.cli import interrupts
from jetsync.cli.demo_data import END_SUBJECT, MESSAGE_ID, WATERMARK_DAYS
from jetsync.cli.descendants import Descendants
from jetsync.cli.failure import CommandError
from jetsync.cli.java import find_java_home
from jetsync.spark import reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["FLIGHT_SCHEMA", "Spark", "copy_to_parquet", "publish_daily_results", "watch"]

FLIGHT_SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
    "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, "
    "origin string, dest string, air_time int, distance int, hour int, minute int, "
    "time_hour string"
)

_JVM_EXIT_SECONDS = 10.0
_WORKERS_EXIT_SECONDS = 3.0
_POLL_SECONDS = 0.2

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Spark:
    """A Spark session whose JVM writes to a log file and is gone when ``stop()`` returns.

    A JVM serves one Python process for that process's whole life, so this is for once per process.
    """

    def __init__(self, master: str, *, work: Path, log: Path) -> None:
        self._master = master
        self._work = work
        self._log = log
        self._java_home: Path | None = None
        self._descendants = Descendants()
        self._gateway: Any = None
        self._session: SparkSession | None = None

    @property
    def session(self) -> SparkSession:
        """The running session."""
        if self._session is None:
            raise CommandError("Spark is not running.")
        return self._session

    def find_java(self) -> Path:
        """Return the home of the Java to run on. Raises ``CommandError`` when there is none."""
        if self._java_home is None:
            self._java_home = find_java_home(self._work / "java")
        return self._java_home

    def start(self) -> SparkSession:
        """Start the JVM and the session (some 5 s). Raises ``CommandError`` when it will not."""
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        self._prepare_environment()
        conf = SparkConf(loadDefaults=False)
        for key, value in self._settings().items():
            conf.set(key, value)
        # Until the launch returns, this process has no handle to stop the JVM that it started.
        with interrupts.deferred(), self._descendants.inheriting(), self._log.open("ab") as log:
            try:
                self._gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
            except PySparkException as error:
                raise CommandError(
                    f"Spark's Java would not start (master {self._master}); {self._log} says why."
                ) from error
        try:
            SparkContext(conf=conf, gateway=self._gateway)
            self._session = SparkSession.builder.getOrCreate()
        except Exception as error:
            raise CommandError(
                f"Spark could not start on {self._master} ({reason(error)}); "
                f"{self._log} has the details."
            ) from error
        # Replaces PySpark's Ctrl-C handler, which talks to a JVM that may be ending.
        interrupts.restore_interrupts()
        return self._session

    def stop(self) -> None:
        """Stop the session and its JVM and wait until the JVM is gone. Repeating is harmless."""
        gateway, self._gateway = self._gateway, None
        session, self._session = self._session, None
        if gateway is None:
            return
        try:
            if session is not None:
                for query in session.streams.active:
                    query.stop()
                session.stop()
            gateway.shutdown()
        except Exception as error:  # noqa: BLE001 - gone or half started: it is ended below
            Log(__name__).debug("stopping Spark: %s", error)
        process: subprocess.Popen[bytes] = gateway.proc
        if process.stdin is not None:
            process.stdin.close()  # the JVM leaves when its standard input ends
        try:
            process.wait(_JVM_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._descendants.end(_WORKERS_EXIT_SECONDS)

    def _prepare_environment(self) -> None:
        """Set the environment of the JVM and the Python workers."""
        # The driver has to run the jars of the installed pyspark, whatever else is on the machine.
        for name in ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
            os.environ.pop(name, None)
        os.environ["JAVA_HOME"] = str(self.find_java())
        os.environ["PYSPARK_PYTHON"] = sys.executable
        if self._is_local():
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            os.environ["SPARK_HOME"] = str(self._make_home())

    def _make_home(self) -> Path:
        """Make a home of Spark that has the installed one's jars and not its zip file of pyspark.

        With that file first on its path, each Python process compiles what it imports, for a second
        of CPU; without it, it finds the installed pyspark, which is compiled.
        """
        found = importlib.util.find_spec("pyspark")
        if found is None or found.origin is None:
            raise CommandError("pyspark is not installed.")
        home = self._work / "spark-home"
        home.mkdir(exist_ok=True)
        for name in ("bin", "jars", "sbin"):
            link = home / name
            link.unlink(missing_ok=True)  # of an earlier run with --keep
            link.symlink_to(Path(found.origin).parent / name)
        return home

    def _settings(self) -> dict[str, str]:
        log4j = self._work / "log4j2.properties"
        log4j.write_text(_LOG4J)
        scratch = self._work / "spark"
        scratch.mkdir(exist_ok=True)
        settings = {
            "spark.master": self._master,
            "spark.app.name": "jetsync demo",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stopTimeout": "10s",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.warehouse.dir": str(self._work / "warehouse"),
            "spark.local.dir": str(scratch),
            # Quoted, or as a URI, so that a blank in the path cannot split an option.
            "spark.driver.extraJavaOptions": (
                f'-Dlog4j2.configurationFile={log4j.as_uri()} "-Djava.io.tmpdir={scratch}" '
                "-XX:-UsePerfData"
            ),
        }
        if self._is_local():
            settings["spark.driver.memory"] = "2g"
            settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        return settings

    def _is_local(self) -> bool:
        return self._master.startswith("local")


def _read_flights(spark: SparkSession, options: dict[str, str], rows_per_batch: int) -> DataFrame:
    """Read the stream of flights from its beginning, as typed columns beside each message's id."""
    from pyspark.sql import functions as F

    return (
        spark.readStream.format("jetstream")
        .options(**options)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        # One task, and one file of its own, for each core: small ones cost more than they read.
        .option("minPartitions", spark.sparkContext.defaultParallelism)
        .load()
        .select(
            "seq",
            "subject",
            F.col("headers")[MESSAGE_ID][0].alias("msg_id"),
            F.from_json(F.col("data").cast("string"), FLIGHT_SCHEMA).alias("flight"),
        )
        .select("seq", "subject", "msg_id", "flight.*")
    )


def copy_to_parquet(
    spark: SparkSession,
    options: dict[str, str],
    *,
    rows_per_batch: int,
    path: Path,
    checkpoint: Path,
) -> StreamingQuery:
    """Start the query that writes every flight to parquet and then ends."""
    from pyspark.sql import functions as F

    flights = _read_flights(spark, options, rows_per_batch)
    return (
        flights.where(F.col("subject") != END_SUBJECT)
        .writeStream.format("parquet")
        .option("path", str(path))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def publish_daily_results(
    spark: SparkSession,
    options: dict[str, str],
    sink_options: dict[str, str],
    *,
    rows_per_batch: int,
    checkpoint: Path,
) -> StreamingQuery:
    """Start the query that publishes one result per day and carrier and then ends.

    Append mode: a day is published once, complete, when the watermark has passed it. The key (day
    and carrier) is the message id, so a batch that Spark runs twice is stored once. The end marker
    moves the watermark like a flight, and its own day is never passed. It must not be filtered out
    here: Spark would do that before it checks the time.
    """
    from pyspark.sql import functions as F

    daily = (
        _read_flights(spark, options, rows_per_batch)
        .withColumn("time", F.to_timestamp("time_hour"))
        .withWatermark("time", f"{WATERMARK_DAYS} days")
        .groupBy(F.window("time", "1 day"), "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departures"),
            F.sum("dep_delay").alias("delay_sum"),
            F.avg("dep_delay").alias("delay_mean"),
            F.sum("distance").alias("miles"),
        )
        .withColumn("day", F.date_format("window.start", "yyyy-MM-dd"))
    )
    columns = ("day", "carrier", "flights", "departures", "delay_sum", "delay_mean", "miles")
    return (
        daily.select(
            F.concat(F.lit("results."), "carrier").alias("subject"),
            F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("data"),
            F.concat_ws("/", "day", "carrier").alias("msg_id"),
        )
        .writeStream.outputMode("append")
        .format("jetstream")
        .options(**sink_options)
        .option("dedup", "column")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def watch(query: StreamingQuery, on_rows: Callable[[int], None]) -> float:
    """Wait for a query's end, telling ``on_rows`` how many rows it has read so far.

    Returns the rows per second of its fastest batch: the first ones also start worker processes
    and warm the JVM. Raises ``CommandError`` when the query failed. Whatever ends the wait, the
    query is stopped.
    """
    from pyspark.errors import PySparkException

    batches: dict[int, dict[str, Any]] = {}
    try:
        while not query.awaitTermination(_POLL_SECONDS):
            _read_progress(query, batches, on_rows)
        _read_progress(query, batches, on_rows)
    except PySparkException as error:
        raise CommandError(f"a Spark query failed: {reason(error)}") from error
    finally:
        with interrupts.deferred():
            _stop_query(query)
    rates = (batch.get("processedRowsPerSecond") or 0.0 for batch in batches.values())
    return max(rates, default=0.0)


def _read_progress(
    query: StreamingQuery, batches: dict[int, dict[str, Any]], on_rows: Callable[[int], None]
) -> None:
    for progress in query.recentProgress:
        batches[progress["batchId"]] = progress
    on_rows(sum(batch["numInputRows"] for batch in batches.values()))


def _stop_query(query: StreamingQuery) -> None:
    try:
        query.stop()
    except Exception as error:  # noqa: BLE001 - the JVM may be gone; then so is the query
        Log(__name__).debug("stopping a query: %s", error)
