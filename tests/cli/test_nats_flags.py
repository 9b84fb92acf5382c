"""Flags of the ``nats`` command: what they make, read and refuse, against a real server."""

from __future__ import annotations

import pytest

from tests.cli.run_command import run


def test_a_stream_publishes_again_and_renames(stream, nc, jet) -> None:
    name = stream.name
    made = jet(
        *("stream", "edit", name, "--republish-source", f"{name}.a.>", "--republish-headers"),
        *("--republish-destination", f"again.{name}.>", "--transform-source", f"{name}.x"),
        *("--transform-destination", f"{name}.y", "--limit-consumer-max-pending", "7", "--json"),
    )
    assert (made.code, made.err) == (0, "")
    config = made.json["config"]
    again = {"src": f"{name}.a.>", "dest": f"again.{name}.>", "headers_only": True}
    assert config["republish"] == again
    assert config["subject_transform"] == {"src": f"{name}.x", "dest": f"{name}.y"}
    assert config["consumer_limits"]["max_ack_pending"] == 7
    shown = jet("stream", "info", name).out
    assert f"{name}.a.> to again.{name}.> (headers only)" in shown
    assert f"{name}.x to {name}.y" in shown
    with nc.subscribe(f"again.{name}.>") as again_there:
        nc.flush()
        nc.jetstream().publish(f"{name}.a.b", b"12345")
        assert again_there.next(5).headers["Nats-Msg-Size"] == "5"
    nc.jetstream().publish(f"{name}.x", b"1")
    assert stream.get_last_msg(f"{name}.y").data == b"1"


def test_a_part_that_is_not_given_stays_and_a_whole_can_be_removed(stream, jet) -> None:
    """Without the merge ``--republish-headers`` alone would lose where to, and be refused."""
    name = stream.name
    refused = jet("stream", "edit", name, "--republish-source", "a")
    assert (refused.code, "--republish-destination" in refused.err) == (2, True)
    assert jet("stream", "edit", name, "--republish-destination", "there.>").code == 0
    again = jet("stream", "edit", name, "--republish-headers", "--json").json["config"]["republish"]
    assert (again["dest"], again["headers_only"]) == ("there.>", True)
    same = jet("stream", "edit", name, "--republish-headers", "--dry-run")
    assert same.out == "nothing would change\n"
    both = jet("stream", "edit", name, "--no-republish", "--republish-destination", "x")
    assert (both.code, "give only one" in both.err) == (2, True)
    assert "republish" not in jet("stream", "edit", name, "--no-republish", "-j").json["config"]


def test_reading_a_stream_begins_where_the_flag_says(stream, nc, jet) -> None:
    """By the subject alone: the stream that stores it is looked up."""
    js = nc.jetstream()
    for number in range(4):
        js.publish(f"{stream.name}.{number % 2}", b"%d" % number)

    def read(*more: str) -> list[str]:
        done = jet("sub", f"{stream.name}.*", "--json", *more)
        assert (done.code, done.err) == (0, "")
        return [one["data"] for one in done.lines]

    assert read("--all", "-T") == ["0", "1", "2", "3"]
    assert read("--last", "--terminate-at-end") == ["3"]
    assert read("--last-per-subject", "-T") == ["2", "3"]
    assert read("--start-sequence", "2", "-T") == ["1", "2", "3"]
    assert read("--since", "1h", "-T", "-I", f"{stream.name}.1") == ["0", "2"]
    assert read("--all", "--wait", "200ms") == ["0", "1", "2", "3"]
    assert read("--new", "-T") == []
    assert read("--new", "--wait", "100ms") == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("x", "--all", "--new"), "either --all or --new"),
        (("x", "--last", "--from-seq", "3"), "either --last or --from-seq"),
        (("x", "-T"), "--terminate-at-end goes with"),
        (("x", "--all", "--queue", "q"), "--queue does not go"),
        (("x", "--inbox"), "give no SUBJECT"),
        (("x", "-t", "-d"), "--timestamp or --delta-time"),
        ((), "give a SUBJECT"),
    ],
)
def test_flags_that_contradict_each_other_are_refused_unconnected(flags, said) -> None:
    done = run("sub", *flags, NATS_URL="nats://127.0.0.1:1")
    assert (done.code, said in done.err) == (2, True), done.err


