"""Publishing, pulling, pushing and the API on every older line of real servers.

A representative set for each commit; in the long form the suites of ``tests/jetstream`` themselves,
run against each older server. There a feature that the server is too old for is skipped by its
ApiLevelRequiredError (``tests/harness/nats_server.py``).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

import jetsync
from jetsync.server.binary import ENVIRONMENT_VARIABLE
from tests import lanes
from tests.harness.figures import short_form
from tests.harness.older import OLDER_VARIABLE, OLDER_VERSIONS, older_binary, older_server
from tests.harness.soak import SOAKING

PATIENCE = 20.0
ROOT = Path(__file__).parents[2]

SUITES = [
    "test_publish.py",
    "test_publish_async.py",
    "test_publish_outcomes.py",
    "test_publish_refusals.py",
    "test_acks.py",
    "test_consume.py",
    "test_messages.py",
    "test_ordered.py",
    "test_pull_engine.py",
    "test_pull_subscribe.py",
    "test_push.py",
    "test_push_ordered.py",
    "test_streams.py",
    "test_streams_admin.py",
    "test_direct_get.py",
    "test_direct_get_pages.py",
    "test_direct_get_servers.py",
]

OTHERWISE = {
    "2.10": [
        "test_purge_in_its_forms",
        "test_a_start_beyond_the_end_waits_for_it",
        "test_every_start_and_filter_survives_resets",
    ],
    "2.11": [
        "test_purge_in_its_forms",
        "test_a_link_that_breaks_before_the_last_word_costs_nothing",
        "test_columns_have_the_types_of_every_batch",
        "test_get_msgs_gives_exactly_what_was_published",
        "test_published_headers_that_look_like_the_servers_are_kept",
    ],
    "2.12": ["test_purge_in_its_forms"],
}
"""What these servers do in another way: a purge with ``keep`` counts what it leaves by itself, in
2.11 each message of a direct get counts itself among those that are still to come, and 2.10 moves a
start beyond the end of the stream to the next message. 2.10 also says nothing of a consumer that is
gone: each of the hundreds of resets of one test takes two heartbeats there, an hour in all; the
other tests of ordered consumers run."""

# A call -> the server that has it; an older one is not asked.
NEWER = {
    "2.11": [
        lambda js: js.publish("s", b"", ttl=5),
        lambda js: js.publish_async("s", b"", ttl=5),
        lambda js: js.create_stream(name="T", allow_msg_ttl=True),
        lambda js: js.create_consumer("S", priority_groups=["g"], priority_policy="overflow"),
        lambda js: js.stream("S").get_msgs(1, max_messages=1),
    ],
    "2.12": [
        lambda js: js.publish("s", b"", incr=1),
        lambda js: js.publish("s", b"", schedule="@every 1h", schedule_target="t"),
        lambda js: js.create_stream(name="T", allow_atomic=True),
    ],
    "2.14": [lambda js: js.reset_consumer("S", "c", 1)],
}


def minor(version: str) -> tuple[int, int]:
    first, second = version.split(".")[:2]
    return int(first), int(second)


@pytest.fixture(params=OLDER_VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def js(version):
    with older_server(version) as server, jetsync.connect(server.url) as nc:
        yield nc.jetstream(timeout=PATIENCE)


def test_everything_that_the_server_has_works(js):
    stream = js.create_stream(name="S", subjects=["s", "s.>"], allow_direct=True)
    assert js.publish("s", b"0").seq == 1
    assert js.publish("s", b"0", msg_id="a").seq == js.publish("s", b"0", msg_id="a").seq == 2
    assert js.publish_async("s", b"0").result(PATIENCE).seq == 3
    assert js.publish_many([("s.many", b"%d" % n) for n in range(500)]).stored == 500
    with pytest.raises(jetsync.WrongLastSequenceError):
        js.publish("s", b"", expected_last_seq=1)
    with pytest.raises(jetsync.NotStoredError):
        js.publish("elsewhere", b"", timeout=PATIENCE)

    count = stream.info(subjects_filter=">").state.messages
    consumer = stream.create_consumer(durable_name="c")
    first, rest = consumer.next(timeout=PATIENCE), consumer.fetch(count - 1, timeout=PATIENCE)
    first.ack_sync(timeout=PATIENCE)
    rest.ack_sync(timeout=PATIENCE)
    assert (len(rest), consumer.info().num_ack_pending) == (count - 1, 0)
    assert len(consumer.fetch_no_wait(5)) == 0

    reader = stream.create_consumer(ack_policy="none")
    with reader.messages(max_messages=50) as messages:
        seqs = [messages.next(timeout=PATIENCE).metadata.stream_seq for _ in range(count)]
    assert seqs == list(range(1, count + 1))
    with stream.ordered_consumer() as ordered:
        assert len(ordered.fetch(count, timeout=PATIENCE)) == count
    for options in ({"durable": "d", "heartbeat": 1, "flow_control": True}, {"ordered": True}):
        with js.subscribe("s.many", **options) as sub:
            assert [sub.next(PATIENCE).data for _ in range(500)] == [b"%d" % n for n in range(500)]

    assert stream.get_last_msg("s.many", direct=True).data == b"499"
    assert {"c", reader.name} <= {info.name for info in js.consumers("S")}
    assert js.account_info().streams == 1
    assert stream.purge(subject="s.many") == 500


def test_what_the_server_does_not_have_is_refused_before_anything_is_sent(version, js):
    """An old server would ignore such a header or field, and the message would stay for ever."""
    js.create_stream(name="S", subjects=["s"], allow_direct=True)
    js.create_consumer("S", durable_name="c")
    for needed, calls in NEWER.items():
        if minor(version) >= minor(needed):
            continue
        for call in calls:
            with pytest.raises(jetsync.ApiLevelRequiredError, match=needed):
                call(js)
    assert js.stream("S").info().state.messages == 0


@pytest.mark.parametrize("version", ["2.10.25"], indirect=True)
def test_silence_where_others_say_that_there_is_nothing_is_looked_into(js):
    """That server answers no pull of a consumer that is not there, and no direct get of a stream
    that does not allow it."""
    stream = js.create_stream(name="S", subjects=["s"], allow_direct=True)
    js.publish("s", b"x")
    js.update_stream(name="S", allow_direct=False)
    assert stream.get_msg(1, direct=None).data == b"x"
    consumer = stream.create_consumer(durable_name="c")
    js.delete_consumer("S", "c")
    # The server is asked at the end of a short call; a late answer is for the next one.
    with pytest.raises(jetsync.ConsumerDeletedError):
        for _ in range(20):
            with contextlib.suppress(jetsync.PullUnansweredError):
                consumer.fetch(1, timeout=0.3)
    with pytest.raises(jetsync.ConsumerDeletedError):
        consumer.fetch(1, timeout=PATIENCE, heartbeat=0.2)
    messages = consumer.messages(heartbeat=0.2)
    with messages, pytest.raises(jetsync.ConsumerDeletedError):
        messages.next(timeout=PATIENCE)


@pytest.mark.skipif(
    not SOAKING, reason="make soak PART=older; each commit runs the tests above on each version"
)
@pytest.mark.timeout(3600)
def test_the_suites_of_jetstream_pass(version):
    left_out = OTHERWISE.get(".".join(version.split(".")[:2]), [])
    command = [
        *[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", lanes.PROCESSES],
        *[f"tests/jetstream/{name}" for name in SUITES],
        *["-k", " and ".join(f"not {name}" for name in left_out) or "test"],
    ]
    environment = short_form(
        **{ENVIRONMENT_VARIABLE: str(older_binary(version)), OLDER_VARIABLE: version}
    )
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()[-10_000:]
