"""Commands at a real server: what they do, what --json says, and with which code they end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

import jetsync
from jetsync import ConsumerInfo, StreamInfo
from jetsync.cli.completion import complete
from jetsync.cli.main import main
from jetsync.cli.output import Output
from jetsync.cli.reference import reference
from tests.cli.run_command import Done, clean_environment, run
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until


@pytest.fixture
def nc(url):
    with jetsync.connect(url) as connection:
        yield connection


@pytest.fixture
def stream(nc, request):
    name = f"CLI{abs(hash(request.node.nodeid)) % 10**9}"
    made = nc.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    yield made
    nc.jetstream().delete_stream(name)


@pytest.fixture
def jet(url):
    """Run a command at the session's server."""

    def call(*arguments: str, stdin: bytes = b"", **environment: str) -> Done:
        return run(*arguments, stdin=stdin, NATS_URL=url, **environment)

    return call


# -- messages --------------------------------------------------------------------------------------


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
            threading.Event().wait(0.05)
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
    with ThreadPoolExecutor(1) as pool, mock.patch("jetsync.cli.reply.subprocess.run", right):
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


# -- streams and consumers -------------------------------------------------------------------------


def test_json_is_what_the_server_says(stream, nc, jet) -> None:
    js = nc.jetstream()
    js.publish(f"{stream.name}.x", b"1")
    stream.create_consumer(durable_name="c", ack_wait=12.5, backoff=[1, 2], max_deliver=3)
    told = jet("stream", "info", stream.name, "--json").json
    assert (told["config"]["max_age"], told["config"]["num_replicas"]) == (0, 1)
    read, asked = StreamInfo.from_wire(told), stream.info()
    assert (read.config, read.state) == (asked.config, asked.state)
    (listed,) = jet("stream", "ls", "--subject", f"{stream.name}.x", "--json").json
    assert StreamInfo.from_wire(listed).state == asked.state
    consumer = ConsumerInfo.from_wire(jet("consumer", "info", stream.name, "c", "--json").json)
    assert consumer.config == js.consumer(stream.name, "c").info().config


def test_what_info_prints_can_be_given_back(stream, jet, tmp_path: Path) -> None:
    told = jet("stream", "info", stream.name, "--json").json
    told["config"].update(name=f"{stream.name}B", subjects=[f"{stream.name}B.>"])
    file = tmp_path / "stream.json"
    file.write_text(json.dumps(told))
    made = jet("stream", "add", "--config", str(file), "--max-msgs", "7", "--json")
    assert made.code == 0
    try:
        assert made.json["config"]["storage"] == "memory"
        assert made.json["config"]["max_msgs"] == 7
        edited = jet("stream", "edit", f"{stream.name}B", "--max-age", "1d", "--json")
        assert edited.json["config"]["max_age"] == 86_400 * 10**9
        assert edited.json["config"]["max_msgs"] == 7
    finally:
        assert jet("stream", "rm", f"{stream.name}B", "-f").code == 0


def test_gaps_copies_and_purges(stream, nc, jet) -> None:
    for number in range(6):
        nc.jetstream().publish(f"{stream.name}.{number}", b"x")
    for seq in (2, 3, 5):
        stream.delete_msg(seq)
    gaps = jet("stream", "gaps", stream.name, "--json").json
    assert [(gap["first_seq"], gap["last_seq"]) for gap in gaps] == [(2, 3), (5, 5)]
    assert "give --subjects" in jet("stream", "copy", stream.name, "OTHER").err
    purged = jet("stream", "purge", stream.name, "--subject", f"{stream.name}.0", "-f", "--json")
    assert purged.json == {"purged": 1}


def test_messages_are_taken_from_a_consumer_and_acknowledged(stream, nc, jet) -> None:
    js = nc.jetstream()
    js.publish(f"{stream.name}.x", b"one")
    js.publish(f"{stream.name}.x", b"two")
    assert jet("consumer", "add", stream.name, "w", "--deliver", "2", "--ack", "explicit").code == 0
    taken = jet("consumer", "next", stream.name, "w", "--json").lines
    assert [(one["data"], one["seq"], one["num_pending"]) for one in taken] == [("two", 2, 0)]
    assert js.consumer(stream.name, "w").info().ack_floor.stream_seq == 2
    assert jet("consumer", "next", stream.name, "w", "--wait", "200ms").code == 4
    assert jet("consumer", "pause", stream.name, "w", "1h").code == 0
    reason = jet("consumer", "explain", stream.name, "w", "--json").json
    assert reason["stalled"] is True
    assert "paused" in reason["reason"]
    assert jet("consumer", "resume", stream.name, "w").code == 0
    assert jet("consumer", "rm", stream.name, "w", "-f").code == 0
    assert jet("consumer", "info", stream.name, "w").code == 3


