"""Keywords are typed: what checkers and editors know of a call is what the call takes."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

import jetsync
from jetsync.jetstream.config import fields
from jetsync.jetstream.ordered.config import OrderedOptions
from jetsync.jetstream.publish.headers import PublishOptions
from jetsync.jetstream.pull.options import BufferOptions, MessagesOptions
from tests.jetstream import generate_fields


def test_the_fields_of_configurations_are_those_of_their_classes():
    """After a change of a field: python -m tests.jetstream.generate_fields."""
    assert generate_fields.TARGET.read_text() == generate_fields.text()


def test_every_field_of_a_configuration_is_a_keyword():
    def names(kind):
        return {field.name for field in dataclasses.fields(kind)} - {"extra", "_exact"}

    assert set(fields.StreamFields.__annotations__) == names(jetsync.StreamConfig)
    assert set(fields.ConsumerFields.__annotations__) == names(jetsync.ConsumerConfig)


@pytest.mark.parametrize(
    ("options", "call", "own"),
    [
        (PublishOptions, jetsync.JetStream.publish, {"headers", "timeout", "msg_id"}),
        (MessagesOptions, jetsync.Consumer.messages, set()),
        (BufferOptions, jetsync.OrderedConsumer.messages, set()),
        (OrderedOptions, jetsync.JetStream.ordered_consumer, set()),
    ],
)
def test_options_are_the_keywords_of_the_call_they_name(options, call, own):
    parameters = inspect.signature(call).parameters.values()
    keywords = {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}
    annotations = {name: hint.__forward_arg__ for name, hint in options.__annotations__.items()}
    assert annotations == {name: hint for name, hint in keywords.items() if name not in own}
