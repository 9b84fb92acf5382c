"""Every blocking call of the public surface, found by reflection and ready to be made.

``public_surface.surface()`` reads from the packages themselves what takes a timeout; ``CALLS`` says
how to make each of these calls on a ``World``. ``tests/package/test_public_calls.py`` holds the two
together, so a call that is added to the library is missing here until it can be put under
every general promise: deadlines, interrupts, forks, leaks, crossed replies.

``world = World.open(nc)`` prepares handles on a healthy connection; each thread needs its own.
``CALLS["Consumer.fetch"](world, 0.2)`` makes the call with that timeout. A call may raise any
``jetsync.Error``. No call destroys what another one needs.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import io
import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jetsync
from jetsync import services, worker

DAY = 86_400.0  # seconds
Call = Callable[["World", float], object]
_numbers = itertools.count()


class World:
    """What the calls are made on: handles of one connection and the names behind them."""

    STREAM = "CALLS"
    BUCKET = "calls"

    def __init__(self, nc: jetsync.Connection, timeout: float = 30.0) -> None:
        self.nc = nc
        self.number = next(_numbers)
        self.js = js = nc.jetstream(timeout=timeout)
        self.stream = js.create_or_update_stream(
            name=self.STREAM,
            subjects=["calls.>"],
            storage="memory",
            max_msgs=5_000,
            allow_direct=True,
            allow_atomic=True,
        )
        js.publish_many([("calls.first", b"x" * 100)] * 20)
        self.consumer = self._consumer("c")
        self.messages = self._consumer("m").messages()
        self.unsettled = list(self._consumer("r").fetch(16, timeout=timeout))
        self.ordered = js.ordered_consumer(self.STREAM)
        self.ordered_idle = js.ordered_consumer(self.STREAM)
        self.ordered_messages = js.ordered_consumer(self.STREAM).messages()
        self.ordered_batches = js.ordered_consumer(self.STREAM).messages()
        self.batches = self._consumer("b").messages()
        self.push = js.subscribe("calls.quiet", stream=self.STREAM, deliver_policy="new")
        self.pull = js.pull_subscribe("calls.>", stream=self.STREAM)
        self.sub = nc.subscribe(f"quiet.{self.number}")
        self.values = js.create_or_update_key_value(bucket=self.BUCKET, storage="memory", history=4)
        self.revision = self.values.put("key", b"value")
        self.watcher = self.values.watch("nothing.>")
        self.objects = js.create_or_update_object_store(bucket=self.BUCKET, storage="memory")
        self.about = self.objects.put("object", b"o" * 300_000)
        self.object_watcher = self.objects.watch(updates_only=True)
        self.future = js.publish_async("calls.future", b"x")
        self.waiting = self._consumer("w").consume(lambda msg: None)
        self.service = nc.add_service(f"calls{self.number}", "1.0.0")
        self.service.add_endpoint("echo", lambda request: request.data, subject=self.echo)
        self.client = services.ServiceClient(nc)
        self.client.call(self.echo, timeout=timeout)  # its thread begins with the first request
        self.worker, self.doomed = self.new_worker(), self.new_worker()
        self.file = Path(tempfile.gettempdir()) / f"public-calls-{self.number}-{id(self)}"
        self.file.write_bytes(b"f" * 1000)

    @classmethod
    def open(cls, nc: jetsync.Connection) -> World:
        """Prepare a world on this connection. It ends with the connection, or by ``close()``."""
        return cls(nc)

    def close(self) -> None:
        """Stop the handles and remove the file; for a connection that lives on."""
        for handle in (self.messages, self.batches, self.waiting, self.service):
            handle.stop()
        for one in (self.worker, self.doomed):
            one.drain()
        for ordered in (self.ordered_messages, self.ordered_batches):
            ordered.stop()
        for watcher in (self.watcher, self.object_watcher):
            watcher.stop()
        for subscription in (self.push, self.pull, self.sub):
            subscription.unsubscribe()
        self.file.unlink(missing_ok=True)

    def _consumer(self, name: str) -> jetsync.Consumer:
        return self.stream.create_or_update_consumer(
            durable_name=f"{name}{self.number}", ack_wait=3600, max_ack_pending=100_000
        )

    def new_worker(self, handler: Callable[[Any], object] = lambda msg: None) -> worker.Worker:
        """A worker at work, with a consumer of its own."""
        consumer = self._consumer(f"worker{next(_numbers)}-")
        return worker.Worker(consumer, handler, threads=1).start()

    @property
    def echo(self) -> str:
        """The subject of the service's endpoint."""
        return f"service.{self.number}"

    @property
    def name(self) -> str:
        """The durable consumer of the administrative calls."""
        return self.consumer.name

    @property
    def gone(self) -> str:
        """The name of nothing: for calls that delete."""
        return f"GONE{self.number}"


