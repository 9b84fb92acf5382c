"""What reading the server's JSON costs: by what the server sent, not by what it might have sent."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream import StreamConfig
from jetsync.jetstream.config.stream_info import StreamInfo
from tests.harness.frames import frames

CONFIG: dict[str, Any] = {"name": "s", "subjects": ["a.>"], "storage": "memory", "num_replicas": 1}


def calls(function: Callable[[], Any]) -> int:
    """How many Python functions it calls."""
    function()  # what is worked out once is not counted
    return frames(function).total()


def test_fields_that_the_server_did_not_send_cost_nothing():
    for kind in (StreamInfo, StreamConfig, ConsumerInfo):
        assert calls(partial(kind.from_wire, {})) <= 3, kind


def test_a_stream_of_a_list_costs_a_call_for_each_field_that_has_to_be_converted():
    sent = {"config": CONFIG, "state": {"messages": 7, "bytes": 9, "consumer_count": 0}}
    assert calls(lambda: StreamInfo.from_wire(sent)) <= 15


def test_a_default_that_is_made_late_is_the_default_and_stays():
    read = StreamConfig.from_wire(CONFIG)
    assert read.subject_transform is None
    assert read.max_age == StreamConfig(**CONFIG).max_age
    assert read.metadata is read.metadata
    read = StreamConfig.from_wire(CONFIG)
    assert read == StreamConfig(**CONFIG)
    for made in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert made(StreamConfig.from_wire(CONFIG)) == read
    assert not hasattr(read, "no_such_field")
