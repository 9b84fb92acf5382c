"""jetsync, how its cost grows: one number is ``point``, everything else stays."""

from __future__ import annotations

import gc
import logging
import resource
import threading
import time
from collections.abc import Callable

from jetsync_peer import take, unlimited
from meter import Job, main, resident

import jetsync
from jetsync.server import NatsServer


def subscriptions(job: Job) -> None:
    nc = jetsync.connect(job.url)
    subs = [
        nc.subscribe(f"{job.subject}.{n}", pending_messages_limit=0, pending_bytes_limit=0)
        for n in range(job.point)
    ]
    nc.flush()
    seen = touched = 0
    job.start()
    for n, sub in enumerate(subs):
        share = job.count // job.point + (n < job.count % job.point)
        for _ in range(share):
            touched += len(sub.next(timeout=60).data)
        seen += share
    job.stop(seen, touched)


def on_threads(job: Job, work: Callable[[int], None]) -> int:
    """Run ``work(share)`` on ``job.point`` threads within the measured time."""
    share = job.count // job.point
    threads = [threading.Thread(target=work, args=(share,)) for _ in range(job.point)]
    job.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return share * job.point


def request_threads(job: Job) -> None:
    nc = jetsync.connect(job.url)

    def work(share: int) -> None:
        for _ in range(share):
            nc.request(job.subject, job.payload, timeout=60)

    done = on_threads(job, work)
    job.stop(done, done * job.size)


def publish_threads(job: Job) -> None:
    nc = jetsync.connect(job.url)

    def work(share: int) -> None:
        for _ in range(share):
            nc.publish("unused", job.payload)

    done = on_threads(job, work)
    nc.flush()
    job.stop(done, done * job.size)


def outstanding(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream(max_pending=job.point)
    job.start()
    for _ in range(job.count):
        js.publish_async(job.subject, job.payload)
    js.publish_async_wait(timeout=120)
    job.stop(job.count, job.count * job.size)


def size(job: Job) -> None:
    _nc, sub = unlimited(job)
    take(job, sub)


def many_subscriptions(job: Job) -> None:
    nc = jetsync.connect(job.url)
    job.start()
    subs = [nc.subscribe(f"many.{n}") for n in range(job.point)]
    nc.flush(timeout=60)
    job.stop(len(subs), len(subs) * job.size)


def many_memory(job: Job) -> None:
    nc = jetsync.connect(job.url)
    nc.subscribe("many").unsubscribe()
    gc.collect()
    before = resident()
    job.start()
    subs = [nc.subscribe(f"many.{n}") for n in range(job.point)]
    nc.flush(timeout=60)
    job.stop(len(subs), len(subs) * job.size)
    job.result["bytes_each"] = (resident() - before) / job.point


def among_many(job: Job) -> None:
    nc, sub = unlimited(job)
    others = [nc.subscribe(f"many.{n}") for n in range(job.point)]
    nc.flush(timeout=60)
    take(job, sub)
    del others


def callbacks(job: Job) -> None:
    nc = jetsync.connect(job.url)

    def counting() -> tuple[list[int], Callable[[jetsync.Msg], None]]:
        mine = [0, 0]  # messages, bytes: of several threads, hence counted by each subscription

        def callback(msg: jetsync.Msg) -> None:
            mine[0] += 1
            mine[1] += len(msg.data)

        return mine, callback

    counts = []
    for n in range(job.point):
        mine, callback = counting()
        counts.append(mine)
        nc.subscribe(
            f"{job.subject}.{n}",
            callback=callback,
            pending_messages_limit=0,
            pending_bytes_limit=0,
        )
    nc.flush(timeout=60)
    job.start()
    while sum(mine[0] for mine in counts) < job.count:
        time.sleep(0.1)  # to sum up thousands more often would be a part of what is measured
    job.stop(*(sum(mine[k] for mine in counts) for k in (0, 1)))


def consumers(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream(timeout=60)
    js.create_stream(name="CONSUMED", subjects=["consumed.>"], storage="memory")
    try:
        rows = ((f"consumed.{n % job.point}", job.payload) for n in range(job.count))
        js.publish_many(rows, msg_id=None).raise_for_failed()
        all_ = [
            js.create_consumer("CONSUMED", filter_subjects=[f"consumed.{n}"], ack_policy="none")
            for n in range(job.point)
        ]
        seen = [[0, 0] for _ in all_]

        def counting(mine: list[int]) -> Callable[[jetsync.JetStreamMsg], None]:
            def callback(msg: jetsync.JetStreamMsg) -> None:
                mine[0] += 1
                mine[1] += len(msg.data)

            return callback

        job.start()
        contexts = [one.consume(counting(mine)) for one, mine in zip(all_, seen, strict=True)]
        while sum(mine[0] for mine in seen) < job.count:
            time.sleep(0.1)
        job.stop(sum(mine[0] for mine in seen), sum(mine[1] for mine in seen))
        for context in contexts:
            context.stop()
    finally:
        js.delete_stream("CONSUMED")


def connections(job: Job) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16 * job.point)), hard))
    links = [jetsync.connect(job.url, connect_timeout=10) for _ in range(job.point)]
    job.start()
    for nc in links:
        nc.force_reconnect()
    while any(nc.stats.reconnects < 1 or not nc.is_connected for nc in links):
        time.sleep(0.05)
    job.stop(job.point, job.point * job.size)


