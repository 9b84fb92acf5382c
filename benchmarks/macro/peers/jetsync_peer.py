"""jetsync."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from meter import Job, main, resident

import jetsync


def publish(job: Job) -> None:
    nc, data = jetsync.connect(job.url), job.payload
    job.start()
    for _ in range(job.count):
        nc.publish("unused", data)
    nc.flush()
    job.stop(job.count, job.count * len(data))


def wait_until(reached: Callable[[], bool]) -> None:
    while not reached():
        time.sleep(0.0005)


def sub_callback(job: Job) -> None:
    nc = jetsync.connect(job.url)
    seen, touched = 0, 0

    def on_message(msg: jetsync.Msg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1

    nc.subscribe(job.subject, callback=on_message, pending_messages_limit=0, pending_bytes_limit=0)
    nc.flush()
    job.start()
    wait_until(lambda: seen >= job.count)
    job.stop(seen, touched)


def unlimited(job: Job) -> tuple[jetsync.Connection, jetsync.Subscription]:
    nc = jetsync.connect(job.url)
    sub = nc.subscribe(job.subject, pending_messages_limit=0, pending_bytes_limit=0)
    nc.flush()
    return nc, sub


def take(job: Job, messages: Iterable[Any]) -> None:
    job.start()
    seen = touched = 0
    for msg in messages:
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            break
    job.stop(seen, touched)


def sub_iter(job: Job) -> None:
    _nc, sub = unlimited(job)
    take(job, sub)


def sub_next(job: Job) -> None:
    _nc, sub = unlimited(job)
    job.start()
    touched = 0
    for _ in range(job.count):
        touched += len(sub.next(timeout=60).data)
    job.stop(job.count, touched)


def timed_calls(job: Job, call: Callable[[], Any]) -> None:
    durations = []
    now = time.perf_counter
    call()
    job.start()
    for _ in range(job.count):
        before = now()
        call()
        durations.append(now() - before)
    job.stop(job.count, job.count * job.size)
    job.latencies(durations)


def request(job: Job) -> None:
    nc = jetsync.connect(job.url)
    timed_calls(job, lambda: nc.request(job.subject, job.payload, timeout=60).data)


def js_publish(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream()
    timed_calls(job, lambda: js.publish(job.subject, job.payload))


def js_async(job: Job, **options: Any) -> None:
    js = jetsync.connect(job.url).jetstream(**options)
    job.start()
    futures = [js.publish_async(job.subject, job.payload) for _ in range(job.count)]
    js.publish_async_wait(timeout=120)
    stored = sum(future.result().seq > 0 for future in futures)
    job.stop(stored, stored * job.size)


def js_async_no_id(job: Job) -> None:
    js_async(job, auto_msg_id=False)


def js_many(job: Job, **options: Any) -> None:
    js = jetsync.connect(job.url).jetstream(**options)
    job.start()
    report = js.publish_many((job.subject, job.payload) for _ in range(job.count))
    report.raise_for_failed()
    job.stop(job.count, job.count * job.size)


def js_many_no_id(job: Job) -> None:
    js_many(job, auto_msg_id=False)


def js_arrow(job: Job) -> None:
    import pyarrow

    js = jetsync.connect(job.url).jetstream()
    rows = pyarrow.record_batch({"data": pyarrow.array([job.payload] * job.count)})
    job.start()
    js.publish_arrow(rows, subject=job.subject).raise_for_failed()
    job.stop(job.count, job.count * job.size)


def consumer(job: Job) -> tuple[jetsync.Connection, jetsync.Consumer]:
    nc = jetsync.connect(job.url)
    return nc, nc.jetstream().consumer(job.stream, job.consumer)


def fetch_all(job: Job, work: Callable[[jetsync.MsgBatch], int]) -> None:
    nc, source = consumer(job)
    job.start()
    seen = touched = 0
    while seen < job.count:
        batch = source.fetch(min(job.batch, job.count - seen), timeout=60)
        touched += work(batch)
        seen += len(batch)
    nc.flush()
    job.stop(seen, touched)


def touch(batch: jetsync.MsgBatch) -> int:
    total = 0
    for msg in batch:
        total += len(msg.data)
    return total


def touch_and_ack(batch: jetsync.MsgBatch) -> int:
    total = 0
    for msg in batch:
        total += len(msg.data)
        msg.ack()
    return total


def touch_and_ack_batch(batch: jetsync.MsgBatch) -> int:
    total = touch(batch)
    batch.ack()
    return total


def touch_and_ack_sync(batch: jetsync.MsgBatch) -> int:
    total = 0
    for msg in batch:
        total += len(msg.data)
        msg.ack_sync()
    return total


def touch_and_ack_sync_batch(batch: jetsync.MsgBatch) -> int:
    total = touch(batch)
    batch.ack_sync()
    return total


def fetch_arrow(job: Job) -> None:
    import pyarrow.compute

    def work(batch: jetsync.MsgBatch) -> int:
        columns = batch.to_arrow()
        return int(pyarrow.compute.sum(pyarrow.compute.binary_length(columns["data"])).as_py())

    job.batch *= 10
    fetch_all(job, work)


def iterate(job: Job, answer: str | None = None) -> None:
    nc, source = consumer(job)
    with source.messages(stop_after=job.count) as stream:
        if answer is None:
            take(job, stream)
            return
        job.start()
        seen = touched = 0
        for msg in stream:
            touched += len(msg.data)
            msg.ack() if answer == "ack" else msg.ack_sync()
            seen += 1
        nc.flush()
        job.stop(seen, touched)


def call_back(job: Job, answer: str | None = None) -> None:
    nc, source = consumer(job)
    seen = touched = 0

    def plain(msg: jetsync.JetStreamMsg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1

    def ack(msg: jetsync.JetStreamMsg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        msg.ack()
        seen += 1

    def ack_sync(msg: jetsync.JetStreamMsg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        msg.ack_sync()
        seen += 1

    callback = {None: plain, "ack": ack, "ack_sync": ack_sync}[answer]
    job.start()
    with source.consume(callback, stop_after=job.count):
        wait_until(lambda: seen >= job.count)
    nc.flush()
    job.stop(seen, touched)


def ordered(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream()
    with js.ordered_consumer(job.stream) as source, source.messages() as stream:
        take(job, stream)


def push(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream()
    seen = touched = 0

    def on_message(msg: jetsync.JetStreamMsg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1

    job.start()
    js.subscribe(stream=job.stream, callback=on_message, ack_policy="none", **UNLIMITED)
    wait_until(lambda: seen >= job.count)
    job.stop(seen, touched)


UNLIMITED: dict[str, Any] = {"pending_messages_limit": 0, "pending_bytes_limit": 0}


def range_read(job: Job) -> None:
    stream = jetsync.connect(job.url).jetstream().stream(job.stream)
    job.start()
    seen = touched = 0
    while seen < job.count:
        batch = stream.get_msgs(seen + 1, max_messages=min(1000, job.count - seen))
        for msg in batch:
            touched += len(msg.data)
        seen += len(batch)
    job.stop(seen, touched)


def memory(job: Job) -> None:
    _nc, sub = unlimited(job)
    before = resident()
    job.start()
    wait_until(lambda: sub.pending_messages >= job.count)
    job.stop(job.count, job.count * job.size)
    job.result["bytes_per_message"] = (resident() - before) / job.count


if __name__ == "__main__":
    main(
        f"jetsync {jetsync.__version__}",
        {
            "publish": publish,
            "sub_callback": sub_callback,
            "sub_iter": sub_iter,
            "sub_next": sub_next,
            "request": request,
            "js_publish": js_publish,
            "js_async": js_async,
            "js_async_no_id": js_async_no_id,
            "js_many": js_many,
            "js_many_no_id": js_many_no_id,
            "js_arrow": js_arrow,
            "fetch": lambda job: fetch_all(job, touch),
            "fetch_ack": lambda job: fetch_all(job, touch_and_ack),
            "fetch_ack_batch": lambda job: fetch_all(job, touch_and_ack_batch),
            "fetch_ack_sync": lambda job: fetch_all(job, touch_and_ack_sync),
            "fetch_ack_sync_batch": lambda job: fetch_all(job, touch_and_ack_sync_batch),
            "messages": iterate,
            "messages_ack": lambda job: iterate(job, "ack"),
            "messages_ack_sync": lambda job: iterate(job, "ack_sync"),
            "consume": call_back,
            "consume_ack": lambda job: call_back(job, "ack"),
            "consume_ack_sync": lambda job: call_back(job, "ack_sync"),
            "ordered": ordered,
            "push": push,
            "fetch_arrow": fetch_arrow,
            "range_read": range_read,
            "memory": memory,
        },
    )
