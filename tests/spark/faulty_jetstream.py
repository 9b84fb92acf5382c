"""Formats whose tasks die at a chosen point: the real source and sink plus one accident.

Loaded by Spark's workers, which find this folder on their path.
"""

from __future__ import annotations

import os
import signal

from pyspark import TaskContext

from jetsync.spark import publishing
from jetsync.spark.datasource import JetStreamDataSource
from jetsync.spark.write_options import WriteOptions
from jetsync.spark.writer import JetStreamStreamWriter, JetStreamWriter


def dies_in_the_middle(batches):
    """Let one batch through; when the next is wanted, kill the process (first attempt only)."""
    publishing.JOINED_ROWS = 1  # what was let through is stored before the next is wanted
    first_attempt = TaskContext.get().attemptNumber() == 0
    for count, batch in enumerate(batches):
        if first_attempt and count == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


class FaultyWriter(JetStreamWriter):
    def write(self, iterator):
        return super().write(dies_in_the_middle(iterator))


class FaultyStreamWriter(JetStreamStreamWriter):
    def write(self, iterator):
        return super().write(dies_in_the_middle(iterator))


class FaultyJetStream(JetStreamDataSource):
    @classmethod
    def name(cls):
        return "faulty_jetstream"

    def writer(self, schema, overwrite):
        return FaultyWriter(WriteOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema, overwrite):
        return FaultyStreamWriter(WriteOptions.parse(self.options), schema, overwrite)