def refused(job: Job) -> None:
    config = "authorization { users = [ { user: u, password: p, permissions: { subscribe: "
    config += '{ allow: ["good.>", "_INBOX.>"] } } } ] }'
    with NatsServer(config=config, jetstream=False) as server:
        ended = threading.Semaphore(0)
        nc = jetsync.connect(
            server.url, user="u", password="p", on_error=lambda _event: ended.release()
        )
        logging.getLogger("jetsync").setLevel(logging.CRITICAL)
        good = [nc.subscribe(f"good.{n}") for n in range(job.point)]
        nc.flush(timeout=60)
        job.start()
        bad = [nc.subscribe(f"bad.{n}") for n in range(job.point)]
        nc.flush(timeout=60)
        while any(sub.is_active for sub in bad):
            time.sleep(0.02)
        job.stop(job.point, job.point * job.size)
        del good


def keys(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream()
    kv = js.create_key_value(bucket=f"keys_{job.point}", storage="memory")
    try:
        for n in range(job.point):
            js.publish_async(f"$KV.{kv.bucket}.key.{n}", b"v")
        js.publish_async_wait(timeout=120)
        job.start()
        found = len(kv.keys())
        job.stop(found, found * job.size)
    finally:
        js.delete_key_value(kv.bucket)


def streams(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream(timeout=60)
    names = [f"MANY_{n}" for n in range(job.point)]
    try:
        for name in names:
            js.create_stream(name=name, subjects=[f"many_streams.{name}"], storage="memory")
        job.start()
        found = [one.config.name for one in js.streams()]
        job.stop(len(found), len(found) * job.size)
    finally:
        for name in names:
            js.delete_stream(name)


def headers(job: Job) -> None:
    nc = jetsync.connect(job.url)
    sub = nc.subscribe("headers")
    nc.publish("headers", b"", headers={f"h{n}": "1" for n in range(job.point)})
    msg = sub.next(timeout=60)
    rounds = max(1, 100_000 // job.point)
    job.start()
    read = sum(len(dict(msg.headers)) for _ in range(rounds))
    job.stop(read, read * job.size)


if __name__ == "__main__":
    main(
        f"jetsync {jetsync.__version__}",
        {
            "subscriptions": subscriptions,
            "request_threads": request_threads,
            "publish_threads": publish_threads,
            "outstanding": outstanding,
            "size": size,
            "many_subscriptions": many_subscriptions,
            "many_memory": many_memory,
            "among_many": among_many,
            "callbacks": callbacks,
            "consumers": consumers,
            "connections": connections,
            "refused": refused,
            "keys": keys,
            "streams": streams,
            "headers": headers,
        },
    )
