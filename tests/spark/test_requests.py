"""What planning a micro-batch asks the servers: few questions, and not one after another."""

from __future__ import annotations

import contextlib
import json
import threading

import pytest
from pyspark.sql.types import StructType

import jetsync
from jetsync.spark.connection import shared
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.stream_reader import JetStreamStreamReader
from jetsync.spark.versions import ReadAllAvailable

ALL = ReadAllAvailable()


class Asked:
    """A streaming reader, and how many requests each of its calls sent."""

    def __init__(self, source, **options):
        given = {**source.read_options, "pollInterval": "0s", **options}
        parsed = ReadOptions.parse(given, streaming=True)
        self.reader = JetStreamStreamReader(parsed, StructType().add("seq", "long"))
        self.nc = shared(parsed.link)
        self.position = self.reader.initialOffset()

    def batch(self):
        """Plan one batch as Spark does it; the requests of latestOffset and of partitions."""
        before = self.nc.stats.out_messages
        end = json.loads(json.dumps(self.reader.latestOffset(self.position, ALL)))
        chosen = self.nc.stats.out_messages
        if end != self.position:
            assert self.reader.partitions(self.position, end)
        self.position = end
        return chosen - before, self.nc.stats.out_messages - chosen


@pytest.mark.parametrize(("filters", "wanted"), [("", 1), ("x", 2), ("x,y", 3)])
def test_a_batch_takes_one_question_for_the_stream_and_one_for_each_filter(
    new_stream, filters, wanted
):
    source = new_stream(5)
    names = {"filterSubjects": ",".join(f"{source.name}.{name}" for name in filters.split(","))}
    asked = Asked(source, **(names if filters else {}))
    for _ in range(2):
        assert asked.batch() == (wanted, 0)
        source.fill(5)


def test_looking_in_vain_takes_one_question_and_skipping_three(new_stream):
    """The last one is whether all that was skipped was still there when it was looked at."""
    source = new_stream(5)
    asked = Asked(source, filterSubjects=f"{source.name}.x")
    asked.batch()
    assert [asked.batch() for _ in range(3)] == [(1, 0)] * 3
    source.fill(5, "other")
    assert asked.batch() == (3, 0)
    assert asked.batch() == (1, 0)


def test_a_repeated_batch_is_looked_at_again(new_stream):
    source = new_stream(5)
    first = Asked(source)
    start = first.position
    first.batch()
    second = Asked(source)
    before = second.nc.stats.out_messages
    second.reader.partitions(start, first.position)
    assert second.nc.stats.out_messages - before == 1


@contextlib.contextmanager
def all_at_once(url, count):
    """Answer for ``count`` streams that exist here only, and only when all have been asked for."""
    waiting, done = [], threading.Event()
    with jetsync.connect(url) as nc:

        def answer(msg):
            waiting.append(msg)
            if len(waiting) == count:
                done.set()
                for one in waiting:
                    one.respond(json.dumps(info(one.subject.rpartition(".")[2])).encode())
                waiting.clear()

        nc.subscribe("questions.STREAM.INFO.*", callback=answer)
        nc.flush()
        yield done


def info(name):
    return {
        "type": "io.nats.jetstream.api.v1.stream_info_response",
        "config": {"name": name, "subjects": [name], "retention": "limits", "storage": "memory"},
        "created": "2026-01-01T00:00:00Z",
        "state": {"messages": 5, "bytes": 50, "first_seq": 1, "last_seq": 5, "consumer_count": 0},
    }


def test_many_streams_are_asked_together(server):
    names = [f"MANY_{number}" for number in range(20)]
    options = {"servers": server.url, "stream": ",".join(names), "apiPrefix": "questions"}
    parsed = ReadOptions.parse({**options, "pollInterval": "0s"}, streaming=True)
    made = JetStreamStreamReader(parsed, StructType().add("seq", "long"))
    # Each of these would wait for its time to be over if it asked one stream after another.
    with all_at_once(server.url, len(names)) as answered:
        start = made.initialOffset()
        assert answered.wait(0)
        end = made.latestOffset(start, ALL)
        assert len(made.partitions(start, end)) >= len(names)
        again = JetStreamStreamReader(parsed, StructType().add("seq", "long"))
        again.partitions(start, end)
