"""Formats whose tasks die at a chosen point: the real source and sink plus one accident.

Loaded by Spark's workers, which find this folder on their path.
"""

from __future__ import annotations

import itertools
import os
import signal

from pyspark import TaskContext

from jetsync.spark.datasource import JetStreamDataSource
from jetsync.spark.write_options import WriteOptions
from jetsync.spark.writer import JetStreamStreamWriter, JetStreamWriter


def write_or_die(write, batches):
    """Write one batch; if there are more, kill the process then (first attempt only)."""
    if TaskContext.get().attemptNumber() > 0:
        return write(batches)
    done = write(itertools.islice(batches, 1))
    if next(batches, None) is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


class FaultyWriter(JetStreamWriter):
    def write(self, iterator):
        return write_or_die(super().write, iterator)


class FaultyStreamWriter(JetStreamStreamWriter):
    def write(self, iterator):
        return write_or_die(super().write, iterator)


class FaultyJetStream(JetStreamDataSource):
    @classmethod
    def name(cls):
        return "faulty_jetstream"

    def writer(self, schema, overwrite):
        return FaultyWriter(WriteOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema, overwrite):
        return FaultyStreamWriter(WriteOptions.parse(self.options), schema, overwrite)
