"""Calls that take ``**fields`` name them one by one in help() and in completion."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import jetsync
from jetsync.client import options as connecting
from jetsync.jetstream.config import fields as config_fields
from jetsync.jetstream.ordered.config import OrderedOptions
from jetsync.jetstream.publish.batch import PublishBatch
from jetsync.jetstream.publish.headers import PublishOptions
from jetsync.jetstream.pull.options import BufferOptions, MessagesOptions
from jetsync.kv.config import KeyValueFields
from jetsync.objectstore.config import ObjectStoreFields
from jetsync.objectstore.store import MetaFields
from jetsync.worker import Worker, run
from jetsync.worker.fields import WorkerFields
from tests.harness.watchdog import run_code

JetStream = jetsync.JetStream
CALLS = [
    (JetStream.create_stream, config_fields.StreamFields),
    (JetStream.update_stream, config_fields.StreamFields),
    (JetStream.create_or_update_stream, config_fields.StreamFields),
    (JetStream.create_consumer, config_fields.ConsumerFields),
    (JetStream.update_consumer, config_fields.ConsumerFields),
    (JetStream.create_or_update_consumer, config_fields.ConsumerFields),
    (JetStream.create_key_value, KeyValueFields),
    (JetStream.update_key_value, KeyValueFields),
    (JetStream.create_or_update_key_value, KeyValueFields),
    (JetStream.create_object_store, ObjectStoreFields),
    (JetStream.update_object_store, ObjectStoreFields),
    (JetStream.create_or_update_object_store, ObjectStoreFields),
    (JetStream.subscribe, config_fields.SubscribeFields),
    (JetStream.pull_subscribe, config_fields.ConsumerFields),
    (jetsync.Stream.create_consumer, config_fields.ConsumerFields),
    (jetsync.Stream.ordered_consumer, OrderedOptions),
    (jetsync.Consumer.consume, MessagesOptions),
    (jetsync.OrderedConsumer.consume, BufferOptions),
    (jetsync.PullSubscription.messages, MessagesOptions),
    (jetsync.PullSubscription.consume, MessagesOptions),
    (jetsync.ObjectStore.update_meta, MetaFields),
    (PublishBatch.add, PublishOptions),
    (PublishBatch.commit, PublishOptions),
    (jetsync.shared_connection, connecting.ConnectFields),
    (jetsync.ConnectOptions.from_env, connecting.ConnectFields),
    (Worker, WorkerFields),
    (run, WorkerFields),
]


def is_keyword(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY


def own_keywords(call: Any) -> set[str]:
    """What the code of a function takes itself, whatever its signature shows."""
    code = (call.__init__ if inspect.isclass(call) else call).__code__
    return set(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


@pytest.mark.parametrize(("call", "fields"), CALLS, ids=lambda value: value.__name__)
def test_every_field_is_a_keyword_with_a_type_and_no_other_is_there(call, fields):
    parameters = inspect.signature(call).parameters
    shown = {name for name, p in parameters.items() if is_keyword(p)}
    assert set(fields.__annotations__) <= shown
    assert shown <= own_keywords(call) | set(fields.__annotations__) | {"extra"}
    assert all(p.annotation is not p.empty for p in parameters.values() if is_keyword(p))


def test_defaults_are_those_of_the_configuration():
    parameters = inspect.signature(JetStream.create_stream).parameters
    assert parameters["max_age"].default == jetsync.StreamConfig(name="x").max_age
    assert parameters["pedantic"].default is False


def test_help_of_a_bucket_s_calls_names_their_fields_and_the_import_of_jetsync_does_not_pay():
    """The rooms of buckets are imported when the signature is read."""
    program = """
import inspect, pydoc, sys
import jetsync
from jetsync import JetStream
assert "jetsync.kv.config" not in sys.modules
shown = pydoc.render_doc(JetStream.create_key_value)
assert "jetsync.kv.config" in sys.modules
assert "history: 'int' = 1" in shown and "**fields" in shown, shown
bound = inspect.signature(JetStream.__new__(JetStream).create_object_store)
assert "self" not in bound.parameters and "allow_atomic" in bound.parameters
"""
    done = run_code(program, limit=60)
    assert (done.code, done.output, done.errors) == (0, "", ""), done


def test_what_a_bound_method_shows_is_without_self():
    stream = object.__new__(jetsync.Stream)
    assert "self" not in inspect.signature(stream.create_consumer).parameters
    assert "filter_subject" in inspect.signature(stream.create_consumer).parameters
