"""protocol section 4, Deep Dive "Acknowledgement Models": what each payload does on the server.

Payloads are published raw here, so that the table is about the server; the last tests compare what
the methods of a message send with it.
"""

from __future__ import annotations

import time

import pytest

import jetsync

LONG = 20.0


@pytest.fixture
def stream(nc):
    js = nc.jetstream()
    made = js.create_stream(name="ACKS", subjects=["ACKS.>"], storage="memory")
    js.publish_many(("ACKS.a", b"%d" % n) for n in range(10))
    yield made
    made.delete()


@pytest.fixture
def consumer(stream):
    return stream.create_consumer(durable_name="c", ack_wait=60)


def say(nc, msg, payload):
    """Answer raw and wait for the server's confirmation, an empty message."""
    answer = nc.request(msg.reply, payload, timeout=LONG)
    assert (answer.data, answer.raw_headers) == (b"", b"")


@pytest.mark.parametrize("payload", [b"", b"+ACK", b"+OK"])
def test_positive(nc, consumer, payload):
    msg = consumer.next(timeout=LONG)
    say(nc, msg, payload)
    say(nc, msg, payload)  # repeating answers again
    assert consumer.info().ack_floor.stream_seq == 1


@pytest.mark.parametrize(
    ("payload", "least"),
    [(b"-NAK", 0), (b'-NAK {"delay":400000000}', 0.3), (b"-NAK 400ms", 0.3), (b"-NAK junk", 0)],
)
def test_negative(nc, consumer, payload, least):
    msg = consumer.next(timeout=LONG)
    begun = time.monotonic()
    say(nc, msg, payload)
    with consumer.messages(max_messages=20) as messages:
        again = next(m for m in messages if m.metadata.stream_seq == 1)
    assert again.metadata.num_delivered == 2
    assert time.monotonic() - begun >= least


def test_termination(nc, consumer):
    say(nc, consumer.next(timeout=LONG), b"+TERM")
    say(nc, consumer.next(timeout=LONG), b"+TERM a reason")
    assert consumer.info().ack_floor.stream_seq == 2


@pytest.mark.parametrize("payload", [b"+ACK ", b"+BOGUS", b"+WPI"])
def test_what_does_not_end_it(nc, consumer, payload):
    """Bytes are compared exactly: anything else is answered, and does nothing."""
    say(nc, consumer.next(timeout=LONG), payload)
    assert consumer.info().num_ack_pending == 1


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"+NXT", 1),
        (b"+NXT 5", 5),
        (b'+NXT {"batch":3,"no_wait":true}', 3),
        (b'+NXT {"batch":2,"expires":5000000000}', 2),
    ],
)
def test_next(nc, consumer, payload, count):
    """It acknowledges and pulls; the messages come to the reply, a confirmation does not."""
    msg = consumer.fetch(1, timeout=LONG)[0]
    inbox = nc.new_inbox()
    with nc.subscribe(inbox) as answers:
        nc.publish(msg.reply, payload, reply=inbox)
        came = [answers.next(timeout=LONG) for _ in range(count)]
    assert [jetsync.parse_ack_subject(m.reply).stream_seq for m in came] == list(
        range(2, 2 + count)
    )
    assert {m.subject for m in came} == {"ACKS.a"}
    assert consumer.info().ack_floor.stream_seq == 1


def test_the_reply_goes_where_the_next_message_goes(nc, consumer):
    """ack_next: the pull options are behind ``+NXT``, what comes is returned."""
    seen = []
    with nc.subscribe("$JS.ACK.>") as acks:
        nc.flush()
        batch = consumer.next(timeout=LONG).ack_next(4, timeout=LONG)
        seen.append(acks.next(timeout=LONG).data)
    assert seen[0].startswith(b'+NXT {"batch":4,"expires":')
    assert len(batch) == 4


def test_what_the_methods_send(nc, consumer):
    with nc.subscribe("$JS.ACK.>") as acks:
        nc.flush()
        batch = consumer.fetch(7, timeout=LONG)
        batch[0].in_progress()
        batch[0].ack()
        batch[1].nak()
        batch[2].nak(delay=1.5)
        batch[3].term()
        batch[4].term("a reason")
        batch[5].ack_sync(timeout=LONG)
        nc.flush()
        sent = [acks.next(timeout=LONG) for _ in range(7)]
    assert [msg.data for msg in sent] == [
        b"+WPI",
        b"+ACK",
        b"-NAK",
        b'-NAK {"delay": 1500000000}',
        b"+TERM",
        b"+TERM a reason",
        b"+ACK",
    ]
    # Published to the subject as it came; only ack_sync asks for an answer.
    assert sent[1].subject == batch[0].reply
    assert [msg.reply is not None for msg in sent] == [False] * 6 + [True]


def test_a_future_sequence_is_met_with_silence(nc, consumer):
    msg = consumer.next(timeout=LONG)
    tokens = msg.reply.split(".")
    tokens[5:7] = ["9", "9"]
    with pytest.raises(jetsync.TimeoutError):
        nc.request(".".join(tokens), b"+ACK", timeout=0.3)


def test_no_server_takes_acknowledgements_of_a_consumer_without_or_gone(nc, stream, consumer):
    gone = consumer.next(timeout=LONG)
    consumer.delete()
    without = stream.create_consumer(durable_name="n", ack_policy="none").next(timeout=LONG)
    for msg in (gone, without):
        with pytest.raises(jetsync.NoRespondersError):
            nc.request(msg.reply, b"+ACK", timeout=LONG)


def test_ack_wait_ends_in_redelivery_and_max_deliver_ends_that(nc, stream):
    consumer = stream.create_consumer(durable_name="q", ack_wait=0.3, max_deliver=2)
    with nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ACKS.q") as advisories:
        nc.flush()
        assert consumer.next(timeout=LONG).metadata.num_delivered == 1
        with consumer.messages(max_messages=20) as messages:
            again = next(m for m in messages if m.metadata.stream_seq == 1)
            assert again.metadata.num_delivered == 2
            assert advisories.next(timeout=LONG).data
