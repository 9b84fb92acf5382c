"""nats-py, how its cost grows: what jetsync_growth.py does, where it has such a call."""

from __future__ import annotations

import asyncio
import resource
from importlib.metadata import version

import nats
from meter import Job, main
from nats.js.api import KeyValueConfig, StorageType, StreamConfig
from nats_py_peer import UNLIMITED


async def callbacks(job: Job) -> None:
    nc = await nats.connect(job.url)
    seen, touched, done = 0, 0, asyncio.Event()

    async def on_message(msg) -> None:
        nonlocal seen, touched
        touched += len(msg.data)
        seen += 1
        if seen == job.count:
            done.set()

    for n in range(job.point):
        await nc.subscribe(f"{job.subject}.{n}", cb=on_message, **UNLIMITED)
    await nc.flush(60)
    job.start()
    await done.wait()
    job.stop(seen, touched)


async def connections(job: Job) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16 * job.point)), hard))
    back = 0

    async def on_reconnected() -> None:
        nonlocal back
        back += 1

    async def no_word(_error) -> None:
        pass

    links = [
        await nats.connect(
            job.url, reconnected_cb=on_reconnected, error_cb=no_word, max_reconnect_attempts=-1
        )
        for _ in range(job.point)
    ]
    job.start()
    for nc in links:
        nc._transport.close()
    while back < job.point:
        await asyncio.sleep(0.05)
    job.stop(job.point, job.point * job.size)


async def keys(job: Job) -> None:
    nc = await nats.connect(job.url)
    js = nc.jetstream()
    bucket = f"keys_py_{job.point}"
    kv = await js.create_key_value(KeyValueConfig(bucket, storage=StorageType.MEMORY))
    try:
        for n in range(job.point):
            await nc.publish(f"$KV.{bucket}.key.{n}", b"v")
        await nc.flush(60)
        job.start()
        found = len(await kv.keys())
        job.stop(found, found * job.size)
    finally:
        await js.delete_key_value(bucket)


async def streams(job: Job) -> None:
    nc = await nats.connect(job.url)
    js = nc.jetstream(timeout=60)
    names = [f"MANY_{n}" for n in range(job.point)]
    try:
        for name in names:
            await js.add_stream(
                StreamConfig(name, subjects=[f"many_streams.{name}"], storage=StorageType.MEMORY)
            )
        job.start()
        found: list[str] = []
        while page := await js.streams_info(offset=len(found)):
            found += [str(one.config.name) for one in page]
        job.stop(len(found), len(found) * job.size)
    finally:
        for name in names:
            await js.delete_stream(name)


if __name__ == "__main__":
    main(
        f"nats-py {version('nats-py')}",
        {"callbacks": callbacks, "connections": connections, "keys": keys, "streams": streams},
    )
