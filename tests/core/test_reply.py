"""Replies are made and closed in one step, and the index of what is asked forgets them."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from typing import Any

import pytest

from jetsync._core.inbound import Inbound
from jetsync._core.index import Index
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._core.reply import Reply
from tests.core.kit import message, wait_until

PREFIX = "_INBOX.me."


class Questions:
    """What a connection has of requests."""

    def __init__(self) -> None:
        self.outbound = Outbound()
        self.inbound = Inbound(self.outbound)
        self.asked: Index[str, Mailbox] = Index()
        self.sid = self.inbound.add(Mailbox())
        self.inbound.set_reply_route(PREFIX.encode(), self.sid)

    def open(self, question: str | None = "question") -> Reply:
        return Reply(self.inbound, self.outbound, self.asked, PREFIX, question, None)

    def answer(self, subject: str) -> None:
        self.inbound.feed(message(subject.encode(), self.sid, b"answer"))

    def is_clean(self) -> bool:
        return not self.inbound.pending_replies() and not self.asked.get("question")


def test_an_answer_reaches_its_reply_and_a_closed_one_gets_none():
    questions = Questions()
    one, other = questions.open(), questions.open()
    assert questions.asked.get("question") == [one.mailbox, other.mailbox]
    questions.answer(other.subject)
    found = other.mailbox.get(0)
    assert found is not None
    assert found.data == b"answer"
    assert one.mailbox.get(0) is None
    other.close()
    other.close()
    assert questions.asked.get("question") == questions.inbound.pending_replies() == [one.mailbox]
    questions.answer(other.subject)
    assert (questions.inbound.unmatched, other.mailbox.received) == (1, 1)
    with one:
        pass
    assert questions.is_clean()


def test_a_reply_that_is_dropped_is_closed_at_once():
    questions = Questions()
    reply = questions.open()
    subject = reply.subject
    del reply
    assert questions.is_clean()
    questions.answer(subject)
    assert questions.inbound.unmatched == 1


def test_a_reply_that_only_the_collector_finds_is_closed_too():
    questions = Questions()
    circle: list[object] = [questions.open()]
    circle.append(circle)
    del circle
    gc.collect()
    assert questions.is_clean()


def test_whatever_a_collector_takes_first_of_a_whole_connection_nothing_is_raised(monkeypatch):
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    for _ in range(20):
        questions = Questions()
        circle: list[object] = [questions, questions.open(), questions.asked]
        random.Random(len(circle)).shuffle(circle)
        circle.append(circle)
        del questions, circle
    gc.collect()
    assert raised == []


@pytest.mark.parametrize("wrong", [None, 1, b"bytes", "text"])
def test_a_reply_is_made_of_its_parts_only(wrong):
    questions = Questions()
    parts: list[Any] = [questions.inbound, questions.outbound, questions.asked]
    for place in range(3):
        changed = [*parts[:place], wrong, *parts[place + 1 :]]
        with pytest.raises(TypeError):
            Reply(changed[0], changed[1], changed[2], PREFIX, "question", None)
    with pytest.raises(TypeError):  # the question is no key
        questions.open([])  # type: ignore[arg-type]
    assert questions.is_clean()


def test_a_thread_that_computes_gets_no_turn_while_replies_are_made_and_closed():
    """The interpreter's lock stays where it is: to get it back from such a thread takes 5 ms."""
    questions, turns, is_over = Questions(), [0], False

    def compute() -> None:
        while not is_over:
            turns[0] += 1
            time.sleep(0)  # gives the lock up

    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    thread = threading.Thread(target=compute)
    try:
        thread.start()
        wait_until(lambda: turns[0])
        count = turns[0]
        for _ in range(20_000):
            questions.open().close()
        assert turns[0] == count
    finally:
        is_over = True
        sys.setswitchinterval(before)
        thread.join(30)


def test_an_index_has_each_value_under_its_key_once():
    rng = random.Random(5)
    index: Index[str, int] = Index()
    expected: dict[str, dict[int, None]] = {key: {} for key in "abc"}
    for _ in range(5000):
        key, value = rng.choice("abc"), rng.randrange(1000, 1006)
        if rng.random() < 0.45:
            index.add(key, value)
            expected[key][value] = None
        else:
            index.discard(key, value)
            expected[key].pop(value, None)
        assert sorted(index.get(key)) == sorted(expected[key])
    assert index.get("never") == []


def test_two_threads_that_change_one_key_lose_nothing_of_each_other():
    index: Index[str, object] = Index()
    steady = object()
    index.add("key", steady)

    def change() -> None:
        for _ in range(30_000):
            mine = object()
            index.add("key", mine)
            assert mine in index.get("key")
            index.discard("key", mine)

    threads = [threading.Thread(target=change) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert index.get("key") == [steady]
