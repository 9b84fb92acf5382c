"""Create, update, and create-or-update mean different things, for streams and for consumers."""

from __future__ import annotations

import pytest

import jetsync
from jetsync import ConsumerConfig, StreamConfig
from tests.harness.insides import api_of


@pytest.fixture
def forget(monkeypatch):
    """Make a class not know some of its fields, as if a newer server had them."""

    def hide(kind, *names):
        read_all = kind.from_wire.__func__

        def read(cls, data):
            made = read_all(cls, {key: value for key, value in data.items() if key not in names})
            unknown = {name: data[name] for name in names if name in data}
            object.__setattr__(made, "extra", {**made.extra, **unknown})
            return made

        monkeypatch.setattr(kind, "from_wire", classmethod(read))

    return hide


# -- streams ---------------------------------------------------------------------------------------


def test_keywords_alone_change_only_what_they_name(js, stream):
    js.update_stream(name=stream.name, max_msgs=7, description="kept")
    config = js.update_stream(name=stream.name, max_age=60, duplicate_window=60).info().config
    assert (config.max_msgs, config.description, config.max_age) == (7, "kept", 60)
    assert config.subjects == [f"{stream.name}.>"]
    assert config.storage == "memory"


def test_a_configuration_replaces_all_of_the_old_one(js, stream):
    js.update_stream(name=stream.name, max_msgs=7, description="gone")
    config = StreamConfig(name=stream.name, subjects=[f"{stream.name}.>"], storage="memory")
    after = js.update_stream(config, max_bytes=1000).info().config
    assert (after.max_msgs, after.description, after.max_bytes) == (-1, None, 1000)


def test_create_or_update_takes_defaults_for_the_rest(js, stream):
    js.update_stream(name=stream.name, max_msgs=7)
    fields = {"name": stream.name, "subjects": [f"{stream.name}.>"], "storage": "memory"}
    assert js.create_or_update_stream(**fields).info().config.max_msgs == -1


def test_an_update_of_nothing_is_not_found(js):
    for update in (
        lambda: js.update_stream(name="NOSUCH", max_msgs=1),
        lambda: js.update_stream(StreamConfig(name="NOSUCH")),
    ):
        with pytest.raises(jetsync.StreamNotFoundError):
            update()
    with pytest.raises(jetsync.ConfigError, match="name"):
        js.update_stream(max_msgs=1)


def test_fields_this_version_does_not_know_survive_an_update(js, stream, forget):
    js.update_stream(name=stream.name, allow_batched=True, consumer_limits={"max_ack_pending": 9})
    forget(StreamConfig, "allow_batched", "consumer_limits")
    read = stream.info().config
    assert read.extra["allow_batched"] is True
    js.update_stream(name=stream.name, description="changed")
    after = api_of(js).request(f"STREAM.INFO.{stream.name}")["config"]
    assert (after["allow_batched"], after["consumer_limits"]["max_ack_pending"]) == (True, 9)
    assert after["description"] == "changed"


def test_unknown_fields_are_never_part_of_a_new_stream(js, stream):
    config = StreamConfig(name=f"{stream.name}N", storage="memory", extra={"from_the_future": True})
    js.create_stream(config).delete()


def test_what_cannot_be_changed_is_refused_by_the_server(js, stream):
    for fields in ({"storage": "file"}, {"retention": "workqueue"}):
        with pytest.raises(jetsync.InvalidStreamConfigError):
            js.update_stream(name=stream.name, **fields)


def test_pedantic_refuses_what_would_be_corrected(js, stream):
    name = f"{stream.name}P"
    fields = {"name": name, "storage": "memory", "max_age": 60}
    try:
        with pytest.raises(jetsync.PedanticError):
            js.create_stream(pedantic=True, **fields)
        assert js.create_stream(**fields).info().config.duplicate_window == 60
    finally:
        js.delete_stream(name)


# -- consumers -------------------------------------------------------------------------------------


def test_keywords_alone_change_only_what_they_name_of_a_consumer(js, stream):
    first = stream.create_consumer(
        durable_name="c", max_deliver=5, filter_subject=f"{stream.name}.a", description="kept"
    )
    assert first.name == "c"
    config = stream.update_consumer(durable_name="c", ack_wait=7).info().config
    assert (config.max_deliver, config.ack_wait, config.description) == (5, 7, "kept")
    config = stream.update_consumer(
        name="c", filter_subjects=[f"{stream.name}.b", f"{stream.name}.c"]
    ).cached_info.config
    assert (config.filter_subject, len(config.filter_subjects)) == (None, 2)
    config = stream.update_consumer(name="c", filter_subject=f"{stream.name}.a").info().config
    assert (config.filter_subject, config.filter_subjects) == (f"{stream.name}.a", [])


def test_a_configuration_replaces_all_of_the_old_one_of_a_consumer(js, stream):
    stream.create_consumer(durable_name="c", max_deliver=5, description="gone")
    config = stream.update_consumer(ConsumerConfig(durable_name="c", ack_wait=7)).info().config
    assert (config.max_deliver, config.description, config.ack_wait) == (-1, None, 7)


def test_create_update_and_both_differ(js, stream):
    with pytest.raises(jetsync.ConsumerDoesNotExistError):
        stream.update_consumer(durable_name="c", max_deliver=2)
    with pytest.raises(jetsync.ConfigError, match="name"):
        stream.update_consumer(max_deliver=2)
    assert stream.create_or_update_consumer(durable_name="c", max_deliver=2).name == "c"
    assert stream.create_consumer(durable_name="c", max_deliver=2).name == "c"
    with pytest.raises(jetsync.ConsumerExistsError):
        stream.create_consumer(durable_name="c", max_deliver=3)
    changed = stream.create_or_update_consumer(durable_name="c", max_deliver=3)
    assert changed.info().config.max_deliver == 3
    with pytest.raises(jetsync.InvalidConsumerConfigError):
        stream.create_or_update_consumer(durable_name="c", max_deliver=3, deliver_policy="new")


def test_a_named_ephemeral_can_be_created_again(js, stream):
    for _ in range(2):
        assert stream.create_consumer(name="e").cached_info.config.inactive_threshold == 5
    limited = js.create_stream(
        name=f"{stream.name}L",
        storage="memory",
        consumer_limits={"inactive_threshold": 2, "max_ack_pending": 10},
    )
    try:
        config = limited.create_consumer(name="e").info().config
        assert (config.inactive_threshold, config.max_ack_pending) == (2, 10)
        with pytest.raises(jetsync.InvalidConsumerConfigError):
            limited.create_consumer(name="f", inactive_threshold=3)
    finally:
        limited.delete()


def test_consumer_fields_this_version_does_not_know_survive_an_update(js, stream, forget):
    stream.create_consumer(durable_name="c", max_batch=9, headers_only=True)
    forget(ConsumerConfig, "max_batch", "headers_only")
    stream.update_consumer(name="c", description="changed")
    after = api_of(js).request(f"CONSUMER.INFO.{stream.name}.c")["config"]
    assert (after["max_batch"], after["headers_only"], after["description"]) == (9, True, "changed")


def test_pedantic_consumers_are_not_corrected(js, stream):
    with pytest.raises(jetsync.PedanticError):
        stream.create_consumer(durable_name="c", backoff=[1, 2], ack_wait=5, pedantic=True)
    assert stream.create_consumer(durable_name="c", backoff=[1, 2], ack_wait=5)
