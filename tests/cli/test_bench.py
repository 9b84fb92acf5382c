"""``jetsync bench`` against a real server: what it moves, reckons and leaves behind."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from pathlib import Path

import pytest

import jetsync
from jetsync.cli.bench_peer import bench_peer, publish_to
from jetsync.cli.bench_run import measure
from jetsync.cli.commands import WORDS
from jetsync.cli.failure import CommandError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Output
from jetsync.cli.registry import build_parser
from jetsync.server import NatsServer
from tests.cli.run_command import clean_environment, run
from tests.harness.waiting import alongside, later, wait_until


@pytest.mark.parametrize(
    "kind",
    [
        "pub",
        "sub",
        "req",
        "js-pub",
        "js-pub --sync",
        "js-pub --batch 7",
        "js-fetch --batch 7",
        "js-consume --batch 7",
        "kv",
        "kv-put",
        "kv-get",
    ],
)
def test_a_benchmark_moves_all_messages_and_leaves_nothing(nc, jet, kind: str) -> None:
    before = set(nc.jetstream().stream_names())
    stored = ["--storage", "memory"] if kind[:2] in ("js", "kv") else []
    done = jet("bench", *kind.split(), "--msgs", "51", "--clients", "2", "--json", *stored)
    assert done.code == 0, done.err
    assert (done.json["messages"], done.json["clients"]) == (51, 2)
    seconds = done.json["duration"] / 1e9
    assert done.json["msgs_per_second"] == pytest.approx(51 / seconds, rel=0.01)
    assert done.json["bytes_per_second"] == pytest.approx(51 * 128 / seconds, rel=0.01)
    assert set(nc.jetstream().stream_names()) == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("pub bench.words.a", "pub"),
        ("service request bench.words.a", "req"),
        ("js pub sync bench.words.b --create --purge --no-progress", "js-pub"),
        ("js pub async bench.words.b", "js-pub"),
        ("js-pub bench.words.b --sync", "js-pub"),
        ("js fetch", "js-fetch"),
        ("js consume", "js-consume"),
        ("kv put", "kv-put"),
        ("kv get", "kv-get"),
    ],
)
def test_a_benchmark_is_called_as_that_of_the_nats_command(nc, jet, words, name) -> None:
    before, seen = set(nc.jetstream().stream_names()), []

    def answer(msg: jetsync.Msg) -> None:
        seen.append(msg)
        if msg.reply and msg.subject == "bench.words.a":  # a stream answers the others
            msg.respond(b"")

    with nc.subscribe("bench.words.>", callback=answer):
        nc.flush()
        done = jet("bench", *words.split(), "--msgs", "20", "--json")
        assert done.code == 0, done.err
        assert (done.json["bench"], done.json["messages"]) == (name, 20)
        if "bench.words" in words:
            wait_until(lambda: len(seen) >= 20)
    assert set(nc.jetstream().stream_names()) == before


def test_a_word_of_the_nats_command_says_whether_each_confirmation_is_waited_for() -> None:
    parser = build_parser(WORDS, "")
    words = ("bench", "js", "pub")
    assert parser.parse_args([*words, "sync", "a"]).sync
    assert not parser.parse_args([*words, "async", "a"]).sync


def test_a_benchmark_receives_from_a_subject_of_the_user(nc, url) -> None:
    """Each client gets all messages, of any publisher."""

    def publish() -> None:
        while not ended.is_set():
            nc.publish("bench.heard", b"x")
            ended.wait(0.001)

    ended = threading.Event()
    thread = threading.Thread(target=publish)
    thread.start()
    try:
        words = ("bench", "sub", "bench.heard", "--msgs", "20", "--clients", "2", "--json")
        done = run(*words, NATS_URL=url)
    finally:
        ended.set()
        thread.join()
    assert (done.code, done.json["messages"]) == (0, 40), done.err


@pytest.mark.parametrize("verb", ["pub", "req", "js-pub"])
def test_a_benchmark_leaves_the_streams_of_others_alone(nc, jet, verb) -> None:
    js = nc.jetstream()
    js.create_stream(name="THEIRS", subjects=["theirs.>"], storage="memory")
    done = jet("bench", verb, "theirs.a", "--msgs", "5")
    assert (done.code, done.err.count("\n")) == (1, 1), done.err
    assert js.stream("THEIRS").info().state.messages == 0
    js.delete_stream("THEIRS")


def test_a_user_without_jetstream_may_measure_a_subject() -> None:
    """Whether a stream takes the subject is not for that user to know."""
    allowed = {"publish": ["measured"], "subscribe": ["_INBOX.>"]}
    user = {"user": "u", "password": "p", "permissions": allowed}
    with NatsServer(config={"authorization": {"users": [user]}}) as server:
        where = server.url.replace("://", "://u:p@")
        done = run("bench", "pub", "measured", "--msgs", "5", "--json", NATS_URL=where)
    assert (done.code, done.json["messages"]) == (0, 5), done.err


def test_the_other_side_of_a_benchmark_is_a_process_that_ends_with_it(nc, url) -> None:
    """What publishes and answers takes no time of the process that is measured."""
    got = nc.subscribe("bench.side.got")
    with bench_peer(jetsync.ConnectOptions(url), "bench.side"):
        assert nc.request("bench.side.echo", b"x", timeout=20).data == b"x"
        nc.publish("bench.side.publish", publish_to("bench.side.got", 3, 7))
        assert [len(got.next(20).data) for _ in range(3)] == [7, 7, 7]

    def has_ended() -> bool:  # the server learns of it a moment later
        try:
            nc.request("bench.side.echo", b"x", timeout=0.5)
        except jetsync.NoRespondersError:
            return True
        except jetsync.TimeoutError:
            pass
        return False

    wait_until(has_ended, timeout=20)
    got.unsubscribe()


@pytest.mark.parametrize("verb", ["js-pub", "js-fetch", "kv-put"])
def test_a_benchmark_makes_what_it_was_told_to(nc, jet, verb: str) -> None:
    """A single server refuses replicas, which shows that they were asked for."""
    with nc.subscribe("$JS.API.STREAM.CREATE.>") as asked:
        nc.flush()
        flags = ("--msgs", "3", "--storage", "memory")
        assert jet("bench", verb, *flags).code == 0
        assert jet("bench", verb, *flags, "--replicas", "3").code == 1
        made = [json.loads(asked.next(10).data) for _ in range(2)]
    assert [one["storage"] for one in made] == ["memory", "memory"]
    assert [one.get("num_replicas", 1) for one in made] == [1, 3]


@pytest.mark.parametrize("verb", ["pub", "js-pub", "js-pub --sync"])
def test_messages_are_as_long_as_was_told(nc, jet, verb: str) -> None:
    with nc.subscribe("bench.long") as sent:
        nc.flush()
        done = jet("bench", *verb.split(), "bench.long", "--msgs", "2", "--size", "777", "--json")
        assert (done.code, done.json["size"]) == (0, 777), done.err
        assert [len(sent.next(10).data) for _ in range(2)] == [777, 777]


def test_the_time_of_receiving_begins_with_the_first_message(nc, url) -> None:
    first: list[float] = []

    def publish(over: threading.Event) -> None:
        later(0.5)  # the time that does not count
        first.append(time.perf_counter())
        while not over.wait(0.001):
            nc.publish("bench.clock", b"x")

    with alongside(publish):
        done = run("bench", "sub", "bench.clock", "--msgs", "3", "--json", NATS_URL=url)
        ended = time.perf_counter()
    assert done.code == 0, done.err
    assert done.json["duration"] / 1e9 <= ended - first[0]


@pytest.mark.parametrize(
    ("kind", "client"), [("pub", "P"), ("sub", "S"), ("js-fetch", "S"), ("kv-put", "P")]
)
def test_figures_of_each_client_are_written_as_the_nats_command_does(
    jet, tmp_path: Path, kind: str, client: str
) -> None:
    file = tmp_path / "figures.csv"
    flags = ("--msgs", "50", "--size", "10", "--clients", "2", "--csv", str(file))
    assert jet("bench", kind, *flags).code == 0
    heading, *rows = csv.reader(file.read_text().splitlines())
    assert heading == [
        "#RunID",
        "ClientID",
        "MsgCount",
        "MsgBytes",
        "MsgsPerSec",
        "BytesPerSec",
        "DurationSecs",
    ]
    assert len({row[0] for row in rows}) == 1
    assert [row[1:4] for row in rows] == [[f"{client}{n}", "25", "250"] for n in range(2)]
    for row in rows:
        rate, size, seconds = map(float, row[4:])
        assert size == pytest.approx(250 / seconds, rel=0.05)
        assert rate == pytest.approx(25 / seconds, rel=0.05, abs=1)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_sent(
    jet, nc, tmp_path: Path
) -> None:
    heard = nc.subscribe("bench.unsent")
    nc.flush()
    refused = jet("bench", "pub", "bench.unsent", "--msgs", "1", "--csv", str(tmp_path))
    assert (refused.code, refused.out) == (1, "")
    assert "Is a directory" in refused.err
    nc.publish("bench.unsent", b"after it")
    assert heard.next(9).data == b"after it"


@pytest.mark.parametrize("verb", ["pub", "req", "js-pub", "js-pub --sync", "kv-put"])
def test_a_pause_stands_behind_each_message(jet, verb: str) -> None:
    done = jet("bench", *verb.split(), "--msgs", "4", "--sleep", "50ms", "--json")
    assert done.json["duration"] >= 4 * 50e6


@pytest.mark.parametrize("verb", ["js-pub", "js-fetch", "js-consume"])
def test_what_is_not_stored_is_told_with_its_reason(jet, verb: str) -> None:
    """Not that fewer came than were wanted."""
    done = jet("bench", verb, "--msgs", "2", "--size", "2MiB", "--storage", "memory")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "over the server's limit" in line


def test_fewer_messages_than_were_wanted_are_no_result(url) -> None:
    words = ["bench", "js-fetch", "--msgs", "5", "--clients", "2", "--server", url]
    out = io.StringIO()
    with (
        clean_environment({}),
        Invocation(build_parser(WORDS, "").parse_args(words), Output(out=out)) as invocation,
        pytest.raises(CommandError, match="only 3 of 5 messages"),
    ):
        measure(invocation, "js-fetch", lambda part: part.messages - 1)
    assert out.getvalue() == ""
