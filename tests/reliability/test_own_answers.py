"""Many threads share one connection, and each gets its own answer, whatever it asks (P1, G18).

Each thread has subjects, consumers, keys and objects of its own, and all that it stores begins with
its name, so an answer that went to another caller shows. Some callers give up at once: their answer
comes when they are gone.
"""

from __future__ import annotations

import concurrent.futures
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.services import ServiceClient
from jetsync.worker import Worker
from tests.harness.public_surface import surface
from tests.harness.soak import scaled

THREADS = 6
ROUNDS = scaled(2, 200)
LONG = 60.0
IMPATIENT = 0.0005
REQUESTS = 100
"""Plain requests of a turn: the calls whose answers show most surely whose they are, and that cost
least, so that the short form too sees one crossed answer in 500."""


class Own:
    """What one thread works with; ``number`` makes each of its payloads another one."""

    def __init__(self, nc: jetsync.Connection, js: jetsync.JetStream, name: str) -> None:
        self.nc, self.js, self.name, self.number = nc, js, name, 0
        self.subject = f"own.{name}"
        self.stream = js.stream("OWN")
        self.consumer = self._consumer("fetched")
        self.messages = self._consumer("iterated").messages()
        self.came: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.context = self._consumer("called").consume(self._take)
        self.ordered = js.ordered_consumer("OWN", filter_subjects=[self.subject])
        self.push = js.subscribe(self.subject, stream="OWN")
        self.pull = js.pull_subscribe(self.subject, stream="OWN", durable=f"{name}-pulled")
        self.values = js.key_value("own")
        self.objects = js.object_store("own")
        self.watcher = self.values.watch(name)
        self.service = nc.add_service(f"{name}-service", "1.0.0", threads=2)
        self.service.add_endpoint("echo", lambda request: request.data, subject=f"served.{name}")
        self.client = ServiceClient(nc)
        self.worked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.worker = Worker(self._consumer("worked"), self._work, threads=2).start()

    def _consumer(self, use: str) -> jetsync.Consumer:
        return self.stream.create_consumer(
            durable_name=f"{self.name}-{use}", filter_subject=self.subject, max_ack_pending=-1
        )

    def _take(self, msg: jetsync.JetStreamMsg) -> None:
        self.came.put(msg.data)
        msg.ack()

    def _work(self, msg: jetsync.JetStreamMsg) -> None:
        self.worked.put(msg.data)

    def payload(self) -> bytes:
        self.number += 1
        return f"{self.name} {self.number}".encode()

    def close(self) -> None:
        self.messages.stop()
        self.context.stop()
        self.watcher.stop()
        self.push.unsubscribe()
        self.pull.unsubscribe()
        self.ordered.close()
        self.service.stop()
        self.worker.drain()


def publish(own: Own, timeout: float) -> Iterator[bytes]:
    wanted = own.payload()
    ack = own.js.publish(own.subject, wanted, timeout=timeout)
    assert own.stream.get_msg(ack.seq, timeout=LONG).data == wanted
    yield wanted


def publish_async(own: Own, timeout: float) -> Iterator[bytes]:
    wanted = own.payload()
    ack = own.js.publish_async(own.subject, wanted).result(timeout)
    assert own.stream.get_msg(ack.seq, timeout=LONG).data == wanted
    yield wanted


def publish_many(own: Own, timeout: float) -> Iterator[bytes]:
    wanted = [(own.subject, own.payload()) for _ in range(5)]
    report = own.js.publish_many(wanted, timeout=timeout)
    assert not report.complete or report.stored + len(report.failed) == 5
    yield own.stream.get_last_msg(own.subject, timeout=LONG).data


def publish_arrow(own: Own, timeout: float) -> Iterator[bytes]:
    rows = pa.record_batch({"data": [own.payload() for _ in range(5)]})
    report = own.js.publish_arrow(rows, subject=own.subject, timeout=timeout)
    assert not report.complete or report.stored + len(report.failed) == 5
    yield own.stream.get_last_msg(own.subject, timeout=LONG).data


