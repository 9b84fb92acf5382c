"""``sub`` of several subjects and into files, and ``pub`` of lines, as ``nats`` does."""

from __future__ import annotations

import io
import json
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from jetsync.cli import merged
from jetsync.cli.main import main
from jetsync.server import NatsServer
from tests.cli.run_command import clean_environment, run
from tests.harness.waiting import wait_until

DENIED = {"user": "u", "password": "p", "permissions": {"subscribe": {"deny": ["secret.>"]}}}


@pytest.fixture
def listen(nc, jet):
    """Run ``sub`` and publish to subjects, again and again until it has what it counts."""

    def run_sub(*arguments: str, subjects: dict[str, bytes]):
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(jet, "sub", *arguments)

            def published() -> bool:
                for subject, data in subjects.items():
                    nc.publish(subject, data)
                nc.flush()
                return done.done()

            wait_until(published, 60)
            return done.result()

    return run_sub


def test_several_subjects_are_listened_to_at_once(listen) -> None:
    sent = {"cli.several.a": b"A", "cli.several.b.c": b"B", "cli.several.d": b"no"}
    given = ("cli.several.a", "--count", "20", "cli.several.b.>")
    done = listen(*given, "--json", subjects=sent)
    assert (done.code, done.err) == (0, "")
    found = {one["subject"]: one["data"] for one in done.lines}
    assert (len(done.lines), found) == (20, {"cli.several.a": "A", "cli.several.b.c": "B"})
    raw = listen(*given, "--raw", subjects=sent)
    assert (len(raw.out.split()), set(raw.out.split())) == (20, {"A", "B"})
    assert "'cli.several.a', 'cli.several.b.>'" in raw.err


def test_silence_of_all_subjects_ends_a_wait(jet) -> None:
    done = jet("sub", "cli.silent.a", "cli.silent.b", "--wait", "50ms")
    assert (done.code, done.out) == (0, "")


def test_a_subject_that_is_refused_ends_the_others_too() -> None:
    """Its thread gets the error, the command raises it."""
    with NatsServer(config={"authorization": {"users": [DENIED]}}) as server:
        url = server.url.replace("nats://", "nats://u:p@")
        done = run("sub", "free.>", "secret.a", NATS_URL=url)
    assert (done.code, "secret.a" in done.err) == (1, True), done.err


def test_leaving_does_not_wait_for_messages_that_are_not_taken(nc, monkeypatch) -> None:
    """Each thread has a message in its hand for which there is no room."""
    monkeypatch.setattr(merged, "_ROOM", 1)
    made = [nc.subscribe("cli.many") for _ in range(2)]
    with merged.Merged(made) as source:
        for _ in range(10):
            nc.publish("cli.many", b"")
        assert source.next(30).subject == "cli.many"
        wait_until(lambda: sum(one.delivered for one in made) > 3, 30)
    assert not any(one.is_active for one in made)
    assert not [one for one in threading.enumerate() if one.name.startswith("jetsync-sub")]


def test_several_subjects_are_read_out_of_a_stream(stream, nc, jet) -> None:
    js, name = nc.jetstream(), stream.name
    for token in "abcab":
        js.publish(f"{name}.{token}", token.encode())
    given = ("sub", f"{name}.a", f"{name}.c", "-T", "--json")
    assert [one["seq"] for one in jet(*given, "--all").lines] == [1, 3, 4]
    assert [one["seq"] for one in jet(*given, "--last-per-subject").lines] == [3, 4]


def test_each_message_becomes_a_file(stream, nc, jet, tmp_path) -> None:
    js, name = nc.jetstream(), stream.name
    js.publish(f"{name}.a", b"one", headers={"A": "b"})
    js.publish(f"{name}.b", b"\xff")
    folder = tmp_path / "new" / "dump"
    given = ("sub", "--stream", name, "-T")
    done = jet(*given, "--dump", str(folder))
    assert (done.code, done.out) == (0, f"wrote 2 messages to {folder}\n")
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["1.json", "2.json"]
    printed = jet(*given, "--json").lines
    assert [json.loads(file.read_text()) for file in files] == printed
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert jet(*given, "--dump", str(folder), "--json").json == {"dumped": 2}
    whole = jet(*given, "--dump", "-").raw
    assert [json.loads(one) for one in whole.split(b"\0") if one] == printed
    assert whole.endswith(b"\0")


