"""The first program: a stream, a confirmed publish, a consumer."""

import sys

import jetsync

with jetsync.connect(*sys.argv[1:], name="hello") as nc:
    js = nc.jetstream()
    js.create_or_update_stream(name="HELLO", subjects=["hello.>"])
    ack = js.publish("hello.world", b"Hello, stream!")
    print("stored as", ack.seq)

    reader = js.create_or_update_consumer("HELLO", durable_name="reader")
    for msg in reader.fetch(1, timeout=5):
        print(msg.subject, msg.data.decode())
        msg.ack()
