"""The verbs of streams, consumers and stores, against a real server."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jetsync import ConsumerInfo, StreamInfo


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


def test_a_group_that_the_consumer_does_not_have_is_not_found(stream, jet) -> None:
    pinned = {"priority_groups": ["g"], "priority_policy": "pinned_client"}
    stream.create_consumer(durable_name="pinned", **pinned)
    refused = jet("consumer", "unpin", stream.name, "pinned", "other", "--json")
    assert (refused.code, refused.json["error"]["err_code"]) == (3, 10160)
    assert jet("consumer", "unpin", stream.name, "pinned", "g").code == 0


def test_flags_of_the_nats_command_are_taken(stream, jet, tmp_path: Path) -> None:
    """``--pull``, and ``--force`` where only that command asks."""
    added = jet("consumer", "add", stream.name, "c", "--pull", "--wait", "9s", "--json")
    assert added.json["config"].get("deliver_subject") is None
    both = jet("consumer", "add", stream.name, "d", "--pull", "--target", "there")
    assert (both.code, "--pull or --target" in both.err) == (2, True)
    edited = jet("consumer", "edit", stream.name, "c", "--wait", "8s", "-f", "--json")
    assert edited.json["config"]["ack_wait"] == 8 * 10**9
    changed = jet("stream", "edit", stream.name, "--max-msgs", "9", "--force", "--json")
    assert changed.json["config"]["max_msgs"] == 9


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
    assert jet("doctor", "--stream", "NONE").code == 3


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
