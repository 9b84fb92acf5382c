"""Commands at a real server: what they do, what --json says, and with which code they end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

import jetsync
from jetsync.cli.main import main
from jetsync.cli.output import Output
from jetsync.server import NatsServer
from tests.cli.run_command import clean_environment, run
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until


def test_published_messages_carry_body_headers_and_reply(nc, jet) -> None:
    with nc.subscribe("cli.pub") as sub:
        nc.flush()
        done = jet("pub", "cli.pub", "no {{Count}}", "--count", "2", "-H", "A:b", "--reply", "r")
        assert (done.code, done.out) == (0, "published 2 messages to 'cli.pub'\n")
        first, second = sub.next(5), sub.next(5)
    assert (first.data, second.data) == (b"no 1", b"no 2")
    assert (first.headers["A"], first.reply) == ("b", "r")


def test_what_comes_from_standard_input_is_sent_as_it_is(nc, jet) -> None:
    with nc.subscribe("cli.in") as sub:
        nc.flush()
        assert jet("pub", "cli.in", "-", stdin=b"\xff{{Count}}\n").code == 0
        assert sub.next(5).data == b"\xff{{Count}}\n"


def test_confirmed_messages_say_where_they_are_stored(stream, jet) -> None:
    subject = f"{stream.name}.a"
    done = jet("pub", subject, "x", "--js", "--id", "one", "--json")
    assert done.lines == [{"subject": subject, "stream": stream.name, "seq": 1, "duplicate": False}]
    assert "duplicate" in jet("pub", subject, "x", "--id", "one").out
    lost = jet("pub", "cli.nowhere", "x", "--js", "--timeout", "1s")
    assert lost.code == 1
    assert "no stream" in lost.err


def test_a_subscriber_prints_live_messages(nc, url) -> None:
    with ThreadPoolExecutor(1) as pool:
        process = pool.submit(
            subprocess.run,
            [sys.executable, "-m", "jetsync", "sub", "cli.live", "--count", "2", "-j", "-s", url],
            capture_output=True,
            timeout=60,
        )
        for _ in range(600):
            nc.publish("cli.live", b"\xfe", headers={"A": "b"})
            nc.flush()
            if process.done():
                break
            time.sleep(0.05)  # between two messages
        done = process.result(60)
    assert done.returncode == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    expected = {"subject": "cli.live", "headers": {"A": ["b"]}, "data_b64": "/g=="}
    assert found == [expected, expected]


def test_a_stream_is_read_from_where_it_is_asked(stream, nc, jet) -> None:
    js = nc.jetstream()
    for number in range(4):
        js.publish(f"{stream.name}.{number % 2}", b"%d" % number)

    def read(*more: str) -> list[str]:
        done = jet("sub", "--stream", stream.name, "--json", *more)
        assert done.code == 0
        return [one["data"] for one in done.lines]

    assert read("--count", "4") == ["0", "1", "2", "3"]
    assert read("--from-seq", "3", "--count", "2") == ["2", "3"]
    assert read("--last-per-subject", "--count", "2") == ["2", "3"]
    assert read(f"{stream.name}.1", "--since", "1h", "--count", "1") == ["1"]
    raw = jet("sub", "--stream", stream.name, "--count", "2", "--raw")
    assert raw.raw == b"0\n1\n"


def test_hostile_text_cannot_steer_a_terminal(stream, nc, jet) -> None:
    nc.jetstream().publish(f"{stream.name}.x", b"a\x1b[2J\nb", headers={"H": "\x1b[1m"})
    for done in (
        jet("stream", "view", stream.name),
        jet("sub", "--stream", stream.name, "--count", "1"),
    ):
        assert b"\x1b" not in done.raw
        assert "a\\x1b[2J\nb" in done.out
    assert jet("stream", "get", stream.name, "1", "--raw").raw == b"a\x1b[2J\nb"


def test_the_values_of_others_cannot_steer_a_terminal_either(nc, jet) -> None:
    bucket = nc.jetstream().create_key_value(bucket="CLIODD", storage="memory")
    try:
        bucket.put("key", "a\x1b[2J\x9b2J\u202eb".encode())
        with mock.patch.object(Output, "is_terminal", True):
            assert jet("kv", "get", "CLIODD", "key").out == "a\\x1b[2J\\x9b2J\\u202eb\n"
            raw = jet("kv", "get", "CLIODD", "key", "--raw")
        assert raw.out == jet("kv", "get", "CLIODD", "key").out == "a\x1b[2J\x9b2J\u202eb"
        found = jet("kv", "get", "CLIODD", "key", "--json")
        assert found.json["data"] == "a\x1b[2J\x9b2J\u202eb"
        assert '"a\\u001b[2J\\u009b2J\\u202eb"' in found.out
    finally:
        nc.jetstream().delete_key_value("CLIODD")


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_a_message_that_is_no_text_is_printed_and_acknowledged(url, stream, nc, jet, json) -> None:
    """Neither its subject nor its headers are UTF-8, and its reply subject steers terminals."""
    name = stream.name.encode()
    head = b"NATS/1.0\r\nH: \xe9\xff\r\n\r\n"
    size = b"%d %d" % (len(head), len(head) + 1)
    with RawClient(url) as raw:
        raw.handshake()
        for subject in (b"a\x1b[2J\xff", b"b\xc2\x9b"):
            raw.send(b"HPUB %s.%s %s\r\n%sx\r\n" % (name, subject, size, head))
        wait_until(lambda: stream.info().state.messages == 2)
    consumer = stream.create_consumer(durable_name="odd", ack_policy="explicit")
    for done in (
        jet("consumer", "next", stream.name, "odd", "--count", "2", *json),
        jet("sub", "--stream", stream.name, "--count", "2", *json),
        jet("stream", "view", stream.name, *json),
    ):
        assert (done.code, done.err.count("Traceback")) == (0, 0), done.err
        assert not re.search(b"\x1b|\xc2\x9b", done.raw)
        assert "\\udcff" in done.out
    assert consumer.info().num_ack_pending == 0
    with RawClient(url) as raw, ThreadPoolExecutor(1) as pool:
        raw.handshake()
        heard = threading.Event()
        pool.submit(_repeat, heard, raw, b"PUB live.%s r\x1b\xff 1\r\nx\r\n" % name)
        try:
            done = jet("sub", f"live.{stream.name}", "--count", "1", *json)
        finally:
            heard.set()
    assert (done.code, b"\x1b" in done.raw) == (0, False)
    assert re.search(r"reply.*r\\(u00|x)1b\\udcff", done.out)


def _repeat(enough: threading.Event, raw: RawClient, data: bytes) -> None:
    while not enough.wait(0.05):
        raw.send(data)


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_a_request_that_cannot_be_answered_does_not_end_the_replier(nc, url, jet, json) -> None:
    """A program finds a large request on its standard input only."""
    answers: list[jetsync.Msg] = []

    def ask() -> None:
        for data in (b"x" * 200_000, b"1" + b"\0" * 200_000, b"a"):
            wait_until(lambda data=data: _answer(nc, "cli.count", data, answers), timeout=20)  # type: ignore[misc]

    program = "head -c 1"
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        done = jet("reply", "cli.count", "--command", program, "--count", "3", *json)
        asking.result(20)
    assert (done.code, [msg.data for msg in answers]) == (0, [b"x", b"1", b"a"]), done.err


def _answer(nc: jetsync.Connection, subject: str, data: bytes, answers: list[jetsync.Msg]) -> bool:
    try:
        answers.append(nc.request(subject, data, timeout=5))
    except jetsync.NoRespondersError:
        return False
    return True


def test_one_failed_execution_is_answered_with_an_error(nc, url, jet) -> None:
    answers: list[jetsync.Msg] = []
    right = mock.Mock(side_effect=[OSError("no memory"), mock.Mock(stdout=b"fine")])
    with ThreadPoolExecutor(1) as pool, mock.patch("subprocess.run", right):
        asking = pool.submit(
            lambda: [
                wait_until(lambda: _answer(nc, "cli.fails", b"x", answers), timeout=20)
                for _ in range(2)
            ]
        )
        done = jet("reply", "cli.fails", "--command", "cat", "--count", "2", "--json")
        asking.result(20)
    assert done.code == 0, done.err
    assert answers[0].headers["Nats-Service-Error-Code"] == "500"
    assert (answers[0].data, answers[1].data) == (b"", b"fine")
    assert done.lines[0]["error"] == "'cat' could not be run: no memory"
    assert "error" not in done.lines[1]
    none = jet("reply", "cli.fails", "--command", "no-such-program")
    assert (none.code, none.out) == (2, "")


@pytest.mark.parametrize("way", [["hello"], ["--echo"], ["--command", "cat"]])
def test_requests_are_answered(nc, jet, url, way) -> None:
    # The environment belongs to the process, so it is set for both threads here.
    with clean_environment({"NATS_URL": url}), ThreadPoolExecutor(1) as pool:
        server = pool.submit(main, ["reply", "cli.greet", *way, "--count", "1", "--quiet"])
        wait_until(lambda: _answers(nc), timeout=20)
        assert server.result(20) == 0


def _answers(nc: jetsync.Connection) -> bool:
    try:
        return nc.request("cli.greet", b"hello", timeout=5).data == b"hello"
    except jetsync.NoRespondersError:
        return False


def test_replies_are_counted_and_a_missing_one_is_a_timeout(nc, jet) -> None:
    with nc.subscribe("cli.many", callback=lambda msg: msg.respond(b"yes")):
        nc.flush()
        assert jet("req", "cli.many", "?", "--raw").raw == b"yes\n"
        few = jet("req", "cli.many", "?", "--replies", "2", "--timeout", "1s", "--json")
        assert few.code == 4
        assert few.lines[0]["data"] == "yes"
        assert few.lines[1]["error"]["type"] == "TimeoutError"


@pytest.fixture
def unused():
    """A server without streams."""
    with NatsServer() as server:
        yield server.url


def test_names_are_lines_for_programs(unused, tmp_path) -> None:
    """Nothing is printed but the names: no heading, and nothing at all where there is none."""

    def listed(*arguments):
        done = run(*arguments, NATS_URL=unused, XDG_CONFIG_HOME=str(tmp_path))
        assert done.code == 0
        return done.out

    assert listed("stream", "ls", "-n") == ""
    with jetsync.connect(unused) as nc:
        js = nc.jetstream()
        js.create_stream(name="NAMED_B", subjects=["named.b"], storage="memory")
        stream = js.create_stream(name="NAMED_A", subjects=["named.a"], storage="memory")
        assert listed("consumer", "ls", "NAMED_A", "--names") == ""
        for name in ("one", "two"):
            stream.create_consumer(durable_name=name)
        bucket = js.create_key_value(bucket="NAMED", storage="memory")
        assert listed("stream", "ls", "-n") == "KV_NAMED\nNAMED_A\nNAMED_B\n"
        assert listed("stream", "find", "-n", "--subject", "named.a") == "NAMED_A\n"
        assert listed("consumer", "ls", "NAMED_A", "-n") == "one\ntwo\n"
        assert listed("kv", "ls", "-n") == "NAMED\n"
        assert listed("kv", "ls", "NAMED") == ""
        for key in ("b", "a"):
            bucket.put(key, b"")
        assert listed("kv", "ls", "NAMED") == "a\nb\n"
        assert json.loads(listed("kv", "ls", "NAMED", "--json")) == ["a", "b"]
        js.create_object_store(bucket="FILES", storage="memory").put("file", b"x")
        assert listed("object", "ls", "-n") == "FILES\n"
        assert listed("object", "ls", "FILES", "-n") == "file\n"
        assert listed("context", "ls", "-n") == ""
        listed("context", "add", "here")
        listed("context", "add", "there", "--select")
        listed("context", "select", "here")
        assert listed("context", "ls", "-n") == "here\nthere\n"
        assert listed("context", "-") == "selected context there\n"
