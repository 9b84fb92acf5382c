"""What a blocking call costs beside its round trip: how many Python functions it enters.

Each costs a quarter of a microsecond, several times that when the caches are cold, as they are
after a wait. A new function on the way of one of these calls has to be worth it.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from queue import SimpleQueue

import pytest

import jetsync
from tests.harness.frames import frames
from tests.harness.waiting import wait_until


@pytest.fixture
def calls(nc, js):
    """Calls that ask once and wait for the answer, by their names."""
    stream = js.create_stream(
        name="COST", subjects=["cost"], storage="memory", allow_direct=True, max_msgs=100
    )
    bucket = js.create_key_value(bucket="cost", storage="memory")
    consumer = stream.create_consumer(durable_name="cost", mem_storage=True)
    js.publish_many([("cost", b"x")] * 20)
    bucket.put("key", b"value")
    messages = list(consumer.fetch(10))
    replier = nc.subscribe("cost.echo", callback=lambda msg: msg.respond(msg.data))
    yield {
        "request": lambda: nc.request("cost.echo", b"x"),
        "publish": lambda: js.publish("cost", b"x"),
        "ack_sync": lambda: messages.pop().ack_sync(),
        "next": consumer.next,
        "get_msg": lambda: stream.get_msg(3),
        "put": lambda: bucket.put("key", b"value"),
        "get": lambda: bucket.get("key"),
    }
    replier.unsubscribe()
    consumer.close()
    stream.delete()
    js.delete_key_value("cost")


def test_a_call_that_waits_for_one_answer_enters_few_functions(calls):
    bounds = {
        "request": 17,
        "publish": 36,
        "ack_sync": 25,
        "next": 20,
        "get_msg": 60,
        "put": 47,
        "get": 55,
    }
    assert calls.keys() == bounds.keys()
    entered = {}
    for name, call in calls.items():
        call()  # what is worked out once is not counted
        entered[name] = frames(call)
    for name, bound in bounds.items():
        assert entered[name].total() <= bound, (name, entered[name].most_common())


@pytest.mark.straight  # over TLS all is the writer's
@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(),
    reason="counts are read from /proc; the bounds of calls run",
)
def test_a_flush_wakes_no_writer(url):
    """The caller sends the PING itself: a second thread costs a change of threads each time."""
    times, before_it = 40, set(threading.enumerate())
    with jetsync.connect(url) as nc:
        nc.flush()
        ours = set(threading.enumerate()) - before_it
        (writer,) = (thread for thread in ours if thread.name.startswith("jetsync-writer-"))
        status = Path(f"/proc/self/task/{writer.native_id}/status")

        def slept() -> int:
            return int(status.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])

        wait_until(lambda: "S (sleeping)" in status.read_text())
        before = slept()
        for _ in range(times):
            nc.flush()
        assert slept() - before < times // 4


def test_a_bulk_publish_enters_no_function_for_a_message(js, calls):
    """Its loop enters some for each piece of up to 512 messages and their confirmations."""
    rows = [("cost", b"x")] * 20_000
    js.publish_many(rows[:1000])
    found = frames(lambda: js.publish_many(rows).raise_for_failed())
    assert found.total() <= 20 * found["_collect"] + 60, found


def test_a_push_callback_is_all_that_runs_for_a_message(js):
    """Of Python code; its thread runs some more for each turn of up to 64 messages."""
    js.create_stream(name="PUSHED", subjects=["pushed"], storage="memory")
    js.publish_many([("pushed", b"x")] * 2000).raise_for_failed()
    steps: Counter[str] = Counter()  # of the interpreter, by function
    turns = 0
    done = threading.Event()
    got = 0

    def note(frame, event, _argument):
        nonlocal turns
        if frame.f_code is callback.__code__:
            return None
        turns += event == "call" and frame.f_code.co_name == "_step"
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps[frame.f_code.co_name] += 1
        return note

    def callback(msg):
        nonlocal got
        got += 1
        if got == 500:
            sys.settrace(note)
        elif got == 1500:
            sys.settrace(None)
            done.set()

    with js.subscribe(stream="PUSHED", callback=callback, ack_policy="none"):
        assert done.wait(30)
    js.delete_stream("PUSHED")
    assert turns
    # A turn that ends before because no message is there looks for one in Python too.
    assert steps.total() <= 500 * turns, (turns, steps)


def test_a_consumer_that_gets_one_message_at_a_time_enters_few_functions_for_it(js):
    """With a thousand of them on a connection a turn brings hardly more than one message."""
    stream = js.create_stream(name="SINGLE", subjects=["single"], storage="memory")
    came: SimpleQueue[None] = SimpleQueue()  # which enters no Python function
    entered, messages = 0, 25
    counts: list[int] = []  # of functions from one message to the next

    def note(frame, event, _argument):
        nonlocal entered
        entered += event == "call" and frame.f_code is not callback.__code__

    def callback(_msg):
        nonlocal entered
        counts.append(entered)
        entered = 0
        sys.setprofile(note if len(counts) < messages else None)
        came.put(None)

    with stream.create_consumer().consume(callback):
        for _ in range(messages):
            js.publish("single", b"x")
            came.get(timeout=30)
    stream.delete()
    # A turn that finds nothing, or the sign of life of a server, comes between at times.
    assert sorted(counts)[messages // 2] <= 1, counts