def test_live_messages_become_files_by_their_number(listen, tmp_path) -> None:
    done = listen(
        *("cli.dump", "--count", "2", "--dump", str(tmp_path), "--headers-only"),
        subjects={"cli.dump": b"x"},
    )
    assert done.code == 0
    assert [json.loads((tmp_path / f"{n}.json").read_text()) for n in (1, 2)] == [
        {"subject": "cli.dump"}
    ] * 2


def test_a_folder_that_cannot_be_made_is_told(stream, nc, jet, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    done = jet("sub", "--stream", stream.name, "-T", "--dump", str(tmp_path / "file"))
    assert (done.code, str(tmp_path / "file") in done.err) == (1, True)
    both = jet("sub", "x", "--dump", str(tmp_path), "--raw")
    assert (both.code, "--dump or --raw" in both.err) == (2, True)


def test_each_line_of_standard_input_is_a_message(stream, nc, jet) -> None:
    subject = f"{stream.name}.{{{{Count}}}}"
    lines = b"one {{Count}}\r\n\n\xff"
    done = jet("pub", subject, "--js", "--send-on", "newline", "--id", "n{{Count}}", stdin=lines)
    assert (done.code, done.out.count("stored in")) == (0, 3)
    found = [stream.get_msg(seq) for seq in (1, 2, 3)]
    assert [msg.data for msg in found] == [b"one {{Count}}", b"", b"\xff"]
    assert [msg.subject for msg in found] == [f"{stream.name}.{n}" for n in (1, 2, 3)]
    assert found[2].headers["Nats-Msg-Id"] == "n3"


def test_lines_are_counted_and_repeated(nc, jet) -> None:
    with nc.subscribe("cli.lines") as sub:
        nc.flush()
        given = ("pub", "cli.lines", "-", "--count", "2", "--json")
        done = jet(*given, "--send-on", "newline", stdin=b"a\nb\n")
        assert done.json == {"subject": "cli.lines", "published": 4, "bytes": 4}
        assert [sub.next(5).data for _ in range(4)] == [b"a", b"a", b"b", b"b"]
        whole = jet(*given[:3], "--send-on", "eof", stdin=b"a\nb\n")
        assert (whole.code, sub.next(5).data) == (0, b"a\nb\n")
        assert jet(*given, "--send-on", "newline", stdin=b"").json["published"] == 0
    done = jet("pub", "cli.lines", "body", "--send-on", "newline")
    assert (done.code, "give no BODY" in done.err) == (2, True)


def test_a_line_is_published_before_the_next_one_comes(nc, url) -> None:
    """So ``tail -f`` can be its source: what comes next is written when the first has arrived."""

    class Lines(io.RawIOBase):
        left = [b"first\n", b"second\n"]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            if not self.left:
                return 0
            if len(self.left) == 1:
                assert sub.next(30).data == b"first"
            line = self.left.pop(0)
            buffer[: len(line)] = line
            return len(line)

    with nc.subscribe("cli.tail") as sub:
        nc.flush()
        given = io.TextIOWrapper(io.BufferedReader(Lines()))
        with clean_environment({"NATS_URL": url}), mock.patch("sys.stdin", given):
            assert main(["pub", "cli.tail", "--send-on", "newline", "--quiet"]) == 0
        assert sub.next(30).data == b"second"


@pytest.mark.parametrize("flags", [["pub", "cli.piped"], ["req", "cli.piped"]], ids=lambda f: f[0])
def test_without_a_body_what_is_piped_in_is_sent(nc, url, flags, tmp_path):
    def send(**options) -> None:
        command = [sys.executable, "-m", "jetsync", *flags]
        with clean_environment({"NATS_URL": url}):
            done = subprocess.run(command, **options, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    seen = []

    def heard(msg) -> None:
        seen.append(msg.data)
        if msg.reply:
            msg.respond(b"")

    with nc.subscribe("cli.piped", callback=heard):
        nc.flush()
        send(input=b"from a pipe\n")
        (tmp_path / "body").write_bytes(b"from a file")
        with (tmp_path / "body").open() as body:
            send(stdin=body)
        send(stdin=subprocess.DEVNULL)  # as in a cron job: there is nothing to read
        wait_until(lambda: len(seen) == 3, timeout=30)
    assert seen == [b"from a pipe\n", b"from a file", b""]
