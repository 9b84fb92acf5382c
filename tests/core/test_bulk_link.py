"""Bulk publishing over a link, against a server that answers out of order and sometimes twice."""

from __future__ import annotations

import random

from jetsync._core.outbound import Outbound
from tests.core.bench import Bench
from tests.core.kit import Thread, cut_frames, message, pair


def serve(sock, sid, count, seed):
    """Answer `count` messages, in another order than they came and some of them twice."""
    dice = random.Random(seed)
    data, seq = b"", 0
    waiting: list[bytes] = []
    payloads: list[bytes] = []
    while len(payloads) < count:
        data += sock.recv(1 << 16)
        frames, data = cut_frames(data)
        waiting += [frame.reply for frame in frames]
        payloads += [frame.payload for frame in frames]
        dice.shuffle(waiting)
        out = b""
        for reply in waiting:
            seq += 1
            out += message(reply, sid, b'{"stream":"S","seq":%d}' % seq) * dice.choice((1, 1, 2))
        sock.sendall(out)
        waiting = []
    return payloads


def test_thousands_of_messages_over_a_link_are_all_confirmed_once_and_arrive_in_order():
    count = 20_000
    rows = [("s", b"%d" % i) for i in range(count)]
    with pair() as (ours, theirs):
        outbound = Outbound()
        bench = Bench(outbound=outbound, capacity=1500)
        outbound.attach(ours.fileno(), b"", 1 << 20)
        threads = [Thread(outbound.pump), Thread(bench.inbound.pump, ours.fileno())]
        server = Thread(serve, theirs, bench.sid, count, 5)
        window, start = bench.window, 0
        while start < count or window.in_flight:
            if start < count and not window.full:
                start += window.add_rows(rows, start)
                window.collect(0)
            else:
                assert window.collect(0.5) == []
                assert server.error is None
        assert server.finish() == [data for _, data in rows]
        assert (window.stored, window.duplicates, window.rejected) == (count, 0, [])
        assert (window.first_seq, window.last_seq) == (1, count)
        outbound.close()
        theirs.close()
        for thread in threads:
            thread.finish()
