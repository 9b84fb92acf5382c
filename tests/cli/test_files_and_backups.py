"""Streams as a whole, and messages in files: find, backup, restore, copy, pub --file, schedules."""

from __future__ import annotations

import contextlib
import json

import pytest

import jetsync
from jetsync.cli import copy, stream_data
from jetsync.jetstream.ordered.consumer import OrderedConsumer
from jetsync.testing import Faults
from tests.harness.waiting import wait_until


@pytest.fixture
def name(stream, nc):
    nc.jetstream().publish_many(
        [(f"{stream.name}.a", b"one", {"K": "v"}), (f"{stream.name}.b", b"\xff")]
    )
    return stream.name


def test_streams_are_found_by_conditions(jet, name):
    def found(*flags):
        return jet("stream", "find", "--subject", f"{name}.>", "-n", "--json", *flags).json

    assert found() == found("--consumers", "0") == found("--replicas", "1") == [name]
    for flags in (
        ["--empty"],
        ["--idle", "1h"],
        ["--created", "1h"],
        ["--sourced"],
        ["--mirrored"],
    ):
        assert found(*flags) == []
        assert found(*flags, "--invert") == [name]
    assert found("--leader", "none") == found("--cluster", "none") == []
    assert jet("stream", "find", "--subject", f"{name}.>").out.splitlines()[1].split()[0] == name


def test_a_stream_goes_into_a_folder_and_back(jet, nc, tmp_path):
    js = nc.jetstream()
    js.create_stream(name="CLIBACK", subjects=["cliback"])
    js.publish("cliback", b"x")
    folder = str(tmp_path / "b")
    done = jet("stream", "backup", "CLIBACK", folder, "--json").json
    assert (done["stream"], done["messages"], done["folder"]) == ("CLIBACK", 1, folder)
    assert jet("stream", "backup", "CLIBACK", folder).code == 2
    assert jet("stream", "backup", "NONE", str(tmp_path / "c")).code == 3
    js.delete_stream("CLIBACK")
    restored = jet("stream", "restore", folder, "--description", "again")
    assert (restored.code, "again" in restored.out) == (0, True)
    assert "restore of" in restored.err
    assert jet("stream", "restore", folder).code == 1
    js.delete_stream("CLIBACK")
    assert jet("stream", "restore", str(tmp_path)).code == 2


def test_a_copied_stream_has_the_messages_when_asked_for(jet, nc, name):
    js = nc.jetstream()
    done = jet("stream", "copy", name, "CLICOPY", "--subjects", "clicopy", "--data", "--json")
    assert (done.code, done.json["config"]["sources"]) == (0, [])
    copied = js.stream("CLICOPY")
    assert [copied.get_msg(n).data for n in (1, 2)] == [b"one", b"\xff"]
    js.delete_stream("CLICOPY")


@pytest.fixture
def copied(nc):
    """The name of a stream that a test copies into."""
    yield "CLICOPY"
    with contextlib.suppress(jetsync.StreamNotFoundError):
        nc.jetstream().delete_stream("CLICOPY")


def test_a_copy_begins_at_the_first_sequence_and_has_no_sources_of_the_old_one(jet, nc, copied):
    js = nc.jetstream()
    js.create_stream(name="CLIOLDER", subjects=["cliolder"], storage="memory")
    js.create_stream(
        name="CLIORIGIN",
        subjects=["cliorigin"],
        storage="memory",
        first_seq=1000,
        sources=[{"name": "CLIOLDER"}],
    )
    js.publish("cliorigin", b"x")
    js.publish("cliorigin", b"y")
    done = jet("stream", "copy", "CLIORIGIN", copied, "--subjects", "clicopy", "--data", "--json")
    for name in ("CLIORIGIN", "CLIOLDER"):
        js.delete_stream(name)
    assert (done.code, done.json["state"]["messages"], done.json["config"]["sources"]) == (0, 2, [])
    assert js.stream(copied).get_msg(2).data == b"y"


def test_a_copy_that_takes_fewer_messages_fails_and_says_what_stays(
    jet, nc, name, copied, monkeypatch
):
    monkeypatch.setattr(stream_data, "_ALL_SENT", 1.0)
    monkeypatch.setattr(stream_data, "_STALLED", 1.0)
    nc.jetstream().publish(f"{name}.c", b"x" * 5000)
    flags = ("--subjects", "clicopy", "--data")
    done = jet("stream", "copy", name, copied, "--max-msg-size", "1000", *flags)
    assert done.code == 1
    assert "2 of 3 messages came" in done.err
    assert "CLICOPY stays with 2 messages" in done.err
    assert nc.jetstream().stream(copied).cached_info.config.sources == []
    nc.jetstream().delete_stream(copied)
    done = jet("stream", "copy", name, copied, "--max-msgs", "1", *flags)
    assert (done.code, "keeps 1 of the 3 messages" in done.err) == (1, True)


