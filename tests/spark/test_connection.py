"""Which trouble is waited for, and which is told at once."""

from __future__ import annotations

import os
import pickle
import sys

import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.spark.connection import connect_options, connection, with_patience
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.options import LinkOptions, Values
from jetsync.spark.positions import read_head
from tests.harness.waiting import wait_until
from tests.spark.streaming import to_its_end


def link(server, **options):
    given = {"servers": server.url, "serverUnavailableTimeout": "30s", **options}
    return LinkOptions.from_values(Values(given, (), "tests"))


def code_of(chosen, action=lambda js: read_head(js, "NONE")):
    with pytest.raises(SparkSourceError) as caught:
        with_patience(chosen, "looking", action)
    return caught.value.code


def test_a_refused_login_is_told_at_once():
    with NatsServer(config={"authorization": {"token": "right"}}) as server:
        assert code_of(link(server, token="wrong")) == "JETSYNC_ACCESS_DENIED"
        assert code_of(link(server)) == "JETSYNC_ACCESS_DENIED"
        assert code_of(link(server, token="right")) == "JETSYNC_STREAM_NOT_FOUND"


def test_a_secret_may_come_from_the_environment_of_each_process(monkeypatch):
    with NatsServer(config={"authorization": {"user": "u", "password": "p"}}) as server:
        chosen = pickle.loads(pickle.dumps(link(server, user="u", passwordEnv="TEST_PASSWORD")))
        with pytest.raises(SparkOptionError, match="TEST_PASSWORD") as caught:
            with_patience(chosen, "looking", lambda js: read_head(js, "NONE"))
        assert caught.value.code == "JETSYNC_MISSING_OPTION"
        monkeypatch.setenv("TEST_PASSWORD", "p")
        assert code_of(chosen) == "JETSYNC_STREAM_NOT_FOUND"


def test_tls_with_files_of_each_process(certificates):
    config = certificates.server_config(ca_file=str(certificates.ca), verify=True)
    with NatsServer(config=config) as server:
        files = {"tlsCa": certificates.ca, "tlsCert": certificates.client}
        options = {name: str(path) for name, path in files.items()}
        options["tlsKey"] = str(certificates.client_key)
        chosen = pickle.loads(pickle.dumps(link(server, **options)))
        assert code_of(chosen) == "JETSYNC_STREAM_NOT_FOUND"

        with pytest.raises(SparkOptionError) as caught:
            connect_options(link(server, **{**options, "tlsCa": "/nowhere/ca.pem"}))
        assert caught.value.code == "JETSYNC_FILE_NOT_FOUND"


def test_a_missing_permission_is_told_at_once():
    allowed = {"publish": ["$JS.API.STREAM.INFO.>"], "subscribe": ["_INBOX.>"]}
    user = {"user": "u", "password": "p", "permissions": allowed}
    with NatsServer(config={"authorization": {"users": [user]}}) as server:
        chosen = link(server, user="u", password="p")
        code = code_of(chosen, lambda js: js.create_consumer("S", name="c"))
        assert code == "JETSYNC_ACCESS_DENIED"


def test_a_server_without_jetstream_is_waited_for_and_the_text_says_what_is_wrong():
    with NatsServer(jetstream=False) as server:
        chosen = link(server, serverUnavailableTimeout="300ms")
        with pytest.raises(SparkSourceError, match="JetStream is not enabled") as caught:
            with_patience(chosen, "looking", lambda js: read_head(js, "NONE"))
        assert caught.value.code == "JETSYNC_SERVER_UNAVAILABLE"


def all_names(server):
    """The name of each connection to a server."""
    return [one.get("name") for one in server.monitor("connz", 10)["connections"]]


def names(server):
    """The names of all connections to a server."""
    return set(all_names(server))


def test_connections_of_tasks_and_of_the_driver_have_the_name_of_the_application(
    spark, fresh_server
):
    """A process that Spark uses for planning does not know it, and is still recognised."""
    with jetsync.connect(fresh_server.url, name="the test") as nc:
        nc.jetstream().create_stream(name="S", subjects=["s.>"])
        frame = spark.range(4).selectExpr("'s.x' subject", "string(id) data")
        frame.write.format("jetstream").options(servers=fresh_server.url).mode("append").save()
        known = f"jetsync-spark/{spark.sparkContext.appName}"
        assert known in names(fresh_server) <= {"the test", "jetsync-spark", known}
    with connection({"servers": fresh_server.url}):
        assert known in names(fresh_server)


