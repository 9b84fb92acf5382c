"""Which server has which feature, from its level or its version, and the error when it has not."""

from __future__ import annotations

import pytest

from jetsync import (
    ApiLevelRequiredError,
    ConsumerConfig,
    StreamConfig,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from jetsync.jetstream import levels
from jetsync.jetstream.levels import Served, check, consumer_needs, stream_needs
from jetsync.protocol.info import ServerInfo


def info(version, level=0):
    return ServerInfo(version=version, api_lvl=level)


@pytest.mark.parametrize(
    ("server", "version", "has"),
    [
        (info("2.15.1", 5), "2.15", True),
        (info("2.15.1", 5), "2.9.1", True),
        (info("2.12.0", 2), "2.12", True),
        (info("2.12.0", 2), "2.14", False),
        (info("2.12.0", 2), "2.10", True),
        (info("2.11.9"), "2.11", True),
        (info("2.11.9"), "2.12", False),
        (info("2.10.4"), "2.11", False),
        (info("2.10.4"), "2.10", True),
        (info("2.9.0"), "2.9", True),
        (info("2.9.0"), "2.9.1", False),
        (info("2.14.0-beta.2", 4), "2.14", True),
        (info("unreadable"), "2.15", True),
        (None, "2.15", True),
    ],
    ids=str,
)
def test_a_server_has_what_its_level_or_version_says(server, version, has):
    assert Served.by(server).has(version) is has


def test_a_level_alone_is_enough():
    assert not Served(level=0).has("2.11")
    assert Served(level=0).has("2.10")
    assert Served(level=4).has("2.14")
    assert not Served(level=4).has("2.15")


def test_the_error_names_the_field_and_both_versions():
    with pytest.raises(ApiLevelRequiredError) as caught:
        check(Served.by(info("2.11.3")), [("StreamConfig.allow_atomic", "2.12")])
    text = str(caught.value)
    assert "StreamConfig.allow_atomic needs nats-server 2.12" in text
    assert "2.11.3" in text
    assert (caught.value.code, caught.value.err_code) == (412, 10185)
    with pytest.raises(ApiLevelRequiredError, match="level 1"):
        check(Served(level=1), [("x", "2.12")])


def test_only_fields_that_are_used_need_anything():
    assert list(stream_needs(StreamConfig(name="S").to_wire())) == []
    assert list(consumer_needs(ConsumerConfig(name="C").to_wire())) == []


def test_every_field_of_a_newer_server_is_known():
    for table, kind in (
        (levels._STREAM_FIELDS, StreamConfig),
        (levels._CONSUMER_FIELDS, ConsumerConfig),
    ):
        assert set(table) <= set(kind.__dataclass_fields__)


def test_fields_inside_and_values_count_too():
    stream = StreamConfig(
        name="S",
        sources=[
            StreamSource(name="O", consumer=StreamConsumerSource(name="C", deliver_subject="d"))
        ],
    )
    assert ("StreamSource.consumer", "2.14") in list(stream_needs(stream.to_wire()))
    mirror = StreamConfig(
        name="S",
        mirror=StreamSource(name="O", subject_transforms=[SubjectTransform(src="a", dest="b")]),
    )
    assert ("StreamSource.subject_transforms", "2.10") in list(stream_needs(mirror.to_wire()))
    consumer = ConsumerConfig(name="C", priority_policy="prioritized", priority_groups=["g"])
    assert ("ConsumerConfig.priority_policy 'prioritized'", "2.12") in list(
        consumer_needs(consumer.to_wire())
    )
