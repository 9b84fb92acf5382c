"""Streams in a cluster: who leads, who follows, moving a leader, taking a server out."""

from __future__ import annotations

import pytest

import jetsync
from jetsync import Placement
from tests.harness.waiting import wait_until


@pytest.fixture
def js(cluster):
    with jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=20)
        try:  # a lookup is asked again until it is answered; servers lose other requests at times
            js.stream("ALIVE")
        except jetsync.StreamNotFoundError:
            js.create_stream(name="ALIVE", subjects=["alive"])
        yield js


@pytest.fixture
def three(js):
    stream = js.create_stream(name="THREE", subjects=["three.>"], num_replicas=3, storage="memory")
    yield stream
    stream.delete()


def settled(look):
    """The cluster part of an info, once there is a leader and all replicas are current."""

    def found():
        try:
            cluster = look(timeout=5).cluster
        except (jetsync.TimeoutError, jetsync.JetStreamUnavailableError):
            return None  # there is no leader at the moment
        done = cluster.leader and len(cluster.replicas) == 2
        return cluster if done and all(peer.current for peer in cluster.replicas) else None

    return wait_until(found, timeout=60)


def test_the_info_names_all_three_servers(cluster, js, three):
    js.publish("three.a")
    about = settled(three.info)
    names = {server.name for server in cluster.servers}
    assert {about.leader, *(peer.name for peer in about.replicas)} == names
    assert about.name == "jetsync"
    assert about.raft_group
    assert about.leader_since is not None
    for peer in about.replicas:
        assert (peer.current, peer.offline, peer.lag) == (True, False, 0)
        assert peer.peer
        assert peer.active is not None


def test_another_server_leads_after_a_step_down(js, three):
    before = settled(three.info).leader
    js.step_down_stream_leader("THREE")
    after = wait_until(
        lambda: (leader := settled(three.info).leader) != before and leader, timeout=30
    )
    js.step_down_stream_leader("THREE", placement=Placement(preferred=before))
    wait_until(lambda: settled(three.info).leader == before != after, timeout=30)


def test_a_consumer_has_a_leader_of_its_own(js, three):
    consumer = three.create_consumer(durable_name="c")
    before = settled(consumer.info).leader
    others = {peer.name for peer in settled(consumer.info).replicas}
    wanted = min(others)
    js.step_down_consumer_leader("THREE", "c", placement=Placement(preferred=wanted))
    wait_until(lambda: settled(consumer.info).leader == wanted != before, timeout=30)


def test_a_mirror_is_an_alternate(js, three):
    mirror = js.create_stream(name="COPY", mirror={"name": "THREE"})

    def both() -> list[jetsync.StreamAlternate]:
        alternates = three.info().alternates
        return alternates if len(alternates) == 2 else []

    try:
        found = wait_until(
            both,
            timeout=30,
        )
        assert {(one.name, one.cluster) for one in found} == {
            ("THREE", "jetsync"),
            ("COPY", "jetsync"),
        }
        js.publish("three.a")
        wait_until(lambda: mirror.info().state.messages == 1, timeout=30)
        about = mirror.info().mirror
        assert (about.name, about.lag, about.error) == ("THREE", 0, None)
    finally:
        mirror.delete()


def test_a_stream_moves_when_a_peer_is_removed(js):
    two = js.create_stream(name="TWO", subjects=["two"], num_replicas=2)
    try:

        def members(without: str = "") -> set[str]:
            """Both members, or nothing while there are not two of them."""
            about = two.info().cluster
            names = {about.leader, *(peer.name for peer in about.replicas)}
            return names if about.leader and len(names) == 2 and without not in names else set()

        before = wait_until(members, timeout=30)
        js.publish("two", b"kept")
        follower = two.info().cluster.replicas[0].name
        js.remove_stream_peer("TWO", follower)
        after = wait_until(lambda: members(without=follower), timeout=30)
        assert len(before & after) == 1
        assert two.get_msg(1).data == b"kept"
    finally:
        two.delete()


def test_a_peer_that_is_no_member_is_refused(js, three):
    settled(three.info)
    with pytest.raises(jetsync.ClusterError):
        js.remove_stream_peer("THREE", "unknown")


def stream_leader(stream):
    return lambda: stream.info().cluster.leader


def test_listings_name_what_no_server_answers_for(fresh_cluster):
    with jetsync.connect(fresh_cluster.urls) as nc:
        js = nc.jetstream(timeout=20)
        leads = {}
        for n in range(3):
            name = f"ON{n}"
            stream = js.create_stream(name=name)
            leads[name] = wait_until(stream_leader(stream), timeout=30)
        js.create_stream(name="ALL", num_replicas=3)
        victim = next(server for server in fresh_cluster.servers if server.name == leads["ON0"])
        gone = {name for name, leader in leads.items() if leader == victim.name}
        victim.kill()
        js.stream("ALL", timeout=60)  # answers as soon as it has a leader again
        told: list[str] = []
        with pytest.raises(jetsync.JetStreamUnavailableError) as caught:
            told.extend(info.config.name for info in js.streams(timeout=60))
        assert set(told) == {"ALL", *leads} - gone
        assert all(name in str(caught.value) for name in gone)
        assert set(js.stream_names(timeout=60)) == {"ALL", *leads}
