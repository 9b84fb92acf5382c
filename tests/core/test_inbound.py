"""Bytes find their mailbox, events come in order, and a late reply finds none."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from jetsync._core.inbound import (
    EVENT_BAD,
    EVENT_EOF,
    EVENT_ERR,
    EVENT_INFO,
    EVENT_PONG,
    EVENT_SLOW,
    Inbound,
)
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from tests.core.kit import Thread, fill, message, pair, receiver


def subscribed(count, **options):
    inbound = Inbound(Outbound())
    boxes = [Mailbox(**options) for _ in range(count)]
    return inbound, boxes, [inbound.add(box) for box in boxes]


def drained(box):
    found = []
    while (msg := box.get(0)) is not None:
        found.append(msg.data)
    return found


# -- subscriptions -------------------------------------------------------------------------------


def test_subscription_ids_start_at_one_and_name_their_mailbox():
    inbound, boxes, sids = subscribed(3)
    assert sids == [1, 2, 3] == [box.sid for box in boxes]
    assert [inbound.get(sid) for sid in sids] == boxes
    assert inbound.get(4) is None
    inbound.feed(message(sid=3, payload=b"c") + message(sid=1, payload=b"a"))
    assert [drained(box) for box in boxes] == [[b"a"], [], [b"c"]]


def test_a_message_for_a_removed_subscription_is_dropped_and_counted():
    inbound, (box,), (sid,) = subscribed(1)
    inbound.remove(sid)
    inbound.remove(sid)
    fill(inbound, b"late")
    assert box.received == 0
    assert inbound.unmatched == 1
    assert inbound.get(sid) is None


def test_a_subscription_id_is_never_used_twice():
    inbound = Inbound(Outbound())
    seen = set()
    for _ in range(1000):
        sid = inbound.add(Mailbox())
        seen.add(sid)
        inbound.remove(sid)
    assert len(seen) == 1000


def test_a_late_message_does_not_reach_the_subscription_that_came_after():
    inbound, (_,), (old,) = subscribed(1)
    inbound.remove(old)
    box = Mailbox()
    new = inbound.add(box)
    inbound.feed(message(sid=old, payload=b"old") + message(sid=new, payload=b"new"))
    assert drained(box) == [b"new"]


def test_counters_tell_messages_and_bytes():
    inbound, box = receiver()
    inbound.feed(message(payload=b"12345") + message(sid=9, payload=b"1", header=b"HDR"))
    assert (inbound.messages, inbound.bytes, inbound.unmatched) == (2, 9, 1)
    assert box.received == 1


def test_a_mailbox_lives_as_long_as_its_route():
    inbound = Inbound(Outbound())
    sid = inbound.add(Mailbox())
    fill(inbound, b"x")
    box: Any = inbound.get(sid)
    assert box.get(0).data == b"x"


# -- replies -------------------------------------------------------------------------------------


def requester():
    inbound, _, (sid,) = subscribed(1)
    inbound.set_reply_route(b"_INBOX.me.", sid)
    return inbound, sid


def reply(sid, token, payload=b"", *, prefix=b"_INBOX.me."):
    return message(prefix + b"%s" % str(token).encode(), sid, payload)


def test_a_reply_reaches_the_request_with_its_token():
    inbound, sid = requester()
    boxes = {inbound.add_reply(box): box for box in [Mailbox() for _ in range(10)]}
    assert len(boxes) == 10
    for token in reversed(boxes):
        inbound.feed(reply(sid, inbound.reply_token(token), b"%d" % token))
    for token, box in boxes.items():
        assert drained(box) == [b"%d" % token]
    assert set(inbound.pending_replies()) == set(boxes.values())


def test_a_late_reply_reaches_no_other_request():
    inbound, sid = requester()
    old = inbound.add_reply(Mailbox())
    inbound.remove_reply(old)
    inbound.remove_reply(old)
    box = Mailbox()
    new = inbound.add_reply(box)
    assert new != old
    inbound.feed(reply(sid, inbound.reply_token(old), b"late"))
    assert box.received == 0
    assert inbound.unmatched == 1
    inbound.feed(reply(sid, inbound.reply_token(new), b"mine"))
    assert drained(box) == [b"mine"]


def test_random_late_replies_only_ever_reach_their_own_request():
    inbound, sid = requester()
    dice = random.Random(7)
    live: dict[int, Mailbox] = {}
    dead: list[int] = []
    for _ in range(3000):
        action = dice.random()
        if action < 0.4 or not live:
            box = Mailbox()
            live[inbound.add_reply(box)] = box
        elif action < 0.7:
            token = dice.choice(list(live))
            inbound.remove_reply(token)
            box = live.pop(token)
            assert set(drained(box)) <= {b"%d" % token}
            dead.append(token)
        else:
            token = dice.choice([*live, *dead[-50:]])
            inbound.feed(reply(sid, inbound.reply_token(token), b"%d" % token))
    assert not set(live) & set(dead)
    assert len(set(dead)) == len(dead)
    for token, box in live.items():
        assert set(drained(box)) <= {b"%d" % token}


@pytest.mark.parametrize("more", ["", "-", "-7", "-any.thing"])
def test_a_token_may_be_followed_by_a_mark_of_its_owner(more):
    inbound, sid = requester()
    box = Mailbox()
    token = inbound.reply_token(inbound.add_reply(box))
    inbound.feed(reply(sid, token + more, b"x"))
    assert drained(box) == [b"x"]


@pytest.mark.parametrize(
    "token", ["", "x", "1", "1x", "1.2", " ", "-1", "0", "9" * 20, "1" * 40, "+1"]
)
def test_a_reply_with_another_token_reaches_no_request(token):
    inbound, sid = requester()
    box = Mailbox()
    assert inbound.add_reply(box) == 1
    if token.strip():
        inbound.feed(reply(sid, token))
    else:
        inbound.feed(message(b"_INBOX.me.", sid))
    assert box.received == 0
    assert inbound.unmatched == 1


def test_an_answer_counts_only_from_the_responder_that_was_shown_the_token():
    """Numbers can be counted up; what follows them cannot be made from other tokens."""
    inbound, sid = requester()
    seen = [inbound.reply_token(inbound.add_reply(Mailbox())) for _ in range(3)]
    box = Mailbox()
    number = inbound.add_reply(box)
    token = inbound.reply_token(number)
    assert re.fullmatch(rf"{number}_[0-9a-f]{{16}}", token)
    assert len({text.partition("_")[2] for text in [*seen, token]}) == 4
    another, _ = requester()
    digits = token.partition("_")[2]
    changed = [
        digits[:i] + ("1" if c == "0" else "0") + digits[i + 1 :] for i, c in enumerate(digits)
    ]
    tails = ["", "-1", "_", "_" + digits[:-1], "_" + digits + "0", "_" + digits.upper() + "x"]
    tails += [text[text.index("_") :] for text in seen] + ["_" + digits for digits in changed]
    for forged in [f"{number}{tail}" for tail in tails] + [another.reply_token(number)]:
        inbound.feed(reply(sid, forged, b"forged"))
    assert (box.received, inbound.unmatched) == (0, len(tails) + 1)
    inbound.feed(reply(sid, token, b"asked for"))
    assert drained(box) == [b"asked for"]


def test_a_reply_needs_the_whole_prefix_and_its_own_subscription():
    inbound, sid = requester()
    other, plain = Mailbox(), Mailbox()
    token, plain_sid = inbound.reply_token(inbound.add_reply(other)), inbound.add(plain)
    inbound.feed(reply(sid, token, prefix=b"_INBOX.you."))
    inbound.feed(message(b"_INBOX.me", sid))
    inbound.feed(reply(99, token))
    assert other.received == 0
    assert inbound.unmatched == 3
    inbound.feed(reply(plain_sid, token, b"ordinary"))
    assert drained(plain) == [b"ordinary"]


# -- events --------------------------------------------------------------------------------------


def test_events_come_in_order_and_messages_between_them_are_delivered():
    inbound, box = receiver(limit_messages=2)
    events = inbound.feed(
        b"INFO {} \r\n+OK\r\nPONG\r\n"
        + message(payload=b"0")
        + b"-ERR 'x'\r\n"
        + message(payload=b"1") * 3
        + b"PONG\r\n"
    )
    assert events == [
        (EVENT_INFO, b"{}"),
        (EVENT_PONG, None),
        (EVENT_ERR, b"'x'"),
        (EVENT_SLOW, 1),
        (EVENT_PONG, None),
    ]
    assert drained(box) == [b"0", b"1"]


def test_a_ping_is_answered_without_a_call_of_the_user():
    outbound = Outbound()
    inbound = Inbound(outbound)
    assert inbound.feed(b"PING\r\nPING\r\n") == []
    assert outbound.peek() == b"PONG\r\nPONG\r\n"


def test_a_ping_after_close_is_harmless():
    outbound = Outbound()
    inbound = Inbound(outbound)
    outbound.close()
    assert inbound.feed(b"PING\r\n") == []
    assert outbound.peek() == b""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HELLO\r\n", "unknown verb"),
        (b"MSG a 1\r\n", "wrong arguments"),
        (b"MSG a 1 -1\r\n", "impossible size"),
        (b"PING\n", "CRLF"),
        (b"MSG a 1 1\r\nxy\r\n", "payload not followed"),
    ],
)
def test_a_broken_stream_says_what_is_wrong_and_stays_broken_until_reset(data, text):
    inbound, box = receiver()
    (event,) = inbound.feed(data)
    assert event[0] == EVENT_BAD
    assert text in event[1]
    assert inbound.feed(b"PONG\r\n")[0][0] == EVENT_BAD
    inbound.reset(1 << 20)
    assert fill(inbound, b"fine") == []
    assert drained(box) == [b"fine"]


def test_reset_forgets_a_half_received_frame_and_keeps_the_routes():
    inbound, box = receiver()
    assert inbound.feed(b"MSG a 1 100\r\nhalf") == []
    inbound.reset(1 << 20)
    fill(inbound, b"x")
    assert drained(box) == [b"x"]


def test_reset_sets_the_largest_size():
    inbound, box = receiver()
    inbound.reset(10)
    assert inbound.feed(message(payload=b"x" * 10)) == []
    assert inbound.feed(message(payload=b"x" * 11))[0][0] == EVENT_BAD
    assert box.received == 1


# -- from a socket -------------------------------------------------------------------------------


def test_pump_delivers_and_returns_at_the_next_event():
    with pair() as (ours, theirs):
        inbound, box = receiver()
        reader = Thread(inbound.pump, ours.fileno())
        theirs.sendall(message(payload=b"0"))
        assert box.get(30).data == b"0"
        theirs.sendall(message(payload=b"1") + b"PONG\r\n" + message(payload=b"2"))
        assert reader.finish() == (EVENT_PONG, None)
        assert box.get(30).data == b"1"
        # What came behind the event is still there.
        reader = Thread(inbound.pump, ours.fileno())
        assert box.get(30).data == b"2"
        theirs.close()
        assert reader.finish() == (EVENT_EOF, 0)


def test_pump_takes_frames_larger_than_one_read():
    with pair() as (ours, theirs):
        inbound, box = receiver()
        reader = Thread(inbound.pump, ours.fileno())
        large = bytes(range(256)) * 8192  # 2 MiB
        theirs.sendall(message(payload=large) + message(payload=b"after"))
        assert box.get(30).data == large
        assert box.get(30).data == b"after"
        theirs.close()
        assert reader.finish() == (EVENT_EOF, 0)


def test_a_message_of_medium_size_behind_a_large_one_is_not_received_in_little_pieces():
    with pair() as (ours, theirs):
        inbound, box = receiver()
        large, medium = b"l" * 300_000, b"m" * 60_000
        writer = Thread(
            theirs.sendall, message(payload=large) + message(payload=medium) + b"PONG\r\n"
        )
        assert inbound.pump(ours.fileno()) == (EVENT_PONG, None)
        writer.finish()
        assert drained(box) == [large, medium]
        assert inbound.reads < 60  # of what the writer put in; 512 bytes each would be 117


def test_pump_ends_when_the_socket_is_shut_down_from_outside():
    with pair() as (ours, _):
        inbound, _box = receiver()
        reader = Thread(inbound.pump, ours.fileno())
        ours.shutdown(2)
        assert reader.finish() == (EVENT_EOF, 0)


def test_pump_reports_the_error_of_the_socket():
    inbound, _ = receiver()
    kind, error = inbound.pump(-1)
    assert kind == EVENT_EOF
    assert error != 0


def test_pump_answers_pings_through_the_writer():
    with pair() as (ours, theirs):
        outbound = Outbound()
        inbound = Inbound(outbound)
        outbound.attach(ours.fileno(), b"", 1 << 20)
        writer = Thread(outbound.pump)
        reader = Thread(inbound.pump, ours.fileno())
        for _ in range(100):
            theirs.sendall(b"PING\r\n")
            assert theirs.recv(100) == b"PONG\r\n"
        theirs.close()
        assert reader.finish()[0] == EVENT_EOF
        outbound.close()
        writer.finish()


class Filter:
    """Decodes nothing, and has no memory for the second piece."""

    owes = more = ended = False

    def encode(self, data: bytes) -> bytes:
        return data

    def decode(self, data):
        yield data[:5]
        raise MemoryError


def test_decoded_bytes_without_memory_for_them_end_the_link():
    """What follows would be read out of step."""
    inbound, box = receiver()
    with pair() as (ours, theirs):
        theirs.sendall(message(payload=b"x"))
        kind, why = inbound.pump(ours.fileno(), Filter())
    assert (kind, why) == (EVENT_BAD, "more data than there is memory for")
    assert box.received == 0
