"""The real format, but a task's first attempt dies once half of its first piece is in the stream.

Spark finds this module instead of the installed one when this folder comes first on the path.
"""

from __future__ import annotations

import os
import signal

from pyspark import TaskContext

from jetsync.spark.datasource import JetStreamDataSource
from jetsync.spark.write_options import WriteOptions
from jetsync.spark.writer import JetStreamStreamWriter


class DyingWriter(JetStreamStreamWriter):
    def write(self, iterator):
        if TaskContext.get().attemptNumber() == 0:
            for batch in iterator:
                super().write(iter([batch.slice(0, (batch.num_rows + 1) // 2)]))
                os.kill(os.getpid(), signal.SIGKILL)
        return super().write(iterator)


class DefaultSource(JetStreamDataSource):
    def streamWriter(self, schema, overwrite):
        return DyingWriter(WriteOptions.parse(self.options), schema, overwrite)
