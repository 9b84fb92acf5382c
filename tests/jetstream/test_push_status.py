"""What a push subscription keeps in mind: gaps by consumer sequence, answered flow control."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetsync.client import Msg
from jetsync.jetstream.push.status import (
    ConsumerSequence,
    FlowControl,
    StatusKind,
    import_prefix,
    kind_of,
)


def status(line, reply=None, **headers):
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    block = f"NATS/1.0 {line}\r\n{lines}\r\n".encode()
    return Msg._make("inbox", b"", reply, block, int(line[:3]))


@pytest.mark.parametrize(
    ("line", "reply", "kind"),
    [
        ("100 Idle Heartbeat", None, StatusKind.HEARTBEAT),
        ("100 FlowControl Request", "$JS.FC.S.C.abcd", StatusKind.FLOW_CONTROL),
        ("100 FlowControl Request", None, StatusKind.UNEXPECTED),
        ("100 Something", None, StatusKind.UNEXPECTED),
        ("409 Consumer Deleted", None, StatusKind.DELETED),
        ("409 Consumer is push based", None, StatusKind.UNEXPECTED),
        ("404 No Messages", None, StatusKind.UNEXPECTED),
        ("503", None, StatusKind.UNEXPECTED),
    ],
)
def test_what_a_status_is_about(line, reply, kind):
    assert kind_of(status(line, reply)) is kind


@given(st.sets(st.integers(1, 60)), st.integers(0, 60))
def test_every_missing_delivery_is_told_exactly_once(lost, last):
    """Whatever is lost out of 1 to ``last``, deliveries and the heartbeat behind them tell it."""
    sequence = ConsumerSequence(0)
    missing: list[int] = []
    for seq in range(1, last + 1):
        if seq in lost:
            continue
        expected = sequence.delivery(seq)
        if expected is not None:
            missing += range(expected, seq)
    gap = sequence.heartbeat(status("100 Idle Heartbeat", Nats_Last_Consumer=last))
    if gap is not None:
        missing += range(*gap)
    assert missing == [seq for seq in range(1, last + 1) if seq in lost]
    assert sequence.heartbeat(status("100 Idle Heartbeat", Nats_Last_Consumer=last)) is None


def test_what_was_delivered_before_we_came_is_no_gap():
    sequence = ConsumerSequence(None)
    assert sequence.delivery(100) is None
    assert sequence.delivery(102) == 101
    assert (
        ConsumerSequence(None).heartbeat(status("100 Idle Heartbeat", Nats_Last_Consumer=7)) is None
    )


def test_a_lower_number_is_a_reset_and_no_gap():
    sequence = ConsumerSequence(50)
    assert sequence.delivery(1) is None
    assert sequence.delivery(2) is None


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "\u0663"])
def test_a_heartbeat_without_a_number_says_nothing(value):
    msg = status("100 Idle Heartbeat", Nats_Last_Consumer=value)
    assert ConsumerSequence(3).heartbeat(msg) is None


def test_a_question_is_answered_once_wherever_it_stands():
    flow = FlowControl("S", "C")
    one, two = "$JS.FC.S.C.aaaa", "$JS.FC.hub.szMpdrwD.S.C.bbbb"
    assert flow.question(status("100 Idle Heartbeat")) is None
    assert flow.question(status("100 FlowControl Request", one)) == one
    stalled = status("100 Idle Heartbeat", Nats_Consumer_Stalled=one)
    assert flow.question(stalled) is None
    assert flow.question(status("100 Idle Heartbeat", Nats_Consumer_Stalled=two)) == two
    assert flow.question(status("100 FlowControl Request", two)) is None


FORGED = [
    "$JS.API.STREAM.PURGE.V",
    "$JS.FC.S.D.aaaa",
    "$JS.FC.T.C.aaaa",
    "$JS.FC.S.C",
    "$JS.FC.a.S.C.aaaa",
    "$KV.b.$JS.FC.S.C.aaaa",
    "orders",
]


@pytest.mark.parametrize("subject", FORGED)
def test_a_question_that_the_server_does_not_ask_for_this_consumer_gets_no_answer(subject):
    flow = FlowControl("S", "C")
    assert flow.question(status("100 FlowControl Request", subject)) is None
    assert flow.question(status("100 Idle Heartbeat", Nats_Consumer_Stalled=subject)) is None


def test_an_import_may_put_something_before_the_question():
    assert (
        import_prefix("$JS.API") == import_prefix("$JS.hub.API") == import_prefix("hub.API") == ""
    )
    flow = FlowControl("S", "C", import_prefix("hub.$JS.API"))
    assert flow.question(status("100 FlowControl Request", "hub.$JS.FC.S.C.a")) is not None
    assert flow.question(status("100 FlowControl Request", "$JS.FC.S.C.b")) is not None
    assert flow.question(status("100 FlowControl Request", "far.$JS.FC.S.C.c")) is None
