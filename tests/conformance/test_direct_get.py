"""Direct get (ADR-31): what servers answer, as far as jetsync builds on it.

Sections "Direct Get API", "Batched requests", "Multi-subject requests" and "Responses".
"""

from __future__ import annotations

import json

import pytest

import jetsync
from jetsync.server import NatsServer


@pytest.fixture(scope="module")
def ask():
    """Send a direct get; returns (status, headers, data) of everything that is answered."""
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="S", subjects=["s.>"], allow_direct=True)
        js.create_stream(name="OFF", subjects=["off"])
        for n in range(6):
            js.publish(f"s.{n % 2}", b"%d" % n, headers={"K": "v"} if n == 1 else None, msg_id=None)
        js.stream("S").delete_msg(3)

        def send(body, subject="$JS.API.DIRECT.GET.S"):
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            many = "batch" in str(body) or "multi" in str(body)
            found = []
            for msg in nc.request_many(subject, payload, timeout=20):
                found.append((msg.status, msg.headers, msg.data))
                if msg.status or not many:
                    break
            return found

        yield send


def test_one_message_carries_its_origin_behind_its_own_headers(ask):
    ((status, headers, data),) = ask({"seq": 2})
    assert (status, data) == (0, b"1")
    assert list(headers) == ["K", "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"]
    assert (headers["Nats-Stream"], headers["Nats-Subject"]) == ("S", "s.1")
    assert ask({"last_by_subj": "s.1"})[0][1]["Nats-Sequence"] == "6"
    assert ask(b"", "$JS.API.DIRECT.GET.S.s.0")[0][1]["Nats-Sequence"] == "5"
    assert ask({"seq": 3, "next_by_subj": "s.0"})[0][1]["Nats-Sequence"] == "5"


def test_a_batch_ends_with_eob_and_says_how_many_there_are_more(ask):
    *messages, (status, end, data) = ask({"seq": 1, "batch": 3})
    assert [headers["Nats-Sequence"] for _, headers, _ in messages] == ["1", "2", "4"]
    assert [headers["Nats-Last-Sequence"] for _, headers, _ in messages] == ["0", "1", "2"]
    assert [headers["Nats-Num-Pending"] for _, headers, _ in messages] == ["4", "3", "2"]
    assert (status, data) == (204, b"")
    assert (end["Nats-Num-Pending"], end["Nats-Last-Sequence"]) == ("2", "4")


def test_several_subjects_are_answered_as_of_one_sequence(ask):
    *messages, (status, end, _) = ask({"multi_last": ["s.0", "s.1"], "up_to_seq": 4})
    assert [headers["Nats-Sequence"] for _, headers, _ in messages] == ["1", "4"]
    assert (status, end["Nats-UpTo-Sequence"], end["Nats-Num-Pending"]) == (204, "4", "0")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"seq": 99}, 404),
        ({"seq": 99, "batch": 5}, 404),
        ({"multi_last": ["none"]}, 404),
        ({}, 408),
        (b"", 408),
        (b"{", 408),
        ({"batch": 5}, 408),
        ({"seq": 1, "last_by_subj": "s.0"}, 408),
    ],
    ids=str,
)
def test_a_status_says_why_there_is_nothing(ask, body, status):
    assert [found[0] for found in ask(body)] == [status]


def test_no_server_listens_where_it_is_not_allowed(ask):
    for stream in ("OFF", "NOSUCH"):
        with pytest.raises(jetsync.NoRespondersError):
            ask({"seq": 1}, f"$JS.API.DIRECT.GET.{stream}")
