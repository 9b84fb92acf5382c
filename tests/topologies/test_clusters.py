"""One cluster that is upgraded, scaled, and configured anew while clients publish and read."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

import jetsync
from jetsync.server import NatsCluster, NatsServer
from tests.harness.soak import SOAKING, scaled
from tests.harness.topologies import leader_of, upgradable_cluster, upgrade
from tests.harness.traffic import PATIENCE, READERS, Traffic
from tests.harness.waiting import wait_until

FEW = ("messages", "ordered")
ROLLS = scaled(1, 2)
SCALINGS = (1, 3) * scaled(1, 5)
KILLS = 5
RELOADS = scaled(2, 50)


def record(record_figure, what, count, traffic):
    record_figure(f"G39 {what}", count)
    traffic.record(record_figure, f"G39 {what}")


def create_stream(js, **fields):
    """Create a stream as soon as there is a place for it: on a busy machine a new cluster elects
    another leader, which takes nodes that it has not heard of for offline."""

    def placed():
        with contextlib.suppress(jetsync.ClusterError):
            return js.create_stream(**fields)

    return wait_until(placed, timeout=60)


@pytest.mark.parametrize("number", range(ROLLS))
def test_a_rolling_upgrade_from_2_10_to_the_newest_loses_nothing(number, tmp_path, record_figure):
    """Node after node ends and comes back newer; what is new can be used at once then."""
    with (
        upgradable_cluster("2.10.25", tmp_path) as cluster,
        jetsync.connect(cluster.urls, reconnect_wait=0.1) as nc,
    ):
        js = nc.jetstream(timeout=PATIENCE)
        create_stream(js, name="U", subjects=["u"], num_replicas=3)
        with pytest.raises(jetsync.ApiLevelRequiredError):
            js.publish("u", b"", ttl=3600)
        with Traffic(js, "U", "u", readers=scaled(FEW, READERS)) as traffic:
            traffic.goes_on()
            upgrade(tmp_path)
            for server in cluster.servers:
                if SOAKING:
                    server.lame_duck()
                    assert server.wait(60)
                    traffic.goes_on()
                else:  # a goodbye takes seconds
                    server.stop()
                server.start()
                cluster.start(timeout=60)
            traffic.goes_on()
        js.update_stream(name="U", subjects=["u"], num_replicas=3, allow_msg_ttl=True)
        assert js.publish("u", b"", ttl=3600).seq
        record(record_figure, f"upgrade from 2.10 of 3 nodes, number {number}", 3, traffic)


def test_replicas_come_and_go_and_leaders_move_while_a_stream_is_in_use(cluster, record_figure):
    with jetsync.connect(cluster.urls) as nc, jetsync.connect(cluster.urls) as other:
        js = nc.jetstream(timeout=PATIENCE)
        fields: dict[str, Any] = {"name": "R", "subjects": ["r"]}
        js.create_stream(**fields, num_replicas=SCALINGS[0])
        try:
            with Traffic(js, "R", "r", readers=scaled(FEW, READERS)) as traffic:
                traffic.goes_on()
                for count in SCALINGS[1:]:
                    js.update_stream(**fields, num_replicas=count)

                    def grown(count=count):
                        traffic.check()
                        info: Any = js.stream("R").info().cluster
                        current = [peer for peer in info.replicas if peer.current]
                        return info.leader and len(current) == len(info.replicas) == count - 1

                    wait_until(grown, timeout=120)
                    if count > 1:
                        before = leader_of(js, "R")
                        with contextlib.suppress(jetsync.TimeoutError):
                            answer = other.request("$JS.API.STREAM.LEADER.STEPDOWN.R", timeout=5)
                            assert "error" not in json.loads(answer.data)
                        seen = (before, None)
                        wait_until(lambda s=seen: leader_of(js, "R") not in s, timeout=60)  # type: ignore[misc]
                    traffic.goes_on()
            record(record_figure, "replicas changed", len(SCALINGS) - 1, traffic)
        finally:
            js.delete_stream("R")


def limits(*, may_publish: bool, connections: int) -> str:
    """The configuration; only the user ``other``, and numbers, differ from one to the next."""
    rule = "" if may_publish else 'publish: {deny: ["free"]}'
    return f"""
        max_connections: {connections}
        authorization {{ users: [
            {{user: app, password: p}}
            {{user: other, password: p, permissions: {{{rule}}}}}
        ] }}
    """


def test_a_configuration_that_is_reloaded_again_and_again_disturbs_those_it_means(record_figure):
    with (
        NatsServer(config=limits(may_publish=True, connections=1000)) as server,
        jetsync.connect(server.url, user="app", password="p") as nc,
        jetsync.connect(server.url, user="other", password="p") as other,
    ):
        js = nc.jetstream(timeout=PATIENCE)
        js.create_stream(name="C", subjects=["c"], storage="memory")
        heard = nc.subscribe("free")
        nc.flush(timeout=PATIENCE)
        with Traffic(js, "C", "c", readers=scaled(FEW, READERS)) as traffic:
            traffic.goes_on()
            for number in range(RELOADS):
                allowed = number % 2 == 1
                server.reload(limits(may_publish=allowed, connections=1000 + number))

                def as_configured(allowed=allowed):
                    try:
                        other.request("free", timeout=0.3)
                    except jetsync.PermissionsError:
                        return not allowed
                    except (jetsync.TimeoutError, jetsync.DisconnectedError):
                        pass
                    return allowed

                wait_until(as_configured, timeout=30)
                traffic.goes_on()
        assert heard.is_active
        record(record_figure, "configurations reloaded", RELOADS, traffic)


@pytest.mark.skipif(
    not SOAKING, reason="make soak; each commit has the kills of test_publish_cluster"
)
def test_servers_that_are_all_killed_at_once_come_back_with_all_they_confirmed(record_figure):
    with NatsCluster(3) as three, jetsync.connect(three.urls, reconnect_wait=0.1) as nc:
        js = nc.jetstream(timeout=PATIENCE)
        stream = create_stream(js, name="K", subjects=["k"], num_replicas=3)
        with Traffic(js, "K", "k", readers=scaled(FEW, READERS)) as traffic:
            for _ in range(KILLS):
                traffic.goes_on()
                three.kill()
                wait_until(lambda: not nc.is_connected, timeout=30)
                three.start(timeout=60)
                for call in (stream.info, js.account_info):
                    found = traffic.timed("a lookup", PATIENCE, call)
                    assert not isinstance(found, jetsync.Error), found
            traffic.goes_on()
        record(record_figure, "whole cluster killed", KILLS, traffic)
