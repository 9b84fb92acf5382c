"""pull-consumer-priority-groups (ADR-42): what the document says of configurations, state and
advisories, on the real server. What clients do about it is in tests/jetstream."""

from __future__ import annotations

import json

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.insides import connection_of
from tests.harness.waiting import wait_until

LONG = 20.0


@pytest.fixture(scope="module")
def js():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=LONG)
        js.create_stream(name="JOBS", subjects=["jobs"], storage="memory")
        yield js


@pytest.fixture
def make(js):
    """Create consumers with the group ``jobs`` that are gone after the test."""
    made = []

    def create(policy, **fields):
        fields = {"priority_groups": ["jobs"], "ack_policy": "explicit", **fields}
        made.append(js.create_consumer("JOBS", priority_policy=policy, **fields))
        return made[-1]

    yield create
    for consumer in made:
        consumer.delete()


policies = pytest.mark.parametrize("policy", ["overflow", "pinned_client", "prioritized"])


@policies
@pytest.mark.parametrize(
    "fields",
    [
        {"deliver_subject": "to.me"},  # "only supported on Pull Consumers"
        {"priority_groups": []},  # "require at least one entry"
    ],
    ids=str,
)
def test_general_overview_what_is_refused(make, policy, fields):
    with pytest.raises((jetsync.ConfigError, jetsync.APIError)):
        make(policy, **fields)


@policies
def test_general_overview_what_server_2_15_takes_against_the_document(js, make, policy):
    """More than one group, any ack policy, another policy for a consumer that exists: so the
    library leaves these to the server."""
    assert make(policy, priority_groups=["a", "b"]).cached_info.config.priority_groups == ["a", "b"]
    assert make(policy, ack_policy="none").cached_info.config.ack_policy == "none"
    name = make(policy, durable_name="SWITCH").name
    for other in ("overflow", "prioritized", "pinned_client"):
        changed = js.update_consumer("JOBS", name=name, priority_policy=other)
        assert changed.cached_info.config.priority_policy == other


def test_pinned_client_the_timeout_can_be_updated(js, make):
    """ "Today only the PriorityTimeout setting supports being updated." """
    made = make("pinned_client", durable_name="TIMED", priority_timeout=100)
    changed = js.update_consumer("JOBS", name=made.name, priority_timeout=50)
    assert changed.cached_info.config.priority_timeout == 50


def test_pinned_client_state_and_advisories(js, make):
    """Consumer state has the pin; advisories tell who got it, and why it was lost."""
    nc = connection_of(js)
    with nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.*.JOBS.>") as advisories:
        consumer = make("pinned_client", durable_name="PINNED", priority_timeout=100)
        js.publish("jobs", b"1")
        msg = consumer.next(timeout=LONG, group="jobs")
        pin = msg.headers["Nats-Pin-Id"]
        (group,) = consumer.info().priority_groups
        assert (group.group, group.pinned_client_id) == ("jobs", pin)
        assert group.pinned_ts is not None
        consumer.unpin("jobs")
        wait_until(lambda: not consumer.info().priority_groups[0].pinned_client_id, timeout=LONG)
        told: dict[str, dict[str, str]] = {}
        while len(told) < 2:
            advisory = json.loads(advisories.next(timeout=LONG).data)
            if "group" in advisory:
                told[advisory["type"].rpartition(".")[2]] = advisory
    pinned, unpinned = told["consumer_group_pinned"], told["consumer_group_unpinned"]
    for advisory in (pinned, unpinned):
        assert (advisory["stream"], advisory["consumer"]) == ("JOBS", "PINNED")
        assert advisory["group"] == "jobs"
    assert pinned["pinned_id"] == pin
    assert unpinned["reason"] == "admin"


def test_overflow_either_condition_is_enough(js, make):
    """ "If min_pending and min_ack_pending are both given either being satisfied will result in
    delivery (boolean OR)." """
    consumer = make("overflow", durable_name="EITHER")
    js.publish("jobs", b"2")
    options = {"group": "jobs", "min_pending": 1, "min_ack_pending": 1000}
    assert len(consumer.fetch(1, timeout=LONG, **options)) == 1
    options = {"group": "jobs", "min_pending": 1000, "min_ack_pending": 1}
    assert len(consumer.fetch(1, timeout=LONG, **options)) == 1
    options = {"group": "jobs", "min_pending": 1000, "min_ack_pending": 1000}
    assert len(consumer.fetch(1, timeout=0.5, **options)) == 0
