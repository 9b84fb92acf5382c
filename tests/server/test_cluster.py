"""A cluster comes up whole, loses nodes and gets them back as its docstrings say."""

from __future__ import annotations

import pytest

from jetsync.errors import ConfigError, ServerUnavailableError
from jetsync.server import NatsCluster
from tests.harness.raw import RawClient
from tests.server.processes import children, scratch_of


def create_stream(url, name):
    with RawClient(url) as raw:
        raw.handshake()
        config = {"name": name, "subjects": [name], "num_replicas": 3}
        return raw.api(f"STREAM.CREATE.{name}", **config)["cluster"]["leader"]


def stored(url, name):
    with RawClient(url) as raw:
        raw.handshake()
        return raw.api(f"STREAM.INFO.{name}")["state"]["messages"]


def delete_stream(url, name):
    with RawClient(url) as raw:
        raw.handshake()
        raw.api(f"STREAM.DELETE.{name}")


def test_every_node_can_create_a_replicated_stream_at_once(cluster):
    assert len(cluster.urls) == len(set(cluster.urls)) == 3
    assert cluster.url.split(",") == cluster.urls
    for number, url in enumerate(cluster.urls):
        assert cluster.server(create_stream(url, f"ONCE{number}")).is_running
        delete_stream(url, f"ONCE{number}")


def test_the_leader_is_one_of_its_nodes(cluster):
    assert cluster.leader() in cluster.servers
    assert cluster.wait_for_leader(0) is cluster.leader()
    with pytest.raises(ConfigError, match="no node"):
        cluster.server("unknown")


def test_a_node_that_is_stopped_comes_back_with_its_files(fresh_cluster):
    cluster = fresh_cluster
    create_stream(cluster.urls[0], "BACK")
    with RawClient(cluster.urls[0]) as raw:
        raw.handshake()
        raw.request("BACK", b"x")
    node = cluster.servers[1]
    folder = scratch_of(node)
    node.stop()
    assert not node.is_running
    assert folder.exists()
    cluster.start()
    assert scratch_of(node) == folder
    assert stored(node.url, "BACK") == 1


def test_after_a_leader_was_killed_another_one_is_found(fresh_cluster):
    first = fresh_cluster.wait_for_leader()
    first.kill()
    assert fresh_cluster.leader() is not first
    second = fresh_cluster.wait_for_leader()
    assert second is not first
    assert second.is_running


def test_without_a_majority_there_is_no_leader(fresh_cluster):
    for node in fresh_cluster.servers[:2]:
        node.pause()
    with pytest.raises(ServerUnavailableError, match="no JetStream leader"):
        fresh_cluster.wait_for_leader(0)


def test_stop_leaves_no_process_and_keeps_only_a_given_store(tmp_path):
    before = children()
    with NatsCluster(2, store_dir=tmp_path, name="pair", config={"max_payload": 999}) as cluster:
        folders = [tmp_path / "1", tmp_path / "2"]
        assert [node.store_dir for node in cluster.servers] == folders
        with RawClient(cluster.urls[1]) as raw:
            info = raw.handshake()
        assert (info["cluster"], info["server_name"], info["max_payload"]) == (
            "pair",
            "pair-2",
            999,
        )
    cluster.stop()
    assert children() == before
    assert all(folder.exists() for folder in folders)


def test_without_jetstream_the_nodes_know_each_other_and_have_no_leader():
    with NatsCluster(2, jetstream=False) as cluster:
        assert cluster.leader() is None
        for node, other in (cluster.servers, cluster.servers[::-1]):
            routes = node.monitor("routez")["routes"]
            assert {route["remote_name"] for route in routes} == {other.name}


def test_the_whole_cluster_can_be_disturbed_at_once():
    with NatsCluster(2, jetstream=False) as cluster:
        pids = [node.pid for node in cluster.servers]
        cluster.restart()
        assert all(node.pid not in pids for node in cluster.servers)
        cluster.pause()
        cluster.resume()
        cluster.reload({"max_payload": 777})
        with RawClient(cluster.urls[1]) as raw:
            assert raw.handshake()["max_payload"] == 777
        cluster.kill()
        assert not any(node.is_running for node in cluster.servers)
        cluster.start()
        cluster.lame_duck()


def test_a_failed_start_leaves_nothing_running():
    before = children()
    with pytest.raises(ServerUnavailableError, match="unknown field"), NatsCluster(config="foo: 1"):
        pass
    assert children() == before


@pytest.mark.parametrize("options", [{"size": 1}, {"size": "3"}, {"name": "a b"}])
def test_a_wrong_argument_is_named(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        NatsCluster(**options)