def test_a_subject_that_no_stream_stores_is_not_found(jet) -> None:
    assert jet("sub", "cli.nowhere", "--all").code == 3


def test_a_live_subscription_ends_when_nothing_comes(jet) -> None:
    done = jet("sub", "cli.silence", "--wait", "50ms")
    assert (done.code, done.out) == (0, "")
    assert jet("sub", "--inbox", "--wait", "50ms").code == 0


def test_messages_are_shown_by_subject_and_with_times(stream, nc, jet) -> None:
    nc.jetstream().publish(f"{stream.name}.a", b"1")
    by_subject = jet("sub", "--stream", stream.name, "-T", "--subjects-only")
    assert by_subject.out == f"{stream.name}.a\n"
    (no_data,) = jet("sub", "--stream", stream.name, "-T", "--subjects-only", "-j").lines
    assert "data" not in no_data
    timed = jet("sub", "--stream", stream.name, "-T", "--timestamp").out
    assert timed.startswith(f"{stream.info().state.last_ts:%Y-%m-%d %H:%M}")
    assert jet("sub", "--stream", stream.name, "-T", "--delta-time").out.startswith("+")
    (since,) = jet("sub", "--stream", stream.name, "-T", "-d", "-j").lines
    assert since["since_start"] > 0


def test_the_report_of_streams_is_in_the_order_that_is_asked(nc, jet) -> None:
    js = nc.jetstream()
    for name, sizes, consumers in (("A", [9], 0), ("B", [1, 1], 1), ("C", [500], 2)):
        made = js.create_stream(name=f"REP{name}", subjects=[f"rep.{name}"], storage="memory")
        for size in sizes:
            js.publish(f"rep.{name}", b"x" * size)
        for number in range(consumers):
            made.create_consumer(durable_name=f"c{number}")
    try:

        def order(*flags: str) -> str:
            told = jet("stream", "report", "--subject", "rep.>", "--json", *flags).json
            return "".join(one["config"]["name"][-1] for one in told)

        assert order() == "CBA"
        assert order("--messages") == order("-m") == "BAC"
        assert order("-o") == "CBA"
        assert order("--name") == order("-t") == "ABC"
        assert order("--cluster", "none") == ""
        assert "500 B" not in jet("stream", "report", "--subject", "rep.>", "--raw").out
    finally:
        for name in "ABC":
            js.delete_stream(f"REP{name}")


def test_subjects_are_sorted_and_filtered(stream, nc, jet) -> None:
    js, name = nc.jetstream(), stream.name
    for token in ("b", "a", "b"):
        js.publish(f"{name}.{token}", b"")
    asked = ("stream", "subjects", name)
    assert list(jet(*asked, "--json").json) == [f"{name}.b", f"{name}.a"]
    assert list(jet(*asked, "--sort", "name", "-j").json) == [f"{name}.a", f"{name}.b"]
    assert list(jet(*asked, "--sort", "name", "-R", "-j").json) == [f"{name}.b", f"{name}.a"]
    assert jet(*asked, f"{name}.a", "--names").out == f"{name}.a\n"
    assert jet(*asked, "--filter", f"{name}.a", "-n").out == f"{name}.a\n"


def test_one_message_is_removed(stream, nc, jet) -> None:
    nc.jetstream().publish(f"{stream.name}.a", b"1")
    assert jet("stream", "rmm", stream.name, "1").code == 2, "without a terminal it needs --force"
    assert jet("stream", "rmm", stream.name, "1", "--force", "--json").json == {"deleted": 1}
    assert jet("stream", "rmm", stream.name, "1", "--force").code == 3


