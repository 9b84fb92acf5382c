"""A client at a leaf node works in the hub's domain, while the link between them comes and goes."""

from __future__ import annotations

import random
from functools import partial

import jetsync
from tests.harness.domains import parted_domains
from tests.harness.soak import scaled
from tests.harness.traffic import Traffic
from tests.harness.waiting import later

CUTS = scaled(1, 20)
LONGEST = scaled(0.6, 8.0)
WRITES = 5
# A pull whose client is behind a cut link is served all the same: what it got comes again after
# this. It is longer than any acknowledgement takes.
ACK_WAIT = scaled(10.0, 30.0)


def test_nothing_is_lost_or_doubled_over_a_leaf_link_that_comes_and_goes(record_figure):
    rng = random.Random(11)
    with parted_domains() as (there, here, link):
        owner = there.jetstream(timeout=30)
        owner.create_stream(name="S", subjects=["s"], storage="memory")
        js = here.jetstream(domain="hub", timeout=30)
        bucket = js.create_key_value(bucket="B", storage="memory", history=64)
        with Traffic(js, "S", "s", owner=owner, ack_wait=ACK_WAIT) as traffic:
            traffic.goes_on()
            for cut in range(CUTS):
                link.stop()
                later(rng.uniform(LONGEST / 2, LONGEST))  # the outage itself
                link.restart()
                for n in range(WRITES):
                    done = traffic.timed("put", 30, partial(bucket.put, f"k{n}", b"%d" % cut))
                    assert not isinstance(done, jetsync.Error), done
                traffic.goes_on()
        kept = {f"k{n}": bucket.get(f"k{n}").value for n in range(WRITES)}
        assert kept == {f"k{n}": b"%d" % (CUTS - 1) for n in range(WRITES)}
        record_figure("G39 leaf link: cuts", CUTS)
        traffic.record(record_figure, "G39 leaf link")