def test_a_query_opens_no_more_connections_than_the_page_says(spark, fresh_server, tmp_path):
    """It reads and writes, batch after batch, on both slots; a job follows it."""
    slots, queries = 2, 1
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s.>"])
        js.create_stream(name="T", subjects=["t.>"])
        js.publish_many([("s.x", b"%d" % n) for n in range(40)]).raise_for_failed()
        where = {"servers": fresh_server.url, "connectionName": "counted"}
        frame = spark.readStream.format("jetstream").options(
            stream="S", minPartitions=4, maxOffsetsPerTrigger=10, **where
        )
        writer = (
            frame.load()
            .selectExpr("'t.x' subject", "data")
            .writeStream.format("jetstream")
            .options(**where)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
        )
        to_its_end(writer.start)
        spark.range(8).repartition(4).selectExpr("'t.y' subject", "string(id) data").write.format(
            "jetstream"
        ).options(**where).mode("append").save()
        assert js.stream("T").info().state.messages == 48
        # All of them stay for a while.
        assert 0 < all_names(fresh_server).count("counted") <= 2 * slots + queries + 2


def test_a_connection_has_the_name_it_was_given(spark, fresh_server):
    options = {"servers": fresh_server.url, "connectionName": "night job"}
    with connection(options), connection({"servers": fresh_server.url}):
        known = f"jetsync-spark/{spark.sparkContext.appName}"
        assert names(fresh_server) == {"night job", known}


def test_an_exception_of_one_user_leaves_the_connection_to_the_others(server):
    options = {"servers": server.url, "connectionName": "fails"}
    with connection(options) as kept:
        with pytest.raises(ZeroDivisionError), connection(options):
            raise ZeroDivisionError
        assert kept.is_connected
    with connection(options) as again:
        assert again is kept


def test_after_an_exception_the_connection_has_to_answer_first(server, monkeypatch):
    options = {"servers": server.url, "connectionName": "fails"}
    with pytest.raises(ZeroDivisionError), connection(options) as nc:
        raise ZeroDivisionError
    asked: list[object] = []
    flush = type(nc).flush

    def counted(self, *args):
        asked.append(self)
        return flush(self, *args)

    monkeypatch.setattr(type(nc), "flush", counted)
    with connection(options) as again:
        assert again is nc
    with connection(options):
        assert asked == [nc]


def test_rows_that_spark_does_not_want_any_more_are_no_failure(server):
    options = {"servers": server.url, "connectionName": "half read"}

    def rows():
        with connection(options) as nc:
            yield nc
            yield nc

    reading = rows()
    nc = next(reading)
    reading.close()
    assert nc.is_connected


def test_a_forked_process_gets_a_connection_of_its_own(server):
    options = {"servers": server.url, "connectionName": "forked"}
    with connection(options) as nc:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with connection(options) as own:
                    own.flush(10)
                    code = 0 if own is not nc and own.client_id != nc.client_id else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        nc.flush(10)


def test_a_connection_that_rested_and_is_dead_is_dialled_again(fresh_server, monkeypatch):
    options = {"servers": fresh_server.url, "connectionName": "rested"}
    with connection(options) as nc:
        assert nc.is_connected
    module = sys.modules[connect_options.__module__]
    monkeypatch.setattr(module, "_REST", 0.0)
    monkeypatch.setattr(module, "_SIGN_OF_LIFE", 0.3)
    fresh_server.pause()
    try:
        with connection(options) as again:
            assert again is nc
    finally:
        fresh_server.resume()
    wait_until(lambda: nc.stats.reconnects == 1, timeout=20)


def test_equal_options_share_one_connection(server):
    assert connect_options(link(server)) is connect_options(link(server))
    with connection({"servers": server.url}) as one, connection({"servers": server.url}) as two:
        assert one is two
    assert one.is_connected


@pytest.mark.parametrize("servers", ["http://x", "nats://a:99999"])
def test_an_address_that_cannot_be_used_is_an_option_error(servers):
    chosen = LinkOptions.from_values(Values({"servers": servers}, (), "tests"))
    with pytest.raises(SparkOptionError) as caught:
        connect_options(chosen)
    assert caught.value.code == "JETSYNC_INVALID_OPTION"
