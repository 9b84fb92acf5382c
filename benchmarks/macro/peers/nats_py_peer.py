"""nats-py, the official asyncio client."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import nats
from awaiting import timed_calls
from meter import Job, main, resident
from nats.js.api import AckPolicy, ConsumerConfig

UNLIMITED = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}


async def publish(job: Job) -> None:
    nc, data = await nats.connect(job.url), job.payload
    job.start()
    for _ in range(job.count):
        await nc.publish("unused", data)
    await nc.flush(60)
    job.stop(job.count, job.count * len(data))


async def sub_callback(job: Job) -> None:
    nc = await nats.connect(job.url)
    seen, touched, done = 0, 0, asyncio.Event()

    async def on_message(msg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            done.set()

    await nc.subscribe(job.subject, cb=on_message, **UNLIMITED)
    await nc.flush()
    job.start()
    await done.wait()
    job.stop(seen, touched)


async def sub_iter(job: Job) -> None:
    nc = await nats.connect(job.url)
    sub = await nc.subscribe(job.subject, **UNLIMITED)
    await nc.flush()
    job.start()
    seen = touched = 0
    async for msg in sub.messages:
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            break
    job.stop(seen, touched)


async def sub_next(job: Job) -> None:
    nc = await nats.connect(job.url)
    sub = await nc.subscribe(job.subject, **UNLIMITED)
    await nc.flush()
    job.start()
    touched = 0
    for _ in range(job.count):
        touched += len((await sub.next_msg(60)).data)
    job.stop(job.count, touched)


async def request(job: Job) -> None:
    nc = await nats.connect(job.url)
    await timed_calls(job, lambda: nc.request(job.subject, job.payload, timeout=60))


async def js_publish(job: Job) -> None:
    js = (await nats.connect(job.url)).jetstream()
    await timed_calls(job, lambda: js.publish(job.subject, job.payload))


async def js_async(job: Job) -> None:
    js = (await nats.connect(job.url)).jetstream()
    job.start()
    futures = [await js.publish_async(job.subject, job.payload) for _ in range(job.count)]
    stored = sum([(await future).seq > 0 for future in futures])
    job.stop(stored, stored * job.size)


async def fetch(job: Job, answer: str | None = None) -> None:
    nc = await nats.connect(job.url)
    sub = await nc.jetstream().pull_subscribe_bind(job.consumer, job.stream)
    job.start()
    seen = touched = 0
    while seen < job.count:
        batch = await sub.fetch(min(job.batch, job.count - seen), timeout=60)
        for msg in batch:
            touched += len(msg.data)
            if answer == "ack":
                await msg.ack()
            elif answer == "ack_sync":
                await msg.ack_sync()
        seen += len(batch)
    await nc.flush()
    job.stop(seen, touched)


async def fetch_ack(job: Job) -> None:
    await fetch(job, "ack")


async def fetch_ack_sync(job: Job) -> None:
    await fetch(job, "ack_sync")


async def ordered(job: Job) -> None:
    js = (await nats.connect(job.url)).jetstream()
    job.start()
    sub = await js.subscribe(job.subject, stream=job.stream, ordered_consumer=True)
    seen = touched = 0
    async for msg in sub.messages:
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            break
    job.stop(seen, touched)


async def push(job: Job) -> None:
    js = (await nats.connect(job.url)).jetstream()
    seen, touched, done = 0, 0, asyncio.Event()

    async def on_message(msg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            done.set()

    job.start()
    await js.subscribe(
        job.subject,
        stream=job.stream,
        cb=on_message,
        config=ConsumerConfig(ack_policy=AckPolicy.NONE),
        **UNLIMITED,
    )
    await done.wait()
    job.stop(seen, touched)


async def memory(job: Job) -> None:
    nc = await nats.connect(job.url)
    sub = await nc.subscribe(job.subject, **UNLIMITED)
    await nc.flush()
    before = resident()
    job.start()
    while sub.pending_msgs < job.count:
        await asyncio.sleep(0.001)
    job.stop(job.count, job.count * job.size)
    job.result["bytes_per_message"] = (resident() - before) / job.count


if __name__ == "__main__":
    main(
        f"nats-py {version('nats-py')}",
        {
            "publish": publish,
            "sub_callback": sub_callback,
            "sub_iter": sub_iter,
            "sub_next": sub_next,
            "request": request,
            "js_publish": js_publish,
            "js_async_no_id": js_async,
            "fetch": fetch,
            "fetch_ack": fetch_ack,
            "fetch_ack_sync": fetch_ack_sync,
            "ordered": ordered,
            "push": push,
            "memory": memory,
        },
    )