def test_the_doctor_finds_what_stands_still(stream, nc, jet) -> None:
    js = nc.jetstream()
    js.publish(f"{stream.name}.x", b"1")
    js.publish(f"{stream.name}.x", b"2")
    consumer = stream.create_consumer(durable_name="full", max_ack_pending=1)
    consumer.fetch(1, timeout=5)
    done = jet("doctor", "--stream", stream.name, "--json")
    assert done.code == 1
    (found,) = [one for one in done.json if one["result"] == "problem"]
    assert found["about"] == f"consumer {stream.name}/full"
    assert "as many as may be" in found["text"]
    shown = jet("doctor", "--stream", stream.name).out
    assert f"{found['about']}  {found['text']}" in shown
    assert f"-> {found['remedy']}" in shown
    consumer.delete()
    assert jet("doctor", "--stream", stream.name).code == 0


def test_top_shows_rates(stream, nc, jet) -> None:
    nc.jetstream().publish(f"{stream.name}.x", b"1")
    done = jet("top", "--stream", stream.name, "--interval", "50ms", "--count", "2", "--json")
    assert [one["rows"][0]["messages"] for one in done.lines] == [1, 1]
    assert stream.name in jet("top", "--stream", stream.name, "--count", "1").out


# -- stores ----------------------------------------------------------------------------------------


def test_values_go_in_and_out_as_they_are(nc, jet) -> None:
    assert jet("kv", "add", "CLIKV", "--history", "2", "--storage", "memory").code == 0
    try:
        assert jet("kv", "put", "CLIKV", "k", stdin=b"\x00\xff").code == 0
        assert jet("kv", "get", "CLIKV", "k").raw == b"\x00\xff"
        assert jet("kv", "create", "CLIKV", "k", "v").code == 1
        assert jet("kv", "update", "CLIKV", "k", "v", "1", "--json").json["revision"] == 2
        assert [
            one["revision"]
            for one in jet("kv", "watch", "CLIKV", "--history", "--count", "2", "-j").lines
        ] == [1, 2]
        assert jet("kv", "ls", "CLIKV", "--json").json == ["k"]
        assert jet("kv", "del", "CLIKV", "k").code == 2, "without a terminal it needs --force"
        assert jet("kv", "del", "CLIKV", "k", "--force").code == 0
        assert jet("kv", "get", "CLIKV", "k").code == 3
    finally:
        assert jet("kv", "del", "CLIKV", "--force").code == 0


def test_files_go_in_and_out_as_they_are(jet, tmp_path: Path) -> None:
    file, copy = tmp_path / "a.bin", tmp_path / "b.bin"
    file.write_bytes(bytes(range(256)) * 1000)
    assert jet("object", "add", "CLIOBJ", "--storage", "memory").code == 0
    try:
        put = jet("object", "put", "CLIOBJ", str(file), "--json")
        assert put.json["size"] == 256_000
        assert jet("object", "get", "CLIOBJ", "a.bin", "-O", str(copy)).code == 0
        assert copy.read_bytes() == file.read_bytes()
        assert jet("object", "get", "CLIOBJ", "a.bin", "-O", str(copy)).code == 2
        assert jet("object", "get", "CLIOBJ", "a.bin", "-O", "-").raw == file.read_bytes()
        assert jet("object", "put", "CLIOBJ", "-", "--name", "in", stdin=b"x").code == 0
        assert [one["name"] for one in jet("object", "ls", "CLIOBJ", "-j").json] == ["a.bin", "in"]
        assert jet("object", "get", "CLIOBJ", "none").code == 3
        for arguments in (
            ("get", "CLIOBJ", "in", "-O", str(tmp_path / "no/f")),
            ("get", "CLIOBJ", "in", "-O", str(file / "f")),
            ("put", "CLIOBJ", str(tmp_path / "no")),
            ("put", "CLIOBJ", str(tmp_path)),
        ):
            refused = jet("object", *arguments)
            assert (refused.code in (1, 2), refused.out) == (True, "")
            assert re.search(r"^jetsync: .*/.*\.$", refused.err, re.MULTILINE), refused.err
    finally:
        assert jet("object", "del", "CLIOBJ", "--force").code == 0


# -- contexts, connection, completion --------------------------------------------------------------


def test_contexts_are_kept_and_used(url, tmp_path: Path) -> None:
    def at_home(*arguments: str) -> Done:
        return run(*arguments, XDG_CONFIG_HOME=str(tmp_path))

    added = at_home("context", "add", "here", "-s", url, "--token", "s3cret", "--select")
    assert added.code == 0
    assert "s3cret" not in added.out
    assert json.loads((tmp_path / "nats/context/here.json").read_text())["token"] == "s3cret"
    assert at_home("rtt", "--count", "1").code == 0
    assert at_home("context", "add", "here").code == 1
    assert at_home("context", "copy", "here", "there").code == 0
    assert at_home("context", "edit", "there", "-s", "nats://127.0.0.1:1").code == 0
    listed = at_home("context", "ls", "--json").json
    assert [(one["name"], one["selected"]) for one in listed] == [("here", True), ("there", False)]
    checked = at_home("context", "validate", "--connect", "--json")
    assert (checked.code, [one["ok"] for one in checked.json]) == (1, [True, False])
    assert at_home("context", "select", "there").code == 0
    assert at_home("context", "rm", "here", "-f").code == 0
    assert at_home("context", "info", "here").code == 2


