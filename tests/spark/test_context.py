"""Option ``context``: what the ``nats`` command keeps is enough for sources, sinks and helpers."""

from __future__ import annotations

import json

import pytest

from jetsync.jetstream.access import api_of
from jetsync.server import NatsServer
from jetsync.spark import connection
from jetsync.spark.connection import connect_options, jetstream, link_of
from jetsync.spark.delivery import by_consumer
from jetsync.spark.errors import SparkOptionError
from jetsync.spark.read_options import ReadOptions

SECRET = "open sesame"


@pytest.fixture
def guarded(tmp_path):
    """A server that asks for a password, and the path of the context that has it."""
    users = {"authorization": {"user": "ali", "password": SECRET}}
    with NatsServer(store_dir=tmp_path / "store", config=users) as server:
        path = tmp_path / "cave.json"
        path.write_text(json.dumps({"url": server.url, "user": "ali", "password": SECRET}))
        yield server, str(path)


def test_a_context_serves_the_source_and_the_sink(spark, guarded):
    _, path = guarded
    with connection({"context": path}) as nc:
        js = nc.jetstream()
        js.create_stream(name="CAVE", subjects=["cave.>"])
    frame = spark.range(20).selectExpr("concat('cave.', id % 3) subject", "string(id) data")
    frame.write.format("jetstream").option("context", path).mode("append").save()
    options = {"context": path, "stream": "CAVE", "readMethod": "consumer"}
    read = spark.read.format("jetstream").options(**options).load()
    assert sorted(int(row.data) for row in read.collect()) == list(range(20))
    assert SECRET not in read._jdf.queryExecution().toString()
    # The range's consumer was removed, by a request under the context's API prefix.
    assert list(js.stream("CAVE").consumers()) == []


def test_options_beside_a_context_win_and_its_api_prefix_counts(tmp_path):
    path = tmp_path / "far.json"
    fields = {"url": "nats://far:4222", "user": "ali", "password": SECRET}
    path.write_text(json.dumps({**fields, "jetstream_domain": "hub"}))
    made = connect_options(link_of({"context": str(path)}))
    assert (made.servers, made.user, made.jetstream_domain) == ("nats://far:4222", "ali", "hub")
    assert SECRET not in repr(made)
    near = connect_options(link_of({"context": str(path), "servers": "nats://near:4222"}))
    assert near.servers == ("nats://near:4222",)
    other = connect_options(link_of({"context": str(path), "token": "t"}))
    assert (other.user, other.password, other.token) == (None, None, other.token)


def test_a_consumer_of_a_domain_that_a_context_names_is_removed(tmp_path):
    """The request to remove it goes to the domain, too."""
    domain = {"jetstream": {"domain": "hub"}}
    with NatsServer(store_dir=tmp_path / "store", config=domain) as server:
        path = tmp_path / "hub.json"
        path.write_text(json.dumps({"url": server.url, "jetstream_domain": "hub"}))
        options = ReadOptions.parse({"context": str(path), "stream": "HUB"}, streaming=False)
        js = jetstream(options.link)
        assert api_of(js).prefix == "$JS.hub.API"
        stream = js.create_stream(name="HUB", subjects=["hub"])
        js.publish("hub", b"1")
        stream.info()
        batches = by_consumer(stream, options, 1, 1, alone=False, headers_only=False)
        assert [len(batch) for batch in batches] == [1]
        with connection({"context": str(path)}) as nc:
            nc.flush()
        assert list(js.stream("HUB").consumers()) == []


@pytest.mark.parametrize("name", ["/no/such/context.json", "no-such-context"])
def test_a_context_that_is_not_there_is_told_while_planning(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(SparkOptionError, match=r"option .context.: .*no") as caught:
        link_of({"context": name})
    assert caught.value.code == "JETSYNC_INVALID_OPTION"
