"""What one types in a notebook: look at a stream, a batch, a consumer and a bucket."""

import sys

import jetsync

url = sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"

# %% Connect, and make something to look at.
nc = jetsync.connect(url)
js = nc.jetstream()
stream = js.create_or_update_stream(name="NB", subjects=["nb.>"])
report = js.publish_many((f"nb.{i % 3}", b'{"n": %d}' % i) for i in range(100))
print(report)

# %% What is in the stream, and by subject?
print(stream.info().state.messages, stream.info(subjects_filter=">").state.subjects)

# %% A batch, its columns and its first message.
consumer = stream.create_consumer(filter_subject="nb.1")
batch = consumer.fetch(5)
print(batch)
print(batch[0].subject, batch[0].json(), batch[0].seq)
batch.ack_sync()

# %% How far is the consumer, and what is it waiting for?
print(consumer.lag().num_pending, consumer.lag().num_ack_pending)

# %% A bucket as a mapping.
kv = js.create_key_value(bucket="nb")
kv["colour"] = b"blue"
print(kv["colour"], "colour" in kv, kv.get("size", default=None), sorted(kv.keys()))

# %% An error says what it is about.
try:
    js.stream("NBB")
except jetsync.StreamNotFoundError as error:
    print(error)

nc.close()
