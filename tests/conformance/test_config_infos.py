"""Infos and errors of a real nats-server are read without leftovers."""

from __future__ import annotations

import json
import socket
from datetime import timedelta, timezone
from typing import Any

import pytest

from jetsync.errors import (
    APIError,
    ConsumerExistsError,
    ConsumerNotFoundError,
    InvalidConsumerConfigError,
    InvalidRequestError,
    InvalidStreamConfigError,
    MessageNotFoundError,
    PriorityGroupError,
    StreamNameInUseError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetsync.errors.api import api_error
from jetsync.jetstream.config.account import AccountInfo
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.stream import (
    StreamConfig,
    StreamSource,
)
from jetsync.jetstream.config.stream_info import (
    StreamInfo,
)
from tests.conformance.json_api import (
    ask_js,
    leftovers,
    put_consumer,
    put_stream,
)
from tests.harness.waiting import wait_until

UTC = timezone.utc
LONG = 20.0


def test_the_account_is_read_without_leftovers(clean):
    put_stream(clean, StreamConfig(name="S", max_bytes=1000))
    info = AccountInfo.from_wire(ask_js(clean, "INFO"))
    assert leftovers(info) == []
    assert (info.streams, info.reserved_storage) == (2, 1000)
    assert info.api.level >= 5
    assert info.api.total > 0


def test_the_state_of_a_stream_is_read(clean):
    # In memory, here and below: a file stream made right after another of its name was deleted
    # was seen to begin with messages of that one.
    config = StreamConfig(name="S", subjects=["s.*"], storage="memory")
    empty = put_stream(clean, config).state
    assert (empty.messages, empty.first_ts, empty.last_ts) == (0, None, None)
    for n in range(4):
        assert clean(f"s.{n % 2}", b"x")["seq"] == n + 1
    ask_js(clean, "STREAM.MSG.DELETE.S", {"seq": 2})
    answer = ask_js(clean, "STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})
    info = StreamInfo.from_wire(answer)
    state = info.state
    assert leftovers(info) == []
    assert (state.messages, state.first_seq, state.last_seq) == (3, 1, 4)
    assert (state.subjects, state.deleted) == ({"s.0": 2, "s.1": 1}, [2])
    assert state.first_ts is not None
    assert state.last_ts is not None
    assert state.last_ts - state.first_ts < timedelta(minutes=1)
    assert state.to_wire()["last_ts"] == answer["state"]["last_ts"]
    assert info.created_ns < (state.last_ts_ns or 0)


def test_mirrors_and_sources_say_how_far_they_are(clean):
    put_stream(clean, StreamConfig(name="O", subjects=["o.>"], storage="memory"))
    clean("o.a", b"x")
    put_stream(clean, StreamConfig(name="M", storage="memory", mirror=StreamSource(name="O")))
    put_stream(clean, StreamConfig(name="S", storage="memory", sources=[StreamSource(name="O")]))

    def caught_up(name: str) -> StreamInfo | None:
        info = StreamInfo.from_wire(ask_js(clean, f"STREAM.INFO.{name}"))
        return info if info.state.messages == 1 else None

    mirror: Any = wait_until(lambda: caught_up("M"), timeout=LONG, message="the mirror stays empty")
    source: Any = wait_until(lambda: caught_up("S"), timeout=LONG, message="nothing is taken in")
    assert leftovers([mirror, source]) == []
    for state in (mirror.mirror, *source.sources):
        assert (state.name, state.lag, state.error) == ("O", 0, None)
        assert 0 <= state.active < 60
    assert source.sources[0].seq == 1


ERRORS: dict[type[APIError], tuple[str, dict[str, Any] | None]] = {
    StreamNotFoundError: ("STREAM.INFO.NOSUCH", None),
    ConsumerNotFoundError: ("CONSUMER.INFO.S.NOSUCH", None),
    MessageNotFoundError: ("STREAM.MSG.GET.S", {"seq": 99}),
    StreamNameInUseError: ("STREAM.CREATE.S", {"name": "S", "subjects": ["else"]}),
    InvalidStreamConfigError: ("STREAM.CREATE.T", {"name": "T", "num_replicas": 9}),
    InvalidRequestError: ("STREAM.CREATE.T", {"name": "T", "rollup_hdrs": True}),
    ConsumerExistsError: (
        "CONSUMER.CREATE.S.C",
        {"stream_name": "S", "action": "create", "config": {"name": "C", "max_deliver": 3}},
    ),
    InvalidConsumerConfigError: (
        "CONSUMER.CREATE.S.D",
        {"stream_name": "S", "config": {"name": "D", "idle_heartbeat": 10**9}},
    ),
    PriorityGroupError: (
        "CONSUMER.CREATE.S.D",
        {"stream_name": "S", "config": {"name": "D", "priority_policy": "overflow"}},
    ),
}


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_the_server_answers_with_the_number_of_the_class(clean, kind):
    put_stream(clean, StreamConfig(name="S", subjects=["s.>"]))
    put_consumer(clean, ConsumerConfig(name="C"))
    with pytest.raises(APIError) as caught:
        ask_js(clean, *ERRORS[kind])
    assert type(caught.value) is kind


def test_a_wrong_last_sequence_says_the_right_one(clean, port):
    put_stream(clean, StreamConfig(name="S", subjects=["s.>"], storage="memory"))
    clean("s.a", b"x")
    header = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 7\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB in 1\r\n')
        sock.sendall(b"HPUB s.a in %d %d\r\n%s\r\n" % (len(header), len(header), header))
        with sock.makefile("rb") as reader:
            line = next(line for line in reader if line.startswith(b"MSG"))
            answer = json.loads(reader.read(int(line.split()[-1])))
    error = api_error(answer["error"])
    assert isinstance(error, WrongLastSequenceError)
    assert error.actual_seq == 1