def commit(own: Own, timeout: float) -> Iterator[bytes]:
    batch = own.js.batch(timeout=LONG)
    batch.add(own.subject, own.payload())
    wanted = own.payload()
    ack = batch.commit(own.subject, wanted, timeout=timeout)
    assert own.stream.get_msg(ack.seq, timeout=LONG).data == wanted
    yield wanted


def get_msgs(own: Own, timeout: float) -> Iterator[bytes]:
    found = own.stream.get_msgs(1, subject=own.subject, max_messages=20, timeout=timeout)
    yield from (msg.data for msg in found)


def fetch(own: Own, timeout: float) -> Iterator[bytes]:
    batch = own.consumer.fetch(5, timeout=timeout, eager=True)
    yield from (msg.data for msg in batch)
    batch.ack_sync(timeout=LONG)


def fetch_no_wait(own: Own, timeout: float) -> Iterator[bytes]:
    for msg in own.consumer.fetch_no_wait(5, timeout=timeout):
        yield msg.data
        msg.ack_sync(timeout=LONG)


def following(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    msg = own.consumer.next(timeout=timeout)
    yield msg.data
    msg.ack_sync(timeout=LONG)


def iterated(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    yield own.messages.next(timeout=timeout).data


def called(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    yield own.came.get(timeout=LONG)


def ordered(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    yield own.ordered.next(timeout=timeout).data


def pushed(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    yield own.push.next(timeout=timeout).data


def pulled(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    yield own.pull.next(timeout=timeout).data


def told(own: Own, timeout: float) -> Iterator[bytes]:
    yield own.consumer.info(timeout=timeout).name.encode()
    yield own.stream.consumer(f"{own.name}-called", timeout=timeout).name.encode()


def values(own: Own, timeout: float) -> Iterator[bytes]:
    wanted = own.payload()
    revision = own.values.put(own.name, wanted, timeout=timeout)
    assert own.values.get(own.name, revision=revision, timeout=LONG).value == wanted
    assert own.values.update(own.name, wanted, revision, timeout=timeout) > revision
    yield own.values.get(own.name, timeout=timeout).value
    yield from (entry.value for entry in own.values.history(own.name, timeout=timeout))


def watched(own: Own, timeout: float) -> Iterator[bytes]:
    own.values.put(own.name, own.payload(), timeout=LONG)
    entry = own.watcher.next(timeout=timeout)
    if entry is not None:  # the end of what was there before
        yield entry.value


def objects(own: Own, timeout: float) -> Iterator[bytes]:
    wanted = own.payload() + b"x" * 200_000
    own.objects.put(own.name, wanted, timeout=LONG)
    found = own.objects.get_bytes(own.name, timeout=timeout)
    assert found == wanted
    yield own.objects.info(own.name, timeout=timeout).name.encode()


def asked(own: Own, timeout: float) -> Iterator[bytes]:
    for _ in range(REQUESTS):
        wanted = own.payload()
        answer = own.nc.request("echo", wanted, timeout=timeout).data
        assert answer == wanted
        yield answer


def served(own: Own, timeout: float) -> Iterator[bytes]:
    yield own.client.call(f"served.{own.name}", own.payload(), timeout=timeout).data
    yield from (one.name.encode() for one in own.client.ping(own.service.name, max_responses=1))


def worked(own: Own, timeout: float) -> Iterator[bytes]:
    own.js.publish(own.subject, own.payload(), timeout=LONG)
    yield own.worked.get(timeout=LONG)


def _asked(own: Own) -> dict[Any, bytes]:
    """Futures of both kinds, with what their answers lead to."""
    texts = [own.payload() for _ in range(4)]
    found: dict[Any, bytes] = {own.nc.request_async("echo", one): one for one in texts[:2]}
    return {**found, **{own.js.publish_async(own.subject, one): one for one in texts[2:]}}


def _answers(own: Own, done: Iterable[Any], asked: dict[Any, bytes]) -> Iterator[bytes]:
    for future in done:
        answer = future.result(LONG)
        got = answer if isinstance(answer, jetsync.Msg) else own.stream.get_msg(answer.seq)
        assert got.data == asked[future]
        yield got.data


def waited(own: Own, timeout: float) -> Iterator[bytes]:
    asked = _asked(own)
    yield from _answers(own, jetsync.wait(asked, timeout).done, asked)
    yield from _answers(own, concurrent.futures.wait(asked, LONG).done, asked)


def completed(own: Own, timeout: float) -> Iterator[bytes]:
    asked = _asked(own)
    yield from _answers(own, concurrent.futures.as_completed(asked, LONG), asked)
    yield from _answers(own, jetsync.as_completed(asked, timeout), asked)


WAYS: dict[Callable[[Own, float], Iterator[bytes]], str] = {
    publish: "JetStream.publish Stream.get_msg",
    publish_async: "PubAckFuture.result",
    publish_many: "JetStream.publish_many Stream.get_last_msg",
    publish_arrow: "JetStream.publish_arrow",
    commit: "PublishBatch.commit",
    get_msgs: "Stream.get_msgs",
    fetch: "Consumer.fetch MsgBatch.ack_sync",
    fetch_no_wait: "Consumer.fetch_no_wait JetStreamMsg.ack_sync",
    following: "Consumer.next",
    iterated: "MessageStream.next",
    called: "ConsumeContext.wait",
    ordered: "OrderedConsumer.next",
    pushed: "PushSubscription.next",
    pulled: "PullSubscription.next",
    told: "Consumer.info Stream.consumer",
    values: "KeyValue.put KeyValue.get KeyValue.update KeyValue.history",
    watched: "Watcher.next",
    objects: "ObjectStore.put ObjectStore.get_bytes ObjectStore.info",
    asked: "Connection.request",
    served: "ServiceClient.call ServiceClient.ping",
    worked: "Worker.wait",
    waited: "wait RequestFuture.result",
    completed: "as_completed",
}
"""Each way, with the calls of the public surface whose answers it looks at."""


@pytest.fixture
def server() -> Iterator[NatsServer]:
    """A server with JetStream, unlike that of this folder's other tests."""
    with NatsServer() as one:
        yield one


def test_the_ways_are_calls_of_the_public_surface():
    assert {name for names in WAYS.values() for name in names.split()} <= set(surface())


def test_no_answer_of_any_call_reaches_another_caller(server, record_figure):
    wrong: list[object] = []
    counted = {"answered": 0, "given up": 0}
    lock = threading.Lock()

    def work(own: Own) -> None:
        dice = random.Random(own.name)
        for turn in range(ROUNDS * len(WAYS)):
            way = list(WAYS)[turn % len(WAYS)]
            timeout = IMPATIENT if dice.random() < 0.1 else LONG
            found: list[bytes] = []
            try:
                found.extend(way(own, timeout))
            except jetsync.Error as error:
                if timeout == LONG:
                    wrong.append((way.__name__, own.name, error))
            except Exception as error:
                wrong.append((way.__name__, own.name, error))
            wrong.extend(
                (way.__name__, own.name, data)
                for data in found
                if not data.startswith(own.name.encode())
            )
            with lock:
                counted["answered" if found else "given up"] += 1

    with jetsync.connect(server.url) as other, jetsync.connect(server.url, timeout=LONG) as nc:
        other.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        js = nc.jetstream(timeout=LONG)
        js.create_stream(name="OWN", subjects=["own.>"], allow_direct=True, allow_atomic=True)
        js.create_key_value(bucket="own", history=8)
        js.create_object_store(bucket="own")
        everything = [Own(nc, js, f"thread-{number}-") for number in range(THREADS)]
        threads = [threading.Thread(target=work, args=(own,)) for own in everything]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for own in everything:
            own.close()
        assert nc.stats.reconnects == 0
    record_figure(f"G18 calls of every kind by {THREADS} threads", counted["answered"])
    record_figure("G18 answers to another caller's call", len(wrong), goal="0")
    assert sorted({str(one) for one in wrong}) == []
    assert counted["answered"] > ROUNDS * len(WAYS) * THREADS / 2
