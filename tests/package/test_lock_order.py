"""The library takes its locks in one order: with JETSYNC_DEBUG=1 any other order raises."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os, sys, threading
import jetsync
from jetsync import _locks

nc = jetsync.shared_connection(sys.argv[1], on_error=lambda error: os._exit(3))
js = nc.jetstream()
name = "LOCKS%d" % os.getpid()
stream = js.create_stream(name=name, subjects=[name + ".>"], storage="memory", allow_atomic=True)
try:
    js.publish_async(name + ".a", b"1").result()
    with js.batch() as batch:
        batch.add(name + ".a", b"2")
    consumer = stream.create_consumer(durable_name="c", ack_wait=30)
    for msg in consumer.fetch(2, timeout=5):
        with msg.keep_alive():
            msg.ack_sync()
    ordered = stream.ordered_consumer()
    assert len(ordered.fetch(2, timeout=5)) == 2
    with stream.ordered_consumer().messages(stop_after=2) as messages:
        assert [msg.data for msg in messages] == [b"1", b"2"]
    with js.subscribe(name + ".a", ordered=True) as sub:
        assert [sub.next(5).data, sub.next(5).data] == [b"1", b"2"]
    with js.subscribe(name + ".a", callback=lambda msg: done.set()) as sub:
        done = threading.Event()
        js.publish(name + ".a", b"3")
        assert done.wait(5)
    bucket = js.create_key_value(bucket=name, storage="memory")
    bucket.put("a", b"1")
    with bucket.watch() as watcher:
        assert watcher.next(5).value == b"1"
    with nc.add_service(name="adder", version="1.0.0") as service:
        service.add_endpoint("add", lambda request: b"2")
        assert nc.request("add", b"", timeout=5).data == b"2"
        service.stats()
    js.delete_key_value(name)
finally:
    js.delete_stream(name)
nc.drain()
assert isinstance(consumer._shared._lock, _locks.CheckedLock)
print("in order")
"""


def test_calls_of_every_room_take_their_locks_in_order(url):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url],
        env={**os.environ, "JETSYNC_DEBUG": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "in order\n"), done.stderr
