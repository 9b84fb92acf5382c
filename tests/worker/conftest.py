"""A connection, a stream of jobs and a stream of dead letters for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker

import pytest

import jetsync
from jetsync import Connection, Consumer, JetStream
from jetsync.server import NatsServer
from tests.worker.sources import made_source

__all__ = ["Place", "made_source"]

_numbers = itertools.count(1)

resource_tracker.ensure_running()  # it stays for as long as this process


@dataclass
class Place:
    """Where the jobs of a test are, and where its dead letters go."""

    nc: Connection
    js: JetStream
    url: str
    name: str

    @property
    def dead(self) -> str:
        """The subject for dead letters."""
        return f"dead.{self.name}.{{subject}}"

    def fill(self, count: int, keys: int = 1) -> None:
        """Store jobs 0 ... count - 1, each with its number as data and one of so many subjects."""
        self.js.publish_many(
            (f"{self.name}.{number % keys}", str(number).encode()) for number in range(count)
        )

    def consumer(self, **fields: object) -> Consumer:
        fields = {"durable_name": "w", "ack_wait": 30, **fields}
        return self.js.create_or_update_consumer(self.name, **fields)  # type: ignore[arg-type]

    def letters(self) -> list[jetsync.StoredMsg]:
        """The dead letters, in the order in which they came."""
        stream = self.js.stream(f"DEAD-{self.name}")
        last = stream.info().state.last_seq
        return [stream.get_msg(seq) for seq in range(1, last + 1)]

    def letters_left(self) -> list[jetsync.JetStreamMsg]:
        """The dead letters that have not been removed, in the order of their subjects."""
        left = self.js.ordered_consumer(f"DEAD-{self.name}").fetch_no_wait(100)
        return sorted(left, key=lambda msg: msg.subject)


@pytest.fixture
def place(server: NatsServer) -> Iterator[Place]:
    with jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        name = f"JOBS{next(_numbers)}"
        js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
        js.create_stream(name=f"DEAD-{name}", subjects=[f"dead.{name}.>"], storage="memory")
        yield Place(nc, js, server.url, name)
        js.delete_stream(name)
        js.delete_stream(f"DEAD-{name}")
