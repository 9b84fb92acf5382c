"""A standalone Spark cluster from the PySpark wheel: a master, two workers, a job on them, the end.

    python run.py --stream ORDERS

The wheel has no ``sbin/start-master.sh``; ``spark-class`` starts the same programs. Everything
listens on 127.0.0.1 only, and is stopped when this program ends. Takes some 1.6 GB of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

HOST = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
LISTEN = ("--host", HOST, "--webui-port", "0")


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def spark_class(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Spark's own programs, writing to a log file, for the time of the block."""
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
    environment["PYSPARK_PYTHON"] = sys.executable
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            stdout=out,
            stderr=out,
            env=environment,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Wait until a program has written this text to its log."""
    deadline = time.monotonic() + seconds
    while text not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"Spark would not start:\n{log.read_text()}")
        time.sleep(0.1)


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Give the URL of a master with its workers; they end with the block."""
    master = f"spark://{HOST}:{free_port()}"
    port = master.rpartition(":")[2]
    with contextlib.ExitStack() as stack:
        log = folder / "master.log"
        process = stack.enter_context(
            spark_class(log, f"{DEPLOY}.master.Master", *LISTEN, "--port", port)
        )
        wait_for("I have been elected leader", log, process)
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"))
            process = stack.enter_context(
                spark_class(log, f"{DEPLOY}.worker.Worker", *LISTEN, *size, master)
            )
            wait_for("Successfully registered with master", log, process)
        yield master


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="nats://127.0.0.1:4222")
    parser.add_argument("--stream", default="ORDERS")
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as master:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = (
            SparkSession.builder.master(master)
            .appName("standalone")
            .config("spark.cores.max", "2")
            .config("spark.executor.cores", "1")
            .config("spark.executor.memory", "1g")
            .config("spark.driver.host", HOST)
            .getOrCreate()
        )
        messages = (
            spark.read.format("jetstream")
            .option("servers", given.servers)
            .option("stream", given.stream)
            .option("minPartitions", 4)
            .load()
        )
        row = (
            messages.selectExpr("seq", "spark_partition_id() as task")
            .selectExpr("count(*)", "count(distinct seq)", "count(distinct task)")
            .first()
        )
        print(f"{row[0]} messages, {row[1]} distinct, in {row[2]} tasks")
        spark.stop()


if __name__ == "__main__":
    main()
