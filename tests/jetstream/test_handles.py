"""Handles show what they are, and say what to do instead of being pickled."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import jetsync


@pytest.fixture
def handles(js, nc, stream):
    consumer = stream.create_consumer(durable_name="c")
    ordered = stream.ordered_consumer()
    with (
        consumer.messages() as messages,
        ordered.messages() as in_order,
        consumer.consume(print) as context,
        js.batch() as batch,
    ):
        batch.add(f"{stream.name}.a", b"1")
        yield {
            "JetStream": js,
            "Stream": stream,
            "Consumer": consumer,
            "OrderedConsumer": ordered,
            "MessageStream": messages,
            "OrderedMessages": in_order,
            "ConsumeContext": context,
            "PublishBatch": batch,
            "Subscription": nc.subscribe("x"),
            "PushSubscription": js.subscribe(f"{stream.name}.>", stream=stream.name),
            "PullSubscription": js.pull_subscribe(f"{stream.name}.>", stream=stream.name),
        }
        batch.discard()


def test_every_handle_refuses_to_be_pickled_and_says_what_to_do(handles):
    for kind, handle in handles.items():
        for action in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError, match=r"shared_connection\(options\)") as caught:
                action(handle)
            assert str(caught.value).startswith(f"{kind}("), kind


def test_every_handle_names_its_stream_and_state(handles):
    name = handles["Stream"].info().config.name
    shown = {kind: repr(handle) for kind, handle in handles.items()}
    assert shown["MessageStream"] == f"MessageStream(Consumer({name!r}, 'c'), 0 buffered)"
    assert shown["OrderedMessages"] == f"OrderedMessages(ordered consumer of {name!r}, 0 buffered)"
    assert re.fullmatch(r"ConsumeContext\(MessageStream\(.*\), active\)", shown["ConsumeContext"])
    assert shown["PublishBatch"] == "PublishBatch(1 message, open)"
    handles["MessageStream"].stop()
    assert repr(handles["MessageStream"]).endswith("ended)")
    handles["PublishBatch"].discard()
    assert repr(handles["PublishBatch"]) == "PublishBatch(0 messages, discarded)"


def test_stores_refuse_to_be_pickled(js, request):
    name = f"H{abs(hash(request.node.nodeid)) % 10**9}"
    bucket = js.create_key_value(bucket=name, storage="memory")
    objects = js.create_object_store(bucket=name, storage="memory")
    try:
        for handle in (bucket, objects, bucket.watch()):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(handle)
    finally:
        js.delete_key_value(name)
        js.delete_object_store(name)


def test_what_travels_is_the_options_and_the_names(url, stream):
    """As the error says."""
    with jetsync.connect(url) as nc:
        options, name = pickle.loads(pickle.dumps((nc.options, stream.info().config.name)))
    with jetsync.shared_connection(options) as there:
        assert there.jetstream().stream(name).info().config.name == name
