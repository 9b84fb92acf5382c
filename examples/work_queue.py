"""A work queue: all tasks share one durable consumer, and acknowledge what they have done.

    python work_queue.py --stream JOBS --consumer workers

The consumer has to exist, as a pull consumer with explicit acknowledgements. A task ends when
nothing came for ``--idle`` seconds. What a killed worker had not acknowledged is delivered again.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from jetsync import JetStreamMsg
from jetsync.spark import consume_partition


def work(message: JetStreamMsg) -> None:
    """Do one message's work. It is acknowledged after this, and given back if this raises."""
    if message.data == b"unreadable":
        message.term()  # no retry can succeed: do not deliver it again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="nats://127.0.0.1:4222")
    parser.add_argument("--stream", default="JOBS")
    parser.add_argument("--consumer", default="workers")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--idle", type=float, default=2.0)
    given = parser.parse_args()

    spark = SparkSession.builder.master("local[2,4]").appName("work queue").getOrCreate()
    tasks = spark.range(given.tasks, numPartitions=given.tasks)
    counts = tasks.mapInArrow(
        consume_partition(
            servers=given.servers,
            stream=given.stream,
            consumer=given.consumer,
            work=work,
            idle_timeout=given.idle,
        ),
        "done bigint, failed bigint",
    )
    done, failed = counts.selectExpr("sum(done)", "sum(failed)").first()
    print(f"{done} messages done, {failed} given back")
    spark.stop()


if __name__ == "__main__":
    main()
