"""What a window of publishes knows about each message, and what it sends again."""

from __future__ import annotations

import time

from jetsync._core.bulk import BulkWindow
from jetsync._core.outbound import Outbound
from tests.core.bench import PREFIX, Bench
from tests.core.kit import client_frames, pair


def replies(bench, start=0):
    return [int(frame.reply[len(PREFIX) :]) for frame in bench.frames()[start:]]


def rows(count, **headers):
    return [("s", b"x", headers or None) for _ in range(count)]


def with_ids(count):
    return [("s", b"x", {"Nats-Msg-Id": f"id{n}"}) for n in range(count)]


def test_a_message_under_way_is_never_sent_again():
    bench = Bench(ids=b"run.")
    bench.add(*rows(5))
    assert bench.window.resend(60.0) == 0
    assert not any(bench.window.is_unknown(n) or bench.window.is_refused(n) for n in range(5))


def test_what_was_refused_is_sent_again_once():
    bench = Bench(ids=b"run.")
    bench.add(*rows(5))
    bench.window.refuse(1)
    bench.window.refuse(3)
    assert bench.window.resend(0.0) == 2  # its age is of no concern: nothing of it is stored
    assert replies(bench, 5) == [1, 3]
    assert not bench.window.is_refused(1)
    assert bench.window.resend(60.0) == 0


def test_what_was_refused_is_sent_again_only_while_there_is_time_for_an_answer():
    """A copy without an answer would make its outcome unknown; what may be stored is so already."""
    bench = Bench(ids=b"run.")
    bench.add(*rows(2))
    bench.window.mark_lost(1)
    bench.window.refuse(1)
    bench.window.last_attempt, bench.window.ends = 20.0, time.monotonic() + 10.0
    assert bench.window.resend(60.0) == 1
    assert replies(bench, 2) == [0]
    assert bench.window.is_refused(1)
    bench.window.ends += 20.0
    assert bench.window.resend(60.0) == 1
    assert replies(bench, 3) == [1]


def test_without_an_id_only_a_certain_refusal_is_sent_again():
    bench = Bench()
    bench.add(*rows(2), *with_ids(2), *rows(1))
    bench.window.refuse(0)
    assert bench.window.mark_lost() == [1, 4]
    assert [bench.window.is_unknown(n) for n in range(5)] == [False, True, True, True, True]
    assert bench.window.resend(60.0) == 3
    assert replies(bench, 5) == [0, 2, 3]


def test_a_refused_copy_of_a_message_that_may_be_stored_keeps_both_facts():
    bench = Bench(ids=b"run.")
    bench.add(*rows(1))
    bench.window.mark_lost()
    bench.window.resend(60.0)
    bench.window.refuse(0)
    assert bench.window.is_unknown(0)
    assert bench.window.is_refused(0)
    assert bench.window.resend(-1.0) == 0  # too old, and it may be stored
    assert bench.window.resend(60.0) == 1


def test_a_message_that_the_server_works_on_counts_as_maybe_stored():
    bench = Bench(ids=b"run.")
    bench.add(*rows(1))
    bench.window.refuse(0, True)
    assert bench.window.is_unknown(0)
    assert bench.window.unknown_subjects() == {"s"}


def test_ids_subjects_and_sizes_are_known():
    bench = Bench(ids=b"run.")
    bench.add(
        ("a", b""),
        ("b.c", b"payload"),
        ("ä", b"x" * 500, {"Nats-Msg-Id": "mine", "K": "v"}),
        ("b.c", b"payload", {"K": "Nats-Msg-Id: no"}),
    )
    assert [bench.window.message_id(n) for n in range(5)] == [
        "run.0",
        "run.1",
        "mine",
        "run.3",
        None,
    ]
    assert bench.window.numbers_on("b.c") == [1, 3]
    assert bench.window.numbers_on("other") == []
    assert bench.window.unknown_subjects() == set()
    bench.confirm(1, 1)
    bench.window.collect(0)
    bench.window.mark_lost()
    assert bench.window.unknown_subjects() == {"a", "ä", "b.c"}
    assert bench.window.numbers_on("b.c") == [3]
    bench.outbound.max_payload = 300
    assert bench.window.oversized() == [2]
    assert Bench().window.message_id(0) is None


def test_settled_messages_are_not_asked_for_again():
    bench = Bench(ids=b"run.")
    bench.add(*rows(3))
    for number in range(3):
        bench.confirm(number, number + 1)
    bench.window.collect(0)
    bench.window.refuse(1)
    assert bench.window.mark_lost() == []
    assert bench.window.resend(60.0) == 0
    assert not bench.window.is_refused(1)
    assert bench.window.open_count == 0
    assert bench.window.oldest == bench.window.added == 3


class Linked(Bench):
    """A window that leaves nothing to the reconnect buffer."""

    def __init__(self, **options):
        outbound = Outbound(**options)
        super().__init__(outbound=outbound, ids=b"run.", only_linked=True)

    def numbers(self, theirs):
        self.outbound.send_now()
        frames = client_frames(theirs.recv(1 << 16))
        return [int(frame.reply[len(PREFIX) :]) for frame in frames]


