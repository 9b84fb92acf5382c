"""natsrpy, an asyncio client over a core in Rust."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from awaiting import timed_calls
from meter import Job, main
from natsrpy import Nats


async def connect(job: Job) -> Nats:
    nc = Nats([job.url.removeprefix("nats://")])
    await nc.startup()
    return nc


async def publish(job: Job) -> None:
    nc, data = await connect(job), job.payload
    job.start()
    for _ in range(job.count):
        await nc.publish("unused", data)
    await nc.flush()
    job.stop(job.count, job.count * len(data))


async def sub_callback(job: Job) -> None:
    nc = await connect(job)
    seen, touched, done = 0, 0, asyncio.Event()

    async def on_message(msg) -> None:
        nonlocal seen, touched
        touched += len(msg.payload)
        seen += 1
        if seen == job.count:
            done.set()

    async with nc.subscribe(job.subject, callback=on_message):
        await nc.flush()
        job.start()
        await done.wait()
        job.stop(seen, touched)


async def sub_iter(job: Job) -> None:
    nc = await connect(job)
    async with nc.subscribe(job.subject) as sub:
        await nc.flush()
        job.start()
        seen = touched = 0
        async for msg in sub:
            touched += len(msg.payload)
            seen += 1
            if seen == job.count:
                break
        job.stop(seen, touched)


async def awaited(future) -> object:
    return await future


async def request(job: Job) -> None:
    nc = await connect(job)
    await timed_calls(job, lambda: awaited(nc.request(job.subject, job.payload)))


async def js_publish(job: Job) -> None:
    nc = await connect(job)  # kept: the connection ends with its object
    js = await nc.jetstream()
    await timed_calls(job, lambda: awaited(js.publish(job.subject, job.payload, wait=True)))


async def fetch(job: Job, answer: bool = False) -> None:
    nc = await connect(job)  # kept: the connection ends with its object
    js = await nc.jetstream()
    source = await (await js.streams.get(job.stream)).consumers.get_pull(job.consumer)
    job.start()
    seen = touched = 0
    while seen < job.count:
        batch = await source.fetch(max_messages=min(job.batch, job.count - seen), timeout=60)
        for msg in batch:
            touched += len(msg.payload)
            if answer:
                await msg.ack()
        seen += len(batch)
    job.stop(seen, touched)


async def fetch_ack(job: Job) -> None:
    await fetch(job, True)


async def messages(job: Job) -> None:
    nc = await connect(job)  # kept: the connection ends with its object
    js = await nc.jetstream()
    source = await (await js.streams.get(job.stream)).consumers.get_pull(job.consumer)
    job.start()
    seen = touched = 0
    async with source.consume() as stream:
        async for msg in stream:
            touched += len(msg.payload)
            seen += 1
            if seen == job.count:
                break
        job.stop(seen, touched)


if __name__ == "__main__":
    main(
        f"natsrpy {version('natsrpy')}",
        {
            "publish": publish,
            "sub_callback": sub_callback,
            "sub_iter": sub_iter,
            "request": request,
            "js_publish": js_publish,
            "fetch": fetch,
            "fetch_ack": fetch_ack,
            "messages": messages,
        },
    )