def test_a_copy_that_is_interrupted_copies_no_more(jet, nc, name, copied, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stream_data, "_wait_until_copied", stop)
    done = jet("stream", "copy", name, copied, "--subjects", "clicopy", "--data")
    assert (done.code, "CLICOPY stays" in done.err) == (130, True)
    assert nc.jetstream().stream(copied).cached_info.config.sources == []


def test_messages_are_not_copied_where_they_would_not_be_kept(jet, name):
    flags = ("--subjects", "clicopy", "--data", "--retention", "interest")
    assert jet("stream", "copy", name, "CLICOPY", *flags).code == 2


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_stream_goes_into_a_file_and_back(jet, nc, stream, name, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="writes parquet; the other endings run")
    path = str(tmp_path / f"out.{ending}")
    done = jet("copy", name, path, "--json")
    assert done.json == {"stream": name, "file": path, "messages": 2}
    assert jet("copy", name, path).code == 2  # it is there already
    # The copies have the ids of the originals, which the stream remembers.
    again = jet("copy", path, name, "--json")
    assert (again.json["published"], again.json["duplicates"]) == (0, 2)
    nc.jetstream().delete_stream(name)
    nc.jetstream().create_stream(stream.cached_info.config)
    again = jet("copy", path, name, "--json")
    assert (again.code, again.json["published"]) == (0, 2)
    assert jet("copy", path, "NONE").code == 3
    assert jet("copy", name, "OTHER").code == jet("copy", path, path).code == 2


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_orders_for_a_stream_are_not_published_again(jet, nc, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="writes parquet; the other endings run")
    js = nc.jetstream()
    fields = {"subjects": ["cliorders.>"], "storage": "memory", "allow_rollup_hdrs": True}
    stream = js.create_stream(name="CLIORDERS", **fields)
    js.publish("cliorders.a", b"1", headers={"Nats-Rollup": "sub", "K": "v"}, msg_id="x")
    path = str(tmp_path / f"o.{ending}")
    assert jet("copy", "CLIORDERS", path).code == 0
    again = jet("copy", path, "CLIORDERS", "--json").json
    assert (again["published"], again["duplicates"]) == (0, 1)
    assert "(duplicates)" in jet("copy", path, "CLIORDERS").out
    js.delete_stream("CLIORDERS")
    stream = js.create_stream(name="CLIORDERS", **fields)
    js.publish("cliorders.a", b"kept")
    assert jet("copy", path, "CLIORDERS", "--json").json["published"] == 1
    assert stream.get_msg(1).data == b"kept"
    assert stream.get_msg(2).headers["Nats-Msg-Id"] == "x"
    assert "Nats-Rollup" not in stream.get_msg(2).headers
    js.delete_stream("CLIORDERS")


def test_headers_that_are_no_text_go_into_a_file_and_back(jet, nc, stream, tmp_path):
    nc.jetstream().publish(f"{stream.name}.a", b"x", headers={"K": "caf\udce9"}, msg_id=None)
    path = str(tmp_path / "h.jsonl")
    assert jet("copy", stream.name, path).code == 0
    stream.purge()
    assert jet("copy", path, stream.name).code == 0
    assert b"caf\xe9" in stream.get_msg(2).raw_headers


def test_a_file_is_written_in_batches_of_bytes(jet, nc, stream, tmp_path, monkeypatch):
    sizes, fetch = [], OrderedConsumer.fetch

    def note(self, *arguments, **options):
        batch = fetch(self, *arguments, **options)
        sizes.append(sum(len(msg.data) for msg in batch))
        return batch

    monkeypatch.setattr(OrderedConsumer, "fetch", note)
    monkeypatch.setattr(copy, "_BATCH_BYTES", 0)
    nc.jetstream().publish_many((f"{stream.name}.a", bytes(500_000)) for _ in range(12))
    path = tmp_path / "big.jsonl"
    assert jet("copy", stream.name, str(path), "--json").json["messages"] == 12
    assert len(path.read_text().splitlines()) == 12
    assert max(sizes) < 3_000_000