def test_without_a_link_nothing_is_handed_over():
    bench = Linked()
    assert bench.window.add_rows(list(rows(3)), 0) == 3
    assert bench.window.full
    assert bench.frames() == []
    assert bench.window.waiting
    assert all(bench.window.is_refused(n) for n in range(3))
    assert bench.window.mark_lost() == []
    assert not any(bench.window.is_unknown(n) for n in range(3))
    assert bench.window.resend(60.0) == 0
    assert all(bench.window.is_refused(n) for n in range(3))
    with pair() as (ours, theirs):
        bench.outbound.attach(ours.fileno(), b"", 1 << 20)
        assert bench.window.flush()
        assert not bench.window.full
        bench.outbound.send_now()
        frames = client_frames(theirs.recv(1 << 16))
        assert [frame.reply for frame in frames] == [PREFIX + b"%d" % n for n in range(3)]
        bench.outbound.close()


def test_no_thread_waits_for_room():
    with pair() as (ours, _):
        bench = Linked(high_water=100_000, write_timeout=3600.0)
        bench.outbound.attach(ours.fileno(), b"", 1 << 20)
        bench.outbound.publish("filler", b"x" * 90_000)
        assert bench.window.add_rows([("s", b"x" * 200_000)], 0) == 1
        bench.outbound.publish("filler", b"")
        assert bench.window.add_rows([("s", b"x" * 20_000)], 0) == 1
        assert bench.window.waiting
        assert bench.window.full
        assert bench.window.is_refused(1)
        bench.outbound.close()
        assert bench.window.resend(60.0) == 0
        assert bench.window.is_refused(1)


class Relinked(Linked):
    """The same, with messages that a link has lost."""

    def __init__(self, ours, count=3):
        super().__init__()
        self.outbound.attach(ours.fileno(), b"", 1 << 20)
        assert self.window.add_rows(list(rows(count)), 0) == count
        self.outbound.detach()


def test_on_a_new_link_nothing_new_goes_out_before_what_the_old_one_lost():
    with pair() as (old, _), pair() as (ours, theirs):
        bench = Relinked(old)
        bench.outbound.attach(ours.fileno(), b"", 1 << 20)
        assert bench.window.link_changed
        assert bench.window.add_rows(list(rows(2)), 0) == 2
        assert not bench.window.flush()
        bench.window.mark_lost()
        assert not bench.window.link_changed
        assert not bench.window.flush()
        assert bench.window.resend(60.0) == 3
        assert not bench.window.waiting
        assert bench.numbers(theirs) == [0, 1, 2, 3, 4]
        bench.outbound.close()


def test_while_a_refused_message_waits_what_is_new_waits_behind_it():
    with pair() as (ours, theirs):
        bench = Linked()
        bench.outbound.attach(ours.fileno(), b"", 1 << 20)
        bench.window.add_rows(list(rows(2)), 0)
        bench.window.refuse(0)
        bench.window.add_rows(list(rows(2)), 0)
        assert bench.numbers(theirs) == [0, 1]
        assert not bench.window.flush()
        assert bench.window.resend(60.0) == 1
        assert bench.numbers(theirs) == [0, 2, 3]
        bench.outbound.close()


def test_what_was_settled_while_it_waited_never_leaves():
    bench = Linked()
    bench.window.add_rows(list(rows(4)), 0)
    bench.window.settle(0)
    bench.window.settle(2)
    with pair() as (ours, theirs):
        bench.outbound.attach(ours.fileno(), b"", 1 << 20)
        assert bench.window.flush()
        assert bench.numbers(theirs) == [1, 3]
        bench.outbound.close()


def test_a_ring_larger_than_its_capacity():
    bench = Bench()
    window = BulkWindow(bench.outbound, bench.box, PREFIX, None, b"", 2, ring=10)
    assert window.add_rows(list(rows(5)), 0) == 2
    assert window.full


def test_the_window_grows_with_what_the_link_holds_up_to_its_bound():
    bench = Bench(ids=b"run.", capacity=10, most=40)
    seen = [bench.window.capacity_now]
    seq = 0
    for _ in range(5):
        bench.add(*rows(100))
        for number in range(bench.window.oldest, bench.window.added):
            seq += 1
            bench.confirm(number, seq)
            if number % 10 == 9:
                bench.window.collect(0)
                seen.append(bench.window.capacity_now)
                bench.add(*rows(10))
        bench.window.collect(0)
    # The newest measure is small where the machine stood still just then; the largest is not.
    assert seen[0] == 10
    assert 10 < max(seen) <= 40


def test_a_bound_that_was_given_is_hard():
    bench = Bench(ids=b"run.", capacity=10)
    seq = 0
    for _ in range(5):
        bench.add(*rows(100))
        assert bench.window.in_flight == 10
        for number in range(bench.window.oldest, bench.window.added):
            seq += 1
            bench.confirm(number, seq)
        bench.window.collect(0)
    assert bench.window.capacity_now == 10


def test_only_messages_below_a_number_are_marked_lost_and_sent_again():
    bench = Bench(ids=b"run.")
    bench.add(*rows(6))
    bench.frames()
    for number in (0, 3, 5):
        bench.confirm(number, number + 1)
    bench.window.collect(0)
    assert bench.window.handed_over == 6
    assert bench.window.oldest == 1
    assert bench.window.is_overtaken(3)  # 1 and 2 by 3
    assert bench.window.is_overtaken(5)
    assert not bench.window.is_overtaken(1)  # nothing below it is open
    assert not bench.window.is_overtaken(6)
    assert bench.window.mark_lost(4) == []
    assert bench.window.resend(60.0) == 2
    assert bench.window.mark_lost() == []
    assert bench.window.resend(60.0) == 3
