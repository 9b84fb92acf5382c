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
from jetsync.objectstore.store import MetaFields
from jetsync.worker import Worker, run
from jetsync.worker.fields import WorkerFields

JetStream = jetsync.JetStream
CALLS = [
    (JetStream.create_stream, config_fields.StreamFields),
    (JetStream.update_stream, config_fields.StreamFields),
    (JetStream.create_or_update_stream, config_fields.StreamFields),
    (JetStream.create_consumer, config_fields.ConsumerFields),
    (JetStream.update_consumer, config_fields.ConsumerFields),
    (JetStream.create_or_update_consumer, config_fields.ConsumerFields),
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


def test_what_a_bound_method_shows_is_without_self():
    stream = object.__new__(jetsync.Stream)
    assert "self" not in inspect.signature(stream.create_consumer).parameters
    assert "filter_subject" in inspect.signature(stream.create_consumer).parameters