@pytest.mark.parametrize("subject", [None, "a"])
def test_messages_that_take_longer_than_one_wait_are_all_copied(
    jet, nc, stream, tmp_path, monkeypatch, subject
):
    """On a slow link the server has delivered its last message long before that is here."""
    monkeypatch.setattr(copy, "_WAIT", 0.1)
    for number in range(4):
        nc.publish(f"{stream.name}.{'ab'[number % 2]}", bytes(50_000))
    nc.flush()
    path = tmp_path / "slow.jsonl"
    flags = () if subject is None else ("--subject", f"{stream.name}.{subject}")
    with Faults(nc.connected_url) as faults:
        faults.bandwidth(200_000)
        done = jet("copy", stream.name, str(path), "--json", *flags, NATS_URL=faults.url)
    expected = 4 if subject is None else 2
    assert done.code == 0, done.err
    assert (done.json["messages"], len(path.read_text().splitlines())) == (expected, expected)


@pytest.mark.parametrize("left", [0, 3])
def test_a_copy_ends_when_messages_are_removed_before_it_comes_to_them(
    jet, nc, stream, tmp_path, monkeypatch, left
):
    """All of them, or those at the end: then nothing more comes."""
    for number in range(8):
        nc.publish(f"{stream.name}.a", b"%d" % number)
    nc.flush()
    some = copy._some

    def removed_behind_the_first(*given):
        found = some(*given)
        monkeypatch.setattr(copy, "_some", some)
        if left:
            for seq in range(left + 1, 9):
                stream.delete_msg(seq)
        else:
            stream.purge()
        return found

    monkeypatch.setattr(copy, "_WAIT", 0.2)
    monkeypatch.setattr(copy, "_some", removed_behind_the_first)
    done = jet("copy", stream.name, str(tmp_path / "file.jsonl"), "--json")
    assert done.code == 0, done.err
    assert done.json["messages"] == max(1, left)


def test_a_file_of_no_messages_has_every_column(jet, stream, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="reads parquet; the other endings run")
    path = str(tmp_path / "none.parquet")
    assert jet("copy", stream.name, path).code == 0
    assert tuple(parquet.read_schema(path).names) == copy._COLUMNS


def test_what_was_published_before_a_wrong_line_is_counted(jet, stream, tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"data": "a"}\n{"data": "b"}\n{\n{"data": "c"}\n')
    for flags in (["--js"], []):
        done = jet("pub", f"{stream.name}.a", "--file", str(path), *flags)
        assert (done.code, "line 3" in done.err) == (1, True)
        assert "2 messages before it had been published" in done.err


def test_a_table_with_a_byte_order_mark_has_its_first_column(jet, stream, tmp_path):
    path = tmp_path / "m.csv"
    path.write_bytes(b"\xef\xbb\xbfwhere,n\n" + f"{stream.name}.y,1\n".encode())
    flags = ("--file", str(path), "--subject-column", "where", "--js")
    assert jet("pub", "-", *flags).code == 0
    path.write_bytes(b"where,n\ncaf\xe9,1\n")
    done = jet("pub", "-", *flags)
    assert (done.code, "is not in UTF-8" in done.err) == (2, True)


def test_only_messages_of_a_subject_are_copied(jet, name, tmp_path):
    path = tmp_path / "one.jsonl"
    assert jet("copy", name, str(path), "--subject", f"{name}.b", "--quiet").code == 0
    (line,) = path.read_text().splitlines()
    assert (json.loads(line)["stream_seq"], json.loads(line)["data_b64"]) == (2, "/w==")
    empty = tmp_path / "none.jsonl"
    assert jet("copy", name, str(empty), "--subject", f"{name}.c", "--quiet").code == 0
    assert empty.read_text() == ""


def test_rows_of_files_are_published(jet, stream, tmp_path):
    name = stream.name
    (tmp_path / "m.jsonl").write_text(
        f'{{"subject": "{name}.x", "data": "eins", "headers": {{"K": ["v"]}}}}\n{{"plain": 1}}\n'
    )
    (tmp_path / "m.csv").write_text(f"where,n\n{name}.y,1\n")
    lines = str(tmp_path / "m.jsonl")
    assert jet("pub", f"{name}.z", "--file", lines, "--js", "--json").json["published"] == 2
    assert jet("pub", f"{name}.z", "--file", lines).code == 0
    table = str(tmp_path / "m.csv")
    assert jet("pub", "-", "--file", table, "--subject-column", "where", "--js").code == 0
    stored = [stream.get_msg(n) for n in range(1, 6)]
    assert [msg.subject.rpartition(".")[2] for msg in stored] == ["z", "z", "z", "z", "y"]
    assert [msg.data for msg in stored[:2]] == [b"eins", b'{"plain": 1}']
    assert stored[0].headers["K"] == "v"
    assert json.loads(stored[4].data) == {"where": f"{name}.y", "n": "1"}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("m.txt", "", "no file of"),
        ("none.jsonl", None, "cannot be read"),
        ("m.jsonl", "{", "line 1: not JSON"),
        ("m.jsonl", "[" * 200_000, "line 1: not JSON"),
        ("m.jsonl", '{"data_b64": "?"}', "line 1: not a message"),
    ],
)
def test_files_that_cannot_be_published_are_named(jet, tmp_path, file, text, said):
    if text is not None:
        (tmp_path / file).write_text(text)
    done = jet("pub", "a.b", "--file", str(tmp_path / file))
    assert (done.code, said in done.err) == (2, True)