def _later() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.05)


def _batch(w: World, t: float) -> object:
    batch = w.js.batch(timeout=t)
    batch.add("calls.batch", b"1")
    return batch.commit("calls.batch", b"2", timeout=t)


def _arrow(w: World, t: float) -> object:
    import pyarrow as pa

    data = pa.record_batch({"data": pa.array([b"x"] * 50, pa.binary())})
    return w.js.publish_arrow(data, subject="calls.arrow", timeout=t)


def _take(iterator: Iterable[object]) -> object:
    """The first of what a call iterates over; the call's budget is for the whole of it."""
    with contextlib.closing(iter(iterator)) as taken:  # type: ignore[type-var]
        return next(taken, None)


def _all(iterator: Iterator[object]) -> object:
    return list(iterator)


def _opened(watcher: Any) -> object:
    watcher.stop()
    return watcher


def _ended(subscription: Any) -> object:
    subscription.unsubscribe()
    return subscription


def _asked(w: World, t: float) -> list[Any]:
    """Futures of both kinds; no answer settles the first one."""
    requests = [w.nc.request_async(subject, timeout=t) for subject in ("silent", "echo")]
    return [*requests, w.js.publish_async("calls.a", b"x", timeout=t)]


def _by_the_standard_library(w: World, t: float) -> object:
    """``as_completed`` of ``concurrent.futures``, with the error and the longest wait it has."""
    with contextlib.suppress(concurrent.futures.TimeoutError):
        return _all(concurrent.futures.as_completed(_asked(w, t), min(t, DAY)))
    return None


def _folder(name: str) -> Path:
    return Path(tempfile.mkdtemp(), name)


def _saved(stream: str) -> Path:
    """A folder with the backup of a stream whose data is damaged."""
    folder = _folder("saved")
    folder.mkdir()
    about = {"config": {"name": stream, "storage": "file"}, "state": {}}
    (folder / "backup.json").write_text(json.dumps(about))
    (folder / "stream.tar.s2").write_bytes(b"damaged")
    return folder