def test_no_command_shows_the_secrets_of_a_context(tmp_path: Path) -> None:
    def at_home(*arguments: str) -> str:
        return run("context", *arguments, XDG_CONFIG_HOME=str(tmp_path)).out

    def shown(output: str) -> None:
        assert output
        assert "s3cret" not in output
        assert "czNjcmV0" not in output

    servers = "nats://ann:s3cret@a.example,nats://s3cret@b.example:1,c.example"
    proxy = "socks5://ann:s3cret@proxy.example:1080"
    creds = "data:text/plain;base64,czNjcmV0"
    given = ("-s", servers, "--socks-proxy", proxy, "--creds", creds)
    shown(at_home("add", "one", *given))
    shown(at_home("edit", "one", "--description", "x"))
    shown(at_home("copy", "one", "two"))
    for json_ in ((), ("--json",)):
        shown(at_home("info", "one", *json_))
        shown(at_home("ls", *json_))
    found = json.loads(at_home("info", "one", "--json"))
    assert found["url"] == (
        "nats://ann:***@a.example:4222,nats://***@b.example:1,nats://c.example:4222"
    )
    assert (found["socks_proxy"], found["creds"]) == ("socks5://***@proxy.example:1080", "***")
    kept = tmp_path / "nats/context/odd.json"
    kept.write_text(json.dumps({"url": "ws://ann:s3cret@h:1", "socks_proxy": "ann:s3cret@p:2"}))
    shown(at_home("ls"))
    found = json.loads(at_home("info", "odd", "--json"))
    assert (found["url"], found["socks_proxy"]) == ("***@h:1", "***@p:2")


def test_without_a_server_the_code_is_4() -> None:
    done = run("account", "-s", "nats://127.0.0.1:1", "--json")
    assert done.code == 4
    assert done.json["error"]["type"] == "NoServersError"
    assert done.err.count("\n") == 1


def test_the_account_and_the_round_trip_are_shown(url, jet) -> None:
    told = jet("account", "--json").json
    assert told["connection"]["rtt"] > 0
    assert told["jetstream"]["limits"]["max_streams"] == -1
    (measured,) = jet("rtt", "--count", "2", "--json").json
    assert 0 < measured["least"] <= measured["median"]


@pytest.mark.parametrize(
    "kind",
    ["pub", "sub", "req", "js-pub", "js-pub --sync", "js-fetch", "js-consume", "kv"],
)
def test_a_benchmark_moves_all_messages_and_leaves_nothing(nc, jet, kind: str) -> None:
    before = set(nc.jetstream().stream_names())
    stored = [] if kind in ("pub", "sub", "req") else ["--storage", "memory"]
    done = jet("bench", *kind.split(), "--msgs", "51", "--clients", "2", "--json", *stored)
    assert done.code == 0, done.err
    assert (done.json["messages"], done.json["clients"]) == (51, 2)
    assert done.json["msgs_per_second"] > 0
    assert set(nc.jetstream().stream_names()) == before


def test_words_are_completed_by_what_may_stand_there() -> None:
    def names(kind: str, before: list[str]) -> list[str]:
        return [f"{kind}-{'-'.join(before)}"]

    assert complete(["str"], names) == ["stream"]
    assert complete(["stream", "in"], names) == ["info"]
    assert complete(["stream", "info", ""], names) == ["stream-"]
    assert complete(["--server", "x", "con", "info", "S", ""], names) == ["consumer-S"]
    assert complete(["stream", "add", "S", "--storage", "m"], names) == ["memory"]
    assert complete(["sub", "--stream", ""], names) == ["stream-"]
    assert "--max-age" in complete(["stream", "add", "S", "--max-"], names)
    assert complete(["kv", "get", "B", "K", ""], names) == []


def test_names_for_completion_come_from_the_server_and_failures_are_silent(stream, url) -> None:
    typed = ("--", "-s", url, "stream", "info", stream.name[:5])
    # The server gets half a second only, which a busy machine may need for itself.
    wait_until(lambda: stream.name in run("completion", "words", *typed).out.split(), timeout=20)
    failed = run("completion", "words", "--", "-s", "nats://127.0.0.1:1", "stream", "info", "")
    assert (failed.code, failed.out, failed.err) == (0, "", "")
    for shell in ("bash", "zsh", "fish"):
        assert "completion words" in run("completion", shell).out


def test_the_reference_on_the_page_is_that_of_the_commands() -> None:
    page = Path(__file__).parents[2] / "docs/guide/command-line.md"
    assert page.read_text().partition("<!-- reference -->\n")[2] == reference()
