"""Reading Spark's string options, and the ones about the connection."""

from __future__ import annotations

import pickle

import pytest

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.options import LinkOptions, Values, parse_bytes, parse_seconds


def link(**options: str) -> LinkOptions:
    return LinkOptions.from_values(Values(options, (), "tests"))


def code_of(**options: str) -> str | None:
    with pytest.raises(SparkOptionError) as caught:
        link(**options)
    return caught.value.code


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("5s", 5.0), ("15m", 900.0), ("1.5", 1.5), ("2 h", 7200.0), ("1d", 86400.0)],
)
def test_durations_are_read_as_seconds(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "fast", "-1s", "5 parsecs", "nan", "1e3"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "size"), [("4MiB", 4 << 20), ("64k", 65536), ("1000", 1000), ("1 GB", 1 << 30)]
)
def test_sizes_are_read_as_bytes(text, size):
    assert parse_bytes(text) == size


def test_names_do_not_care_about_case_because_spark_lowers_them():
    assert link(connecttimeout="3s", CREDSFILE="").connect_timeout == 3.0


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(SparkOptionError) as caught:
        link(server="nats://a")
    assert str(caught.value) == (
        "[JETSYNC_UNKNOWN_OPTION] option 'server' is not known for tests; did you mean 'servers'?"
    )


def test_an_unknown_option_without_neighbour_gets_no_guess():
    with pytest.raises(SparkOptionError) as caught:
        link(zzzzqqq="1")
    assert "did you mean" not in str(caught.value)


def test_what_spark_adds_by_itself_is_no_unknown_option():
    assert link(path="/x", checkpointlocation="/y", queryname="z").servers


def test_servers_are_a_comma_list_and_default_to_the_environment(monkeypatch):
    monkeypatch.delenv("NATS_URL", raising=False)
    assert link().servers == ("nats://127.0.0.1:4222",)
    assert link(servers="nats://a:1, nats://b:2").servers == ("nats://a:1", "nats://b:2")
    monkeypatch.setenv("NATS_URL", "nats://c:3,nats://d:4")
    assert link().servers == ("nats://c:3", "nats://d:4")
    assert link(servers="nats://e:5").servers == ("nats://e:5",)


def test_url_is_another_name_of_servers():
    assert link(url="nats://a:1, nats://b:2").servers == ("nats://a:1", "nats://b:2")
    assert code_of(url="nats://a:1", servers="nats://b:2") == "JETSYNC_OPTION_CONFLICT"


def test_two_ways_to_log_in_are_refused():
    assert code_of(user="a", password="b", token="c") == "JETSYNC_AUTH_CONFLICT"
    assert code_of(token="c", tokenEnv="C") == "JETSYNC_AUTH_CONFLICT"
    assert code_of(user="a", password="b", passwordEnv="B") == "JETSYNC_AUTH_CONFLICT"


def test_a_password_needs_a_user():
    assert code_of(password="b") == "JETSYNC_MISSING_OPTION"


def test_files_have_to_exist(tmp_path):
    assert code_of(credsFile=str(tmp_path / "no.creds")) == "JETSYNC_FILE_NOT_FOUND"
    path = tmp_path / "yes.creds"
    path.write_text("x")
    assert link(credsFile=str(path)).creds_file == str(path)


def test_a_certificate_needs_its_key(tmp_path):
    path = tmp_path / "cert.pem"
    path.write_text("x")
    assert code_of(tlsCert=str(path)) == "JETSYNC_MISSING_OPTION"


def test_domain_and_prefix_exclude_each_other():
    assert code_of(domain="hub", apiPrefix="JS.API") == "JETSYNC_OPTION_CONFLICT"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connectTimeout", "0s"),
        ("requestTimeout", "soon"),
        ("tlsHandshakeFirst", "maybe"),
        ("serverUnavailableTimeout", "-5s"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name, value):
    with pytest.raises(SparkOptionError, match=name) as caught:
        link(**{name: value})
    assert caught.value.code == "JETSYNC_INVALID_OPTION"


def test_link_options_pickle_and_are_hashable_keys():
    one = link(user="u", password="p")
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(link(user="u", password="p"))


def test_secrets_do_not_show():
    assert "hunter2" not in repr(link(user="u", password="hunter2"))
    assert "hunter2" not in repr(link(token="hunter2"))


@pytest.mark.parametrize(
    ("theirs", "allowed", "ours"),
    [
        ("topic", ("subject", "atomic"), "subject"),
        ("subscribe", ("stream",), "stream"),
        ("subscribePattern", ("stream", "streamPattern"), "streamPattern"),
        ("kafka.bootstrap.servers", (), "servers"),
    ],
)
def test_the_names_that_kafka_has_for_an_option_lead_to_ours(theirs, allowed, ours):
    with pytest.raises(SparkOptionError, match=f"did you mean '{ours}'"):
        Values({theirs: "x"}, allowed, "tests")


def test_a_name_of_kafka_without_one_of_ours_gets_no_wrong_hint():
    with pytest.raises(SparkOptionError) as caught:
        Values({"topic": "x"}, ("atomic",), "tests")
    assert "did you mean" not in str(caught.value)