CALLS: dict[str, Call] = {
    # --- core -------------------------------------------------------------------------------
    "Connection.request": lambda w, t: w.nc.request("echo", b"x" * 500, timeout=t),
    "Connection.request, silent": lambda w, t: w.nc.request("silent", timeout=t),
    "Connection.request_async": lambda w, t: w.nc.request_async("echo", timeout=t).result(),
    "RequestFuture.result": lambda w, t: w.nc.request_async("silent", timeout=t).result(t),
    "RequestFuture.exception": lambda w, t: w.nc.request_async("silent", timeout=t).exception(t),
    "Connection.request_many": lambda w, t: _all(w.nc.request_many("echo", timeout=t)),
    "Connection.flush": lambda w, t: w.nc.flush(timeout=t),
    "Connection.rtt": lambda w, t: w.nc.rtt(timeout=t),
    "Subscription.next": lambda w, t: w.sub.next(timeout=t),
    "Subscription.drain": lambda w, t: w.nc.subscribe("short").drain(timeout=t),
    # --- publishing -------------------------------------------------------------------------
    "JetStream.publish": lambda w, t: w.js.publish("calls.one", b"x" * 100, timeout=t),
    "JetStream.publish, no stream": lambda w, t: w.js.publish("nowhere", b"x", timeout=t),
    "JetStream.publish_async": lambda w, t: w.js.publish_async("calls.a", b"x", timeout=t),
    "JetStream.publish_async_wait": lambda w, t: w.js.publish_async_wait(timeout=t),
    "JetStream.publish_many": lambda w, t: w.js.publish_many(
        [("calls.many", b"x" * 100)] * 50, timeout=t
    ),
    "JetStream.publish_arrow": _arrow,
    "PublishBatch.commit": _batch,
    "PubAckFuture.result": lambda w, t: w.js.publish_async("calls.a", b"x").result(timeout=t),
    "PubAckFuture.exception": lambda w, t: w.js.publish_async("calls.a", b"x").exception(timeout=t),
    "PubAckFuture.exception, settled": lambda w, t: w.future.exception(timeout=t),
    # --- waiting for futures ----------------------------------------------------------------
    "wait": lambda w, t: jetsync.wait(_asked(w, t), timeout=t),
    "wait, of concurrent.futures": lambda w, t: concurrent.futures.wait(_asked(w, t), min(t, DAY)),
    "as_completed": lambda w, t: _all(jetsync.as_completed(_asked(w, t), timeout=t)),
    "as_completed, of concurrent.futures": _by_the_standard_library,
    # --- services ---------------------------------------------------------------------------
    "ServiceClient.call": lambda w, t: w.client.call(w.echo, b"x", timeout=t),
    "ServiceClient.ping": lambda w, t: w.client.ping(w.service.name, timeout=t),
    "ServiceClient.info": lambda w, t: w.client.info(w.service.name, timeout=t),
    "ServiceClient.stats": lambda w, t: w.client.stats(w.service.name, timeout=t),
    "Service.stop": lambda w, t: w.nc.add_service("short", "1.0.0").stop(timeout=t),
    "Service.wait": lambda w, t: w.service.wait(timeout=t),
    # --- workers ----------------------------------------------------------------------------
    "Worker.wait": lambda w, t: w.worker.wait(timeout=t),
    "Worker.drain": lambda w, t: w.doomed.drain(timeout=t),
    # --- streams ----------------------------------------------------------------------------
    "JetStream.account_info": lambda w, t: w.js.account_info(timeout=t),
    "JetStream.create_stream": lambda w, t: w.js.create_stream(
        name=w.STREAM, subjects=["calls.other"], timeout=t
    ),
    "JetStream.update_stream": lambda w, t: w.js.update_stream(
        name=w.gone, subjects=["gone"], timeout=t
    ),
    "JetStream.create_or_update_stream": lambda w, t: w.js.create_or_update_stream(
        name="EXTRA", subjects=["extra"], storage="memory", timeout=t
    ),
    "JetStream.delete_stream": lambda w, t: w.js.delete_stream(w.gone, timeout=t),
    "JetStream.stream": lambda w, t: w.js.stream(w.STREAM, timeout=t),
    "JetStream.streams": lambda w, t: _all(w.js.streams(timeout=t)),
    "JetStream.stream_names": lambda w, t: _all(w.js.stream_names(timeout=t)),
    "JetStream.stream_name_by_subject": lambda w, t: w.js.stream_name_by_subject(
        "calls.one", timeout=t
    ),
    "JetStream.step_down_stream_leader": lambda w, t: w.js.step_down_stream_leader(
        w.gone, timeout=t
    ),
    "Connection.trace": lambda w, t: w.nc.trace("echo", timeout=t),
    "Stream.backup": lambda w, t: w.stream.backup(_folder("backup"), timeout=t),
    "JetStream.restore_stream": lambda w, t: w.js.restore_stream(_saved(w.gone), timeout=t),
    "JetStream.remove_stream_peer": lambda w, t: w.js.remove_stream_peer(w.gone, "n", timeout=t),
    "Stream.info": lambda w, t: w.stream.info(timeout=t),
    "Stream.purge": lambda w, t: w.stream.purge(subject="calls.nothing", timeout=t),
    "Stream.delete": lambda w, t: w.js.stream(w.gone, timeout=t).delete(timeout=t),
    "Stream.delete_msg": lambda w, t: w.stream.delete_msg(2**40, timeout=t),
    "Stream.get_msg": lambda w, t: w.stream.get_msg(1, timeout=t),
    "Stream.get_last_msg": lambda w, t: w.stream.get_last_msg("calls.first", timeout=t),
    "Stream.get_msgs": lambda w, t: w.stream.get_msgs(1, max_messages=100, timeout=t),
    "Stream.get_last_msgs": lambda w, t: w.stream.get_last_msgs(["calls.*"], timeout=t),
    # --- consumers --------------------------------------------------------------------------
    "JetStream.create_consumer": lambda w, t: w.js.create_consumer(
        w.STREAM, inactive_threshold=1.0, timeout=t
    ),
    "JetStream.update_consumer": lambda w, t: w.js.update_consumer(
        w.STREAM, durable_name=w.gone, timeout=t
    ),
    "JetStream.create_or_update_consumer": lambda w, t: w.js.create_or_update_consumer(
        w.STREAM, durable_name="extra", timeout=t
    ),
    "JetStream.consumer": lambda w, t: w.js.consumer(w.STREAM, w.name, timeout=t),
    "JetStream.delete_consumer": lambda w, t: w.js.delete_consumer(w.STREAM, w.gone, timeout=t),
    "JetStream.consumers": lambda w, t: _all(w.js.consumers(w.STREAM, timeout=t)),
    "JetStream.consumer_names": lambda w, t: _all(w.js.consumer_names(w.STREAM, timeout=t)),
    "JetStream.pause_consumer": lambda w, t: w.js.pause_consumer(
        w.STREAM, w.name, _later(), timeout=t
    ),
    "JetStream.resume_consumer": lambda w, t: w.js.resume_consumer(w.STREAM, w.name, timeout=t),
    "JetStream.reset_consumer": lambda w, t: w.js.reset_consumer(w.STREAM, w.name, timeout=t),
    "JetStream.unpin_consumer": lambda w, t: w.js.unpin_consumer(w.STREAM, w.name, "g", timeout=t),
    "JetStream.step_down_consumer_leader": lambda w, t: w.js.step_down_consumer_leader(
        w.STREAM, w.gone, timeout=t
    ),
    "JetStream.remove_consumer_peer": lambda w, t: w.js.remove_consumer_peer(
        w.STREAM, w.gone, "n", timeout=t
    ),
    "JetStream.ordered_consumer": lambda w, t: w.js.ordered_consumer(w.STREAM, timeout=t),
    "Stream.ordered_consumer": lambda w, t: w.stream.ordered_consumer(timeout=t),
    "Stream.create_consumer": lambda w, t: w.stream.create_consumer(
        inactive_threshold=1.0, timeout=t
    ),
    "Stream.update_consumer": lambda w, t: w.stream.update_consumer(durable_name=w.gone, timeout=t),
    "Stream.create_or_update_consumer": lambda w, t: w.stream.create_or_update_consumer(
        durable_name="extra", timeout=t
    ),
    "Stream.consumer": lambda w, t: w.stream.consumer(w.name, timeout=t),
    "Stream.delete_consumer": lambda w, t: w.stream.delete_consumer(w.gone, timeout=t),
    "Stream.consumers": lambda w, t: _all(w.stream.consumers(timeout=t)),
    "Stream.consumer_names": lambda w, t: _all(w.stream.consumer_names(timeout=t)),
    "Stream.pause_consumer": lambda w, t: w.stream.pause_consumer(w.name, _later(), timeout=t),
    "Stream.resume_consumer": lambda w, t: w.stream.resume_consumer(w.name, timeout=t),
    "Stream.reset_consumer": lambda w, t: w.stream.reset_consumer(w.name, timeout=t),
    "Stream.unpin_consumer": lambda w, t: w.stream.unpin_consumer(w.name, "g", timeout=t),
    "Consumer.info": lambda w, t: w.consumer.info(timeout=t),
    "Consumer.lag": lambda w, t: w.consumer.lag(timeout=t),
    "Consumer.explain_stall": lambda w, t: w.consumer.explain_stall(timeout=t),
    "Consumer.pause": lambda w, t: w.consumer.pause(_later(), timeout=t),
    "Consumer.resume": lambda w, t: w.consumer.resume(timeout=t),
    "Consumer.reset": lambda w, t: w.consumer.reset(timeout=t),
    "Consumer.unpin": lambda w, t: w.consumer.unpin("g", timeout=t),
    "Consumer.delete": lambda w, t: w.stream.create_consumer(
        inactive_threshold=1.0, timeout=t / 2
    ).delete(timeout=t / 2),
    # --- consuming --------------------------------------------------------------------------
    "Consumer.fetch_no_wait": lambda w, t: w.consumer.fetch_no_wait(10, timeout=t),
    "Consumer.fetch": lambda w, t: w.consumer.fetch(10, timeout=t),
    "Consumer.fetch, bytes": lambda w, t: w.consumer.fetch(max_bytes=10_000, timeout=t),
    "Consumer.fetch, eager": lambda w, t: w.consumer.fetch(10, timeout=t, eager=True),
    "Consumer.next": lambda w, t: w.consumer.next(timeout=t),
    "MessageStream.next": lambda w, t: w.messages.next(timeout=t),
    "MessageStream.batches": lambda w, t: _take(w.batches.batches(50, timeout=t)),
    "ConsumeContext.wait": lambda w, t: w.waiting.wait(timeout=t),
    "ConsumeContext.drain": lambda w, t: w.consumer.consume(lambda msg: None).drain(timeout=t),
    "OrderedConsumer.fetch_no_wait": lambda w, t: w.ordered.fetch_no_wait(10, timeout=t),
    "OrderedConsumer.fetch": lambda w, t: w.ordered.fetch(10, timeout=t),
    "OrderedConsumer.next": lambda w, t: w.ordered.next(timeout=t),
    "OrderedConsumer.info": lambda w, t: w.ordered.info(timeout=t),
    "OrderedConsumer.lag": lambda w, t: w.ordered.lag(timeout=t),
    "OrderedConsumer.explain_stall": lambda w, t: w.ordered_idle.explain_stall(timeout=t),
    "OrderedMessages.next": lambda w, t: w.ordered_messages.next(timeout=t),
    "OrderedMessages.batches": lambda w, t: _take(w.ordered_batches.batches(50, timeout=t)),
    "JetStream.subscribe": lambda w, t: _ended(
        w.js.subscribe("calls.>", stream=w.STREAM, deliver_policy="new", timeout=t)
    ),
    "JetStream.pull_subscribe": lambda w, t: _ended(
        w.js.pull_subscribe("calls.>", stream=w.STREAM, timeout=t)
    ),
    "PushSubscription.next": lambda w, t: w.push.next(timeout=t),
    "PushSubscription.info": lambda w, t: w.push.info(timeout=t),
    "PushSubscription.drain": lambda w, t: w.js.subscribe(
        "calls.>", stream=w.STREAM, deliver_policy="new", timeout=t / 2
    ).drain(timeout=t / 2),
    "PushSubscription.unsubscribe": lambda w, t: w.js.subscribe(
        "calls.>", stream=w.STREAM, deliver_policy="new", timeout=t / 2
    ).unsubscribe(timeout=t / 2),
    "PullSubscription.fetch": lambda w, t: w.pull.fetch(10, timeout=t),
    "PullSubscription.next": lambda w, t: w.pull.next(timeout=t),
    "PullSubscription.info": lambda w, t: w.pull.info(timeout=t),
    "PullSubscription.drain": lambda w, t: w.js.pull_subscribe(
        "calls.>", stream=w.STREAM, timeout=t / 2
    ).drain(timeout=t / 2),
    "PullSubscription.unsubscribe": lambda w, t: w.js.pull_subscribe(
        "calls.>", stream=w.STREAM, timeout=t / 2
    ).unsubscribe(timeout=t / 2),
    # --- acknowledging ----------------------------------------------------------------------
    "JetStreamMsg.ack_sync": lambda w, t: w.unsettled.pop().ack_sync(timeout=t),
    "JetStreamMsg.ack_next": lambda w, t: w.unsettled.pop().ack_next(timeout=t),
    "MsgBatch.ack_sync": lambda w, t: w.consumer.fetch_no_wait(10).ack_sync(timeout=t),
    # --- key-value --------------------------------------------------------------------------
    "JetStream.create_key_value": lambda w, t: w.js.create_key_value(
        bucket=w.BUCKET, history=2, timeout=t
    ),
    "JetStream.update_key_value": lambda w, t: w.js.update_key_value(bucket=w.gone, timeout=t),
    "JetStream.create_or_update_key_value": lambda w, t: w.js.create_or_update_key_value(
        bucket="extra", storage="memory", timeout=t
    ),
    "JetStream.key_value": lambda w, t: w.js.key_value(w.BUCKET, timeout=t),
    "JetStream.key_value_names": lambda w, t: _all(iter(w.js.key_value_names(timeout=t))),
    "JetStream.key_value_buckets": lambda w, t: _all(iter(w.js.key_value_buckets(timeout=t))),
    "JetStream.delete_key_value": lambda w, t: w.js.delete_key_value(w.gone, timeout=t),
    "KeyValue.get": lambda w, t: w.values.get("key", timeout=t),
    "KeyValue.put": lambda w, t: w.values.put("other", b"x", timeout=t),
    "KeyValue.create": lambda w, t: w.values.create("key", b"x", timeout=t),
    "KeyValue.update": lambda w, t: w.values.update("key", b"x", 2**40, timeout=t),
    "KeyValue.delete": lambda w, t: w.values.delete("other", timeout=t),
    "KeyValue.purge": lambda w, t: w.values.purge("other", timeout=t),
    "KeyValue.purge_deletes": lambda w, t: w.values.purge_deletes(timeout=t),
    "KeyValue.exists": lambda w, t: w.values.exists("key", timeout=t),
    "KeyValue.get_many": lambda w, t: w.values.get_many(["key", "other"], timeout=t),
    "KeyValue.iter_keys": lambda w, t: _all(w.values.iter_keys(timeout=t)),
    "KeyValue.iter_history": lambda w, t: _all(w.values.iter_history(timeout=t)),
    "KeyValue.entries": lambda w, t: _all(w.values.entries(timeout=t)),
    "KeyValue.items": lambda w, t: _all(w.values.items(timeout=t)),
    "KeyValue.modify": lambda w, t: w.values.modify("other", lambda value: b"x", timeout=t),
    "KeyValue.keys": lambda w, t: _all(iter(w.values.keys(timeout=t))),
    "KeyValue.history": lambda w, t: w.values.history("key", timeout=t),
    "KeyValue.status": lambda w, t: w.values.status(timeout=t),
    "KeyValue.watch": lambda w, t: _opened(w.values.watch("key", timeout=t)),
    "Watcher.next": lambda w, t: w.watcher.next(timeout=t),
    "Watcher.initial": lambda w, t: w.watcher.initial(timeout=t),
    # --- object store -----------------------------------------------------------------------
    "JetStream.create_object_store": lambda w, t: w.js.create_object_store(
        bucket=w.BUCKET, max_bytes=10_000, timeout=t
    ),
    "JetStream.update_object_store": lambda w, t: w.js.update_object_store(
        bucket=w.gone, timeout=t
    ),
    "JetStream.create_or_update_object_store": lambda w, t: w.js.create_or_update_object_store(
        bucket="extra", storage="memory", timeout=t
    ),
    "JetStream.object_store": lambda w, t: w.js.object_store(w.BUCKET, timeout=t),
    "JetStream.object_stores": lambda w, t: _all(iter(w.js.object_stores(timeout=t))),
    "JetStream.object_store_names": lambda w, t: _all(iter(w.js.object_store_names(timeout=t))),
    "JetStream.delete_object_store": lambda w, t: w.js.delete_object_store(w.gone, timeout=t),
    "ObjectStore.put": lambda w, t: w.objects.put("put", io.BytesIO(b"p" * 200_000), timeout=t),
    "ObjectStore.put_file": lambda w, t: w.objects.put_file(w.file, "put", timeout=t),
    "ObjectStore.get": lambda w, t: w.objects.get("object", timeout=t, read_timeout=t).close(),
    "ObjectStore.get_bytes": lambda w, t: w.objects.get_bytes("object", timeout=t),
    "ObjectStore.get_file": lambda w, t: w.objects.get_file("object", w.file, timeout=t),
    "ObjectStore.open": lambda w, t: w.objects.open("object", timeout=t).close(),
    "ObjectStore.copy": lambda w, t: w.objects.copy("object", "copy", timeout=t),
    "ObjectStore.exists": lambda w, t: w.objects.exists("object", timeout=t),
    "ObjectStore.prune": lambda w, t: w.objects.prune(timeout=t),
    "ObjectStore.info": lambda w, t: w.objects.info("object", timeout=t),
    "ObjectStore.update_meta": lambda w, t: w.objects.update_meta(
        "object", description="x", timeout=t
    ),
    "ObjectStore.delete": lambda w, t: w.objects.delete(w.gone, timeout=t),
    "ObjectStore.list": lambda w, t: _all(iter(w.objects.list(timeout=t))),
    "ObjectStore.status": lambda w, t: w.objects.status(timeout=t),
    "ObjectStore.add_link": lambda w, t: w.objects.add_link("link", w.about, timeout=t),
    "ObjectStore.add_bucket_link": lambda w, t: w.objects.add_bucket_link(
        "object", w.objects, timeout=t
    ),
    "ObjectStore.seal": lambda w, t: w.js.object_store(w.gone, timeout=t).seal(timeout=t),
    "ObjectStore.watch": lambda w, t: _opened(w.objects.watch(timeout=t)),
    "ObjectWatcher.next": lambda w, t: w.object_watcher.next(timeout=t),
    "ObjectWatcher.initial": lambda w, t: w.object_watcher.initial(timeout=t),
}

ENDINGS: dict[str, Call] = {
    "Connection.drain": lambda w, t: w.nc.drain(timeout=t),
    "Connection.close": lambda w, t: w.nc.close(),
}
"""Calls that end the connection, with the world on it."""