def test_a_bucket_is_a_mirror_or_has_sources(nc, jet) -> None:
    js = nc.jetstream()
    try:
        assert jet("kv", "add", "CLIORIGIN", "--storage", "m").code == 0
        assert jet("kv", "put", "CLIORIGIN", "k", "v").code == 0
        mirror = jet("kv", "add", "CLIMIRROR", "--mirror", "CLIORIGIN", "--storage", "memory", "-j")
        assert (mirror.code, mirror.err) == (0, "")
        assert mirror.json["stream_info"]["config"]["mirror"]["name"] == "KV_CLIORIGIN"
        assert "CLIORIGIN" in jet("kv", "info", "CLIMIRROR").out
        sourced = jet("kv", "add", "CLISOURCED", "--source", "CLIORIGIN", "--storage", "memory")
        assert "Sources" in sourced.out
        assert jet("kv", "watch", "CLISOURCED", "k", "--count", "1", "-j").lines[0]["data"] == "v"
        lone = jet("kv", "add", "CLILONE", "--mirror-domain", "hub")
        assert (lone.code, "--mirror" in lone.err) == (2, True)
    finally:
        for name in ("CLIMIRROR", "CLISOURCED", "CLIORIGIN"):
            js.delete_key_value(name)


def test_the_mirror_of_another_domain_says_which(jet, nc) -> None:
    """The domain becomes the prefix of its API, as the server keeps it."""
    try:
        made = jet(
            *("kv", "add", "CLIFAR", "--mirror", "THERE", "--mirror-domain", "hub"),
            *("--storage", "memory", "--json"),
        )  # the server does not ask the other domain before it makes the copy
        assert (made.code, made.err) == (0, "")
        mirror = made.json["stream_info"]["config"]["mirror"]
        assert (mirror["name"], mirror["external"]["api"]) == ("KV_THERE", "$JS.hub.API")
    finally:
        nc.jetstream().delete_key_value("CLIFAR")


def test_a_bucket_publishes_again_and_goes_back_to_a_value(nc, jet) -> None:
    try:
        assert jet("kv", "add", "CLIAGAIN", "--storage", "memory", "--history", "3").code == 0
        edited = jet(
            *("kv", "edit", "CLIAGAIN", "--republish-destination", "values.>", "--metadata"),
            *("owner=me", "--json"),
        )
        config = edited.json["stream_info"]["config"]
        assert config["republish"]["dest"] == "values.>"
        assert (config["metadata"]["owner"], config["max_msgs_per_subject"]) == ("me", 3)
        with nc.subscribe("values.>") as values:
            nc.flush()
            assert jet("kv", "put", "CLIAGAIN", "k", "one").code == 0
            assert values.next(5).data == b"one"
        assert "> to values.>" in jet("kv", "info", "CLIAGAIN").out
        assert jet("kv", "put", "CLIAGAIN", "k", "two").code == 0
        assert jet("kv", "revert", "CLIAGAIN", "k", "1", "--force").code == 0
        assert jet("kv", "get", "CLIAGAIN", "k").out == "one"
        removed = jet("kv", "edit", "CLIAGAIN", "--no-republish", "--json").json
        assert "republish" not in removed["stream_info"]["config"]
        assert jet("kv", "edit", "CLIAGAIN").code == 2
    finally:
        nc.jetstream().delete_key_value("CLIAGAIN")


