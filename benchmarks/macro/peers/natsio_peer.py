"""natsio, an asyncio client without dependencies; version 1 needs a recent Python."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import natsio
from awaiting import timed_calls
from meter import Job, main, resident

MANY = {"pending_msgs_limit": 10**9, "pending_bytes_limit": 10**12}


async def publish(job: Job) -> None:
    nc, data = await natsio.connect(job.url), job.payload
    job.start()
    for _ in range(job.count):
        await nc.publish("unused", data)
    await nc.flush(60)
    job.stop(job.count, job.count * len(data))


async def sub_callback(job: Job) -> None:
    nc = await natsio.connect(job.url)
    seen, touched, done = 0, 0, asyncio.Event()

    async def on_message(msg) -> None:
        nonlocal seen, touched
        touched += len(msg.payload)
        seen += 1
        if seen == job.count:
            done.set()

    nc.subscribe(job.subject, cb=on_message, **MANY)
    await nc.flush()
    job.start()
    await done.wait()
    job.stop(seen, touched)


async def take(job: Job, messages, answer: str | None = None) -> None:
    seen = touched = 0
    async for msg in messages:
        touched += len(msg.payload)
        if answer == "ack":
            await msg.ack()
        elif answer == "ack_sync":
            await msg.ack_sync()
        seen += 1
        if seen == job.count:
            break
    job.stop(seen, touched)


async def sub_iter(job: Job) -> None:
    nc = await natsio.connect(job.url)
    sub = nc.subscribe(job.subject, **MANY)
    await nc.flush()
    job.start()
    await take(job, sub)


async def sub_next(job: Job) -> None:
    nc = await natsio.connect(job.url)
    sub = nc.subscribe(job.subject, **MANY)
    await nc.flush()
    job.start()
    touched = 0
    for _ in range(job.count):
        touched += len((await sub.next_msg(60)).payload)
    job.stop(job.count, touched)


async def request(job: Job) -> None:
    nc = await natsio.connect(job.url)
    await timed_calls(job, lambda: nc.request(job.subject, job.payload, timeout=60))


async def js_publish(job: Job) -> None:
    js = (await natsio.connect(job.url)).jetstream()
    await timed_calls(job, lambda: js.publish(job.subject, job.payload))


async def js_async(job: Job) -> None:
    js = (await natsio.connect(job.url)).jetstream()
    job.start()
    futures = [await js.publish_async(job.subject, job.payload) for _ in range(job.count)]
    stored = sum([(await future).seq > 0 for future in futures])
    job.stop(stored, stored * job.size)


async def consumer(job: Job):
    js = (await natsio.connect(job.url)).jetstream()
    return await (await js.stream(job.stream)).consumer(job.consumer)


async def fetch(job: Job, answer: str | None = None) -> None:
    source = await consumer(job)
    job.start()
    seen = touched = 0
    while seen < job.count:
        batch = await source.fetch(min(job.batch, job.count - seen), timeout=60)
        for msg in batch:
            touched += len(msg.payload)
            if answer == "ack":
                await msg.ack()
            elif answer == "ack_sync":
                await msg.ack_sync()
        seen += len(batch)
    job.stop(seen, touched)


async def fetch_ack(job: Job) -> None:
    await fetch(job, "ack")


async def fetch_ack_sync(job: Job) -> None:
    await fetch(job, "ack_sync")


async def messages(job: Job, answer: str | None = None) -> None:
    source = await consumer(job)
    job.start()
    async with source.consume() as stream:
        await take(job, stream, answer)


async def messages_ack(job: Job) -> None:
    await messages(job, "ack")


async def messages_ack_sync(job: Job) -> None:
    await messages(job, "ack_sync")


async def ordered(job: Job) -> None:
    js = (await natsio.connect(job.url)).jetstream()
    source = (await js.stream(job.stream)).ordered_consumer()
    job.start()
    await take(job, source.messages())


async def memory(job: Job) -> None:
    nc = await natsio.connect(job.url)
    sub = nc.subscribe(job.subject, **MANY)
    await nc.flush()
    before = resident()
    job.start()
    while sub.pending_msgs < job.count:
        await asyncio.sleep(0.001)
    job.stop(job.count, job.count * job.size)
    job.result["bytes_per_message"] = (resident() - before) / job.count


if __name__ == "__main__":
    main(
        f"natsio {version('natsio')}",
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
            "messages": messages,
            "messages_ack": messages_ack,
            "messages_ack_sync": messages_ack_sync,
            "ordered": ordered,
            "memory": memory,
        },
    )
