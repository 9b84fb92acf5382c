"""``consumer find`` and ``consumer copy`` against a real server."""

from __future__ import annotations

import pytest

from tests.cli.run_command import run
from tests.harness.waiting import wait_until


@pytest.fixture
def consumers(stream, nc):
    """Five messages; a consumer that has all, one that has two, a push and a pinned one."""
    js = nc.jetstream()
    for number in range(5):
        js.publish(f"{stream.name}.{number}", b"")
    stream.create_consumer(durable_name="done", ack_policy="explicit").fetch(5).ack_sync()
    stream.create_consumer(durable_name="held", ack_policy="explicit").fetch(2)
    stream.create_consumer(durable_name="pushed", deliver_subject=f"to.{stream.name}")
    pinned = stream.create_consumer(
        durable_name="pinned", priority_policy="pinned_client", priority_groups=["g"]
    )
    pinned.fetch(1, group="g").ack_sync()
    return stream


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("", "done held pinned pushed"),
        ("--pull", "done held pinned"),
        ("--push", "pushed"),
        ("--pinned", "pinned"),
        ("--pinned --invert", "done held pushed"),
        ("--pending 0", "done"),
        ("--pending 3", "done held"),
        ("--pending 3 --invert", "pinned pushed"),
        ("--ack-pending 1", "done pinned pushed"),
        ("--ack-pending 1 --invert", "held"),
        ("--pull --ack-pending 1 --pending 4", "done pinned"),
        ("--waiting 0", "done held pinned pushed"),
        ("--idle 1h", "pushed"),
        ("--created 1h", ""),
        ("--created 0s --replicas 1", "done held pinned pushed"),
        ("--replicas 1 --invert", ""),
        ("--leader nobody", ""),
        ("--bound", ""),
    ],
)
def test_consumers_are_found_by_all_of_the_conditions(consumers, jet, flags, names) -> None:
    done = jet("consumer", "find", consumers.name, "--names", *flags.split())
    assert (done.code, done.out.split()) == (0, names.split()), done.err


def test_a_consumer_with_a_client_is_bound(consumers, nc, jet) -> None:
    find = ("consumer", "find", consumers.name, "--bound")
    with nc.subscribe(f"to.{consumers.name}"):
        nc.flush()
        wait_until(lambda: [one["name"] for one in jet(*find, "-j").json] == ["pushed"], 30)
        assert "pushed" in jet("con", "query", consumers.name, "--bound").out


def test_pull_and_push_exclude_each_other() -> None:
    done = run("consumer", "find", "S", "--pull", "--push", NATS_URL="nats://127.0.0.1:1")
    assert (done.code, "--pull or --push" in done.err) == (2, True)


def test_a_consumer_is_copied_with_what_a_flag_changes(stream, nc, jet) -> None:
    name = stream.name
    stream.create_consumer(
        durable_name="one",
        ack_policy="explicit",
        ack_wait=9,
        filter_subject=f"{name}.a",
        deliver_policy="by_start_sequence",
        opt_start_seq=7,
        max_waiting=3,
        metadata={"owner": "me"},
    )
    copy = ("consumer", "copy", name, "one")
    assert jet(*copy, "two").code == 0
    two = stream.consumer("two").cached_info.config
    assert (two.durable_name, two.ack_wait, two.opt_start_seq) == ("two", 9, 7)
    assert (two.filter_subject, two.max_waiting, two.metadata["owner"]) == (f"{name}.a", 3, "me")
    done = jet(
        *("con", "cp", name, "one", "three", "--deliver", "new", "--wait", "1m", "--json"),
        *("--filter", f"{name}.b", "--filter", f"{name}.c", "--ephemeral"),
    )
    assert (done.code, done.err) == (0, "")
    three = stream.consumer("three").cached_info.config
    assert (three.durable_name, three.deliver_policy, three.ack_wait) == (None, "new", 60)
    assert list(three.filter_subjects) == [f"{name}.b", f"{name}.c"]


def test_a_copy_may_be_pushed_or_pulled_unlike_its_origin(stream, jet) -> None:
    name = stream.name
    stream.create_consumer(durable_name="pulled", ack_policy="explicit", max_waiting=3, max_batch=5)
    stream.create_consumer(
        durable_name="pushed",
        deliver_subject=f"to.{name}",
        deliver_group="g",
        idle_heartbeat=1,
        flow_control=True,
        rate_limit_bps=10**6,
    )
    to_push = ("--target", f"there.{name}", "--deliver-group", "h")
    assert jet("consumer", "copy", name, "pulled", "a", *to_push).code == 0
    pushed = stream.consumer("a").cached_info.config
    assert (pushed.deliver_subject, pushed.deliver_group) == (f"there.{name}", "h")
    assert jet("consumer", "copy", name, "pushed", "b", "--pull").code == 0
    pulled = stream.consumer("b").cached_info.config
    assert (pulled.deliver_subject, pulled.idle_heartbeat) == (None, 0)
    both = jet("consumer", "copy", name, "pushed", "c", "--pull", "--target", "x")
    assert (both.code, "--pull or --target" in both.err) == (2, True)


def test_a_copy_takes_the_name_of_no_other_consumer(stream, jet) -> None:
    for number in range(2):
        stream.create_consumer(
            durable_name=f"c{number}", ack_policy="explicit", ack_wait=9 + number
        )
    taken = jet("consumer", "copy", stream.name, "c0", "c1")
    assert (taken.code, "consumer edit" in taken.err) == (1, True)
    assert jet("consumer", "copy", stream.name, "c9", "c3").code == 3