def test_a_benchmark_names_what_it_makes_and_spares_what_there_is(stream, nc, jet) -> None:
    js = nc.jetstream()
    taken = jet("bench", "js-pub", "--msgs", "10", "--stream", stream.name)
    assert (taken.code, "exists" in taken.err) == (1, True)
    assert js.stream(stream.name).info().state.messages == 0
    many = ("--multisubject", "--multisubjectmax", "3", "--storage", "memory", "-j")
    done = jet("bench", "js", "pub", "async", "--msgs", "20", "--stream", "CLIBENCH", *many)
    assert (done.code, done.json["messages"]) == (0, 20)
    given = jet("bench", "js-pub", "cli.bench.many", "--msgs", "20", *many)
    assert (given.code, given.json["messages"]) == (0, 20)
    bucket = ("--bucket", "CLIBENCH", "--storage", "memory", "--history", "2")
    assert jet("bench", "kv", "put", "--msgs", "10", *bucket).code == 0
    js.create_key_value(bucket="CLIBENCH", storage="memory")
    try:
        assert jet("bench", "kv", "put", "--msgs", "10", *bucket).code == 1
    finally:
        js.delete_key_value("CLIBENCH")
    assert "CLIBENCH" not in list(js.stream_names())


def test_a_publisher_of_many_subjects_uses_so_many(nc, jet) -> None:
    with nc.subscribe("cli.multi.>") as sub:
        nc.flush()
        done = jet(
            "bench",
            "pub",
            "cli.multi",
            "--msgs",
            "6",
            "--multisubject",
            *("--multisubjectmax", "3"),
        )
        assert done.code == 0
        found = [sub.next(5).subject for _ in range(6)]
    assert found == [f"cli.multi.{number}" for number in (0, 1, 2, 0, 1, 2)]
    assert jet("bench", "sub", "--msgs", "1", "--multisubject").code == 2


def test_replies_end_with_an_empty_one_or_with_silence(nc, jet) -> None:
    def answer(msg) -> None:
        for data in (b"1", b"2", b""):
            msg.respond(data)

    with nc.subscribe("cli.many", callback=answer):
        nc.flush()
        done = jet("req", "cli.many", "x", "--wait-for-empty", "--raw")
        assert (done.code, done.out) == (0, "1\n2\n")
        quiet = jet("req", "cli.many", "x", "--replies", "0", "--reply-timeout", "100ms", "--raw")
        assert (quiet.code, quiet.out) == (0, "1\n2\n\n")


def test_a_schedule_is_stored_where_nats_stores_it(nc, jet) -> None:
    """There SUBJECT is the schedule, and ``--schedule-dest`` where its message goes."""
    js = nc.jetstream()
    js.create_stream(
        name="CLISCHED", subjects=["sched.>"], storage="memory", allow_msg_schedules=True
    )
    try:
        done = jet(
            *("pub", "sched.orders", "x", "--schedule-at", "1h"),
            *("--schedule-dest", "sched.to", "--json"),
        )
        assert [one["subject"] for one in done.lines] == ["sched.orders"]
        found = js.stream("CLISCHED").get_msg(1)
        assert found.headers["Nats-Schedule-Target"] == "sched.to"
    finally:
        js.delete_stream("CLISCHED")


@pytest.mark.parametrize(
    "line",
    [
        "stream info {name} --no-select",
        "stream state {name} --json",
        "stream report --all",
        "consumer ls {name} --no-select",
        "rtt 2",
        "rtt --count 2",
        "errors lookup 10059",
        "errors ls",
        "consumer reset {name} c --sequence 1 --force",
        "consumer edit {name} c --wait 3s --dry-run",
    ],
)
def test_lines_of_the_nats_command_are_taken(stream, jet, line) -> None:
    stream.create_consumer(durable_name="c", ack_policy="explicit", ack_wait=9)
    done = jet(*line.format(name=stream.name).split())
    assert (done.code, done.err) == (0, ""), line
    assert stream.consumer("c").info().config.ack_wait == 9


def test_an_error_code_is_a_number(jet) -> None:
    assert jet("errors", "many").code == 2
    assert [one["err_code"] for one in jet("errors", "10059", "10058", "-j").json] == [10059, 10058]


def test_leaders_hand_over_only_where_there_are_others(stream, jet) -> None:
    stream.create_consumer(durable_name="c")
    for line in (
        ("stream", "cluster", "step-down", stream.name),
        ("consumer", "step-down", stream.name, "c"),
    ):
        done = jet(*line)
        assert (done.code, "one replica" in done.err) == (1, True)