def test_the_server_publishes_at_its_time(jet, nc):
    js = nc.jetstream()
    stream = js.create_stream(
        name="CLILATER", subjects=["clilater.>"], storage="memory", allow_msg_schedules=True
    )
    assert jet("pub", "clilater.a", "x", "--at", "1h").code == 0
    done = jet("pub", "clilater.b", "x", "--every", "1m", "--schedule-subject", "clilater.s")
    assert done.code == 0
    assert stream.get_msg(1).headers["Nats-Schedule-Target"] == "clilater.a"
    assert stream.get_msg(1).headers["Nats-Schedule"].startswith("@at ")
    assert stream.get_msg(2).headers["Nats-Schedule"] == "@every 60000ms"
    assert stream.get_msg(2).subject == "clilater.s"
    js.delete_stream("CLILATER")


@pytest.mark.parametrize(
    "flags",
    [
        ["--at", "1h", "--every", "1h"],
        ["--schedule-subject", "x"],
        ["--subject-column", "x"],
        ["--file", "x.jsonl", "--at", "1h"],
        ["--file", "x.jsonl", "-H", "A:b"],
        ["--file", "x.jsonl", "--ttl", "1h"],
        ["--file", "x.jsonl", "--reply", "r"],
        ["--file", "x.jsonl", "--sleep", "1s"],
        ["--at", "inf"],
        ["--at", "9999y"],
        ["--every", "inf"],
        ["--every", "nan"],
    ],
)
def test_flags_of_pub_that_exclude_each_other_are_refused(jet, flags):
    assert jet("pub", "a.b", *flags).code == 2


def test_flags_that_copy_does_not_use_are_refused(jet):
    assert jet("copy", "x.jsonl", "S", "--subject", "a.1").code == 2
    assert jet("copy", "x.jsonl", "S", "--force").code == 2
    assert jet("copy", "S", "x.jsonl", "--subject-column", "a").code == 2
    assert jet("pub", "a.{{Count}}", "--file", "x.jsonl").code == 2


def test_a_trace_says_who_gets_a_message(jet, name):
    done = jet("trace", f"{name}.a", "x", "--json")
    assert (done.code, done.json["egress"]) == (0, {"jetstream": 1})
    assert "would be stored in stream" in jet("trace", f"{name}.a", "x").out
    assert "would be" not in jet("trace", f"{name}.a", "x", "--deliver").out
    lost = jet("trace", "no.receiver")
    assert "no receiver gets this message" in lost.err


@pytest.mark.parametrize("command", ["copy {stream} {file}", "sub --stream {stream} --count 1"])
def test_what_reads_a_stream_deletes_its_consumer_itself(
    stream, nc, jet, tmp_path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A consumer that is only dropped can outlive the connection, which closes right behind it."""
    monkeypatch.setattr(OrderedConsumer, "__del__", lambda self: None)
    nc.jetstream().publish(f"{stream.name}.a", b"x")
    words = command.format(stream=stream.name, file=tmp_path / "copy.jsonl").split()
    assert jet(*words).code == 0
    wait_until(lambda: not list(stream.consumer_names()), timeout=20)


def test_a_change_of_a_restored_consumer_is_shown(js, jet, tmp_path) -> None:
    """The server answers the first change with the configuration before it."""
    stream = js.create_stream(name="RESTORED", subjects=["restored"], storage="file")
    stream.create_consumer(durable_name="work", max_ack_pending=100)
    folder = str(tmp_path / "backup")
    assert jet("stream", "backup", "RESTORED", folder).code == 0
    js.delete_stream("RESTORED")
    assert jet("stream", "restore", folder).code == 0
    edit = ("consumer", "edit", "RESTORED", "work", "--max-pending", "7", "--json", "--force")
    assert jet(*edit).json["config"]["max_ack_pending"] == 7
    js.delete_stream("RESTORED")
