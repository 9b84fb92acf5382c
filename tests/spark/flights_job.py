"""A program: the demo's two queries, which go on from their checkpoints wherever they stopped.

``python -m tests.spark.flights_job FOLDER MASTER OPTIONS``, where OPTIONS is JSON: the options that
say how to reach the servers, and ``rows_per_batch``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jetsync.cli.demo_spark import Spark, copy_to_parquet, publish_daily_results, watch
from jetsync.cli.failure import CommandError

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def main(folder: Path, master: str, link: dict[str, str]) -> None:
    rows_per_batch = int(link.pop("rows_per_batch"))
    source = {**link, "stream": "FLIGHTS"}
    # Spark leaves things where it is started, and its workers look for modules there first.
    os.chdir(folder)
    spark = Spark(master, work=folder, log=folder / "spark.log")
    session = spark.start()
    try:
        for query in (
            lambda: copy_to_parquet(
                session,
                source,
                rows_per_batch=rows_per_batch,
                path=folder / "parquet",
                checkpoint=folder / "copy",
            ),
            lambda: publish_daily_results(
                session,
                source,
                {**link, "publishStream": "RESULTS"},
                rows_per_batch=rows_per_batch,
                checkpoint=folder / "daily",
            ),
        ):
            run(query)
    finally:
        spark.stop()


def run(start: Callable[[], StreamingQuery]) -> None:
    """Run a query to its end.

    Spark gives a Python process ten seconds to start, whatever the machine is busy with; a query
    that ended for that goes on from its checkpoint.
    """
    while True:
        try:
            watch(start(), lambda _: None)
        except CommandError as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
