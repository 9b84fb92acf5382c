"""Fields that do not go together are refused, and overlapping subjects are found exactly."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetsync import ConsumerConfig, ExternalStream, StreamConfig, StreamSource
from jetsync.errors import ConfigError
from jetsync.jetstream.config.stream_rules import check_overlap, subjects_overlap
from jetsync.protocol.subjects import subject_matches

TOKENS = "ab*"
LITERALS = [".".join(tokens) for n in (1, 2, 3, 4) for tokens in itertools.product("abc", repeat=n)]
patterns = st.tuples(
    st.lists(st.sampled_from(TOKENS), min_size=0, max_size=3), st.sampled_from(["a", "b", "*", ">"])
).map(lambda parts: ".".join([*parts[0], parts[1]]))


@given(patterns, patterns)
def test_two_patterns_overlap_exactly_when_a_subject_matches_both(one, other):
    both = any(subject_matches(one, s) and subject_matches(other, s) for s in LITERALS)
    assert subjects_overlap(one, other) == subjects_overlap(other, one) == both


@given(st.lists(patterns, max_size=5))
def test_a_list_is_refused_exactly_when_two_of_it_overlap(subjects):
    if any(subjects_overlap(a, b) for a, b in itertools.combinations(subjects, 2)):
        with pytest.raises(ConfigError, match=r"^X"):
            check_overlap("X", subjects)
    else:
        check_overlap("X", subjects)


def test_many_literal_subjects_are_checked_in_no_time():
    check_overlap("X", [f"a.{n}" for n in range(100_000)])


@pytest.mark.parametrize("subject", ["$JS.API.INFO", "$JS.>", "*.API.>", "$SYS.REQ.>", "*.>"])
def test_subjects_that_servers_need_want_no_ack(subject):
    with pytest.raises(ConfigError, match="no_ack"):
        StreamConfig(name="S", subjects=[subject])
    assert StreamConfig(name="S", subjects=[subject], no_ack=True)


@pytest.mark.parametrize(
    "subject", ["$JS.EVENT.>", "$SYS.ACCOUNT.*.CONNECT", "$KV.b.>", "*", "a.*.b"]
)
def test_other_subjects_need_nothing(subject):
    assert StreamConfig(name="S", subjects=[subject])


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("mirror excludes allow_atomic", {"mirror": {"name": "O"}, "allow_atomic": True}),
    ("mirror excludes subjects", {"mirror": {"name": "O"}, "subjects": ["a"]}),
    ("mirror names the stream itself", {"mirror": {"name": "S"}}),
    ("sources names the stream itself", {"sources": [{"name": "S"}]}),
    ("sources has the same source", {"sources": [{"name": "O"}, {"name": "O"}]}),
    ("mirror_direct needs mirror", {"mirror_direct": True}),
    ("allow_msg_counter needs discard", {"allow_msg_counter": True, "discard": "new"}),
    ("allow_msg_counter needs retention", {"allow_msg_counter": True, "retention": "interest"}),
    ("allow_msg_schedules needs discard", {"allow_msg_schedules": True, "discard": "new"}),
]


@pytest.mark.parametrize(("words", "fields"), WRONG, ids=[words for words, _ in WRONG])
def test_fields_that_do_not_go_together_are_named(words, fields):
    with pytest.raises(ConfigError, match=words):
        StreamConfig(**{"name": "S", **fields})


def test_the_same_stream_twice_in_different_ways_is_two_sources():
    assert StreamConfig(
        name="S",
        sources=[
            StreamSource(name="O", filter_subject="a"),
            StreamSource(name="O", filter_subject="b"),
            StreamSource(name="S", external=ExternalStream(api="$JS.hub.API")),
        ],
    )


def test_what_only_push_consumers_have_needs_a_deliver_subject():
    for fields in ({"ack_policy": "flow_control"}, {"direct": True}):
        with pytest.raises(ConfigError, match="deliver_subject"):
            ConsumerConfig(**fields).validate()
