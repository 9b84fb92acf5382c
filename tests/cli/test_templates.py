"""What ``pub`` and ``reply`` fill into the texts of a message, by the names of ``nats``."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import jetsync
from jetsync.cli import templates
from jetsync.cli.failure import UsageError
from tests.harness.waiting import wait_until


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("{{Count}}{{ Count }}{{.Count}}{{Cnt}}", "7777"),
        ("{{Request}}/{{ .Request }}", "ask/ask"),
        ("{{Unknown}} {{Count {{}} }} {{Random 5}}", "{{Unknown}} {{Count {{}} }} {{Random 5}}"),
        ("{{ID}}", r"[0-9A-Za-z]{22}"),
        ("{{UUID}}", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("{{Time}}", r"1?\d:[0-5]\d[AP]M"),
        ("{{TimeStamp}}", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
        ("{{Unix}} {{UnixNano}}", r"\d{10} \d{19}"),
        ("{{Random 3 3}}-{{ Random 20 10 }}", r"[0-9A-Za-z]{3}-[0-9A-Za-z]{10,20}"),
        ("{{Random 0 0}}", ""),
    ],
)
def test_each_place_is_filled_and_nothing_else(text, becomes):
    filled = templates.fill(text, 7, b"ask")
    assert filled == becomes or re.fullmatch(becomes, filled), filled


def test_a_place_without_a_request_stays_and_what_a_request_says_is_not_filled():
    assert templates.fill("{{Request}}", 1) == "{{Request}}"
    assert templates.fill("{{Request}} {{Count}}", 1, b"{{Count}}") == "{{Count}} 1"
    raw = templates.fill("{{Request}}", 1, b"\xff\x00")
    assert raw.encode("utf-8", "surrogateescape") == b"\xff\x00"


def test_ids_and_random_texts_are_new_each_time():
    for place in ("{{ID}}", "{{UUID}}", "{{Random 30 40}}"):
        assert len({templates.fill(place, 1) for _ in range(50)}) == 50


def test_a_text_that_no_server_takes_is_refused():
    with pytest.raises(UsageError, match="64 MiB"):
        templates.check("{{Random 1 99999999999}}")


def test_what_a_request_says_stays_in_one_word_of_a_command():
    words = templates.in_one_word("echo {{ Random 2 2 }} '{{1}}-{{Request}}' {{9}}").split(" ")
    assert len(words) == 4
    words[2] = "{{1}}-{{Request}}"
    found = templates.fill_command(words, 1, "a.b", b"x y {{0}} {{Count}}")
    assert found[0] == "echo"
    assert re.fullmatch(r"\w\w", found[1])
    assert found[2:] == ["b-x y {{0}} {{Count}}", "{{9}}"]


def test_published_subjects_bodies_headers_and_ids_are_filled(stream, jet):
    name = stream.name
    done = jet(
        "pub",
        f"{name}.{{{{Count}}}}",
        "{{Random 4 4}} {{.Cnt}}",
        *("--js", "--count", "2", "-H", "No:{{Count}}", "--id", "id-{{Count}}"),
    )
    assert done.code == 0, done.err
    for number in (1, 2):
        msg = stream.get_msg(number)
        assert msg.subject == f"{name}.{number}"
        assert re.fullmatch(rf"\w{{4}} {number}".encode(), msg.data)
        assert (msg.headers["No"], msg.headers["Nats-Msg-Id"]) == (str(number), f"id-{number}")


def test_the_number_of_bytes_is_that_of_the_filled_bodies(nc, jet):
    done = jet("pub", "cli.templates", "{{Random 5 5}}", "--count", "3", "--json")
    assert done.json["bytes"] == 15


@pytest.mark.parametrize(
    ("flags", "data"),
    [
        (["no. {{Count}}: {{Request}}"], b"no. 1: \xffjoe"),
        (["-", "-H", "A:{{Count}}"], b"in {{Count}}"),
        (["--command", "printf %s_ '{{1}} {{Count}}' {{Random 3 3}}"], rb"reply 1_\w\w\w_"),
    ],
)
def test_answers_are_filled(nc, jet, flags, data):
    answers: list[jetsync.Msg] = []

    def asked() -> bool:
        try:
            answers.append(nc.request("cli.reply.filled", b"\xffjoe", timeout=5))
        except jetsync.NoRespondersError:
            return False
        return True

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(wait_until, asked, 20)
        done = jet("reply", "cli.reply.*", *flags, "--count", "1", stdin=b"in {{Count}}")
        asking.result(30)
    assert done.code == 0, done.err
    assert answers[0].data == data or re.fullmatch(data, answers[0].data)
    if "-H" in flags:
        assert answers[0].headers["A"] == "1"


def test_a_header_of_no_form_is_refused_before_anything_is_done(jet):
    for verb in ("pub", "reply"):
        done = jet(verb, "cli.none", "x", "-H", "no colon", NATS_URL="nats://127.0.0.1:1")
        assert done.code == 2
        assert "Name:value" in done.err
