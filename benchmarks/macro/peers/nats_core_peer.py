"""nats-core and nats-jetstream, an asyncio client in two packages; they need a recent Python."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from awaiting import timed_calls
from meter import Job, main
from nats import client, jetstream

MANY = {"max_pending_messages": None, "max_pending_bytes": None}


async def publish(job: Job) -> None:
    nc, data = await client.connect(job.url), job.payload
    job.start()
    for _ in range(job.count):
        await nc.publish("unused", data)
    await nc.flush(60)
    job.stop(job.count, job.count * len(data))


async def sub_callback(job: Job) -> None:
    nc = await client.connect(job.url)
    seen, touched, done = 0, 0, asyncio.Event()

    def on_message(msg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            done.set()

    sub = await nc.subscribe(job.subject, **MANY)
    sub.add_callback(on_message)
    await nc.flush()
    job.start()
    await done.wait()
    job.stop(seen, touched)


async def take(job: Job, messages, answer: str | None = None) -> None:
    seen = touched = 0
    async for msg in messages:
        touched += len(msg.data)
        if answer == "ack":
            await msg.ack()
        elif answer == "ack_sync":
            await msg.double_ack(timeout=60)
        seen += 1
        if seen == job.count:
            break
    job.stop(seen, touched)


async def sub_iter(job: Job) -> None:
    nc = await client.connect(job.url)
    sub = await nc.subscribe(job.subject, **MANY)
    await nc.flush()
    job.start()
    await take(job, sub)


async def sub_next(job: Job) -> None:
    nc = await client.connect(job.url)
    sub = await nc.subscribe(job.subject, **MANY)
    await nc.flush()
    job.start()
    touched = 0
    for _ in range(job.count):
        touched += len((await sub.next(60)).data)
    job.stop(job.count, touched)


async def request(job: Job) -> None:
    nc = await client.connect(job.url)
    await timed_calls(job, lambda: nc.request(job.subject, job.payload, timeout=60))


async def js_publish(job: Job) -> None:
    js = jetstream.new(await client.connect(job.url))
    await timed_calls(job, lambda: js.publish(job.subject, job.payload, timeout=60))


async def consumer(job: Job):
    js = jetstream.new(await client.connect(job.url))
    return await js.get_consumer(job.stream, job.consumer)


async def fetch(job: Job, answer: str | None = None) -> None:
    source = await consumer(job)
    job.start()
    seen = touched = 0
    while seen < job.count:
        wanted = min(job.batch, job.count - seen)
        async for msg in await source.fetch(max_messages=wanted, max_wait=60):
            touched += len(msg.data)
            if answer == "ack":
                await msg.ack()
            elif answer == "ack_sync":
                await msg.double_ack(timeout=60)
            seen += 1
    job.stop(seen, touched)


async def fetch_ack(job: Job) -> None:
    await fetch(job, "ack")


async def fetch_ack_sync(job: Job) -> None:
    await fetch(job, "ack_sync")


async def messages(job: Job, answer: str | None = None) -> None:
    source = await consumer(job)
    job.start()
    await take(job, await source.messages(), answer)


async def messages_ack(job: Job) -> None:
    await messages(job, "ack")


async def messages_ack_sync(job: Job) -> None:
    await messages(job, "ack_sync")


if __name__ == "__main__":
    main(
        f"nats-core {version('nats-core')}, nats-jetstream {version('nats-jetstream')}",
        {
            "publish": publish,
            "sub_callback": sub_callback,
            "sub_iter": sub_iter,
            "sub_next": sub_next,
            "request": request,
            "js_publish": js_publish,
            "fetch": fetch,
            "fetch_ack": fetch_ack,
            "fetch_ack_sync": fetch_ack_sync,
            "messages": messages,
            "messages_ack": messages_ack,
            "messages_ack_sync": messages_ack_sync,
        },
    )
