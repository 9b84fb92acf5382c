"""An option that a public call does not take is told under the name of that call."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import jetsync
from jetsync.observe import Hooks
from jetsync.worker import Worker, run, task

ROOMS = (
    *("jetsync", "jetsync.config", "jetsync.observe", "jetsync.prometheus", "jetsync.server"),
    *("jetsync.services", "jetsync.testing", "jetsync.worker"),
)
WRONG: Any = {"nonsense": 1}

CONFIGURED = {
    "JetStream.create_stream": lambda o: o.js.create_stream(name="S", **WRONG),
    "JetStream.update_stream": lambda o: o.js.update_stream(name=o.stream.name, **WRONG),
    "JetStream.create_or_update_stream": lambda o: o.js.create_or_update_stream(name="S", **WRONG),
    "JetStream.create_consumer": lambda o: o.js.create_consumer("S", **WRONG),
    "JetStream.update_consumer": lambda o: o.js.update_consumer(o.stream.name, name="c", **WRONG),
    "JetStream.create_or_update_consumer": lambda o: o.js.create_or_update_consumer("S", **WRONG),
    "JetStream.create_key_value": lambda o: o.js.create_key_value(bucket="B", **WRONG),
    "JetStream.update_key_value": lambda o: o.js.update_key_value(bucket="B", **WRONG),
    "JetStream.create_or_update_key_value": lambda o: o.js.create_or_update_key_value(**WRONG),
    "JetStream.create_object_store": lambda o: o.js.create_object_store(bucket="B", **WRONG),
    "JetStream.update_object_store": lambda o: o.js.update_object_store(bucket="B", **WRONG),
    "JetStream.create_or_update_object_store": lambda o: o.js.create_or_update_object_store(
        **WRONG
    ),
    "JetStream.subscribe": lambda o: o.js.subscribe(f"{o.stream.name}.a", **WRONG),
    "JetStream.pull_subscribe": lambda o: o.js.pull_subscribe(f"{o.stream.name}.a", **WRONG),
    "Stream.create_consumer": lambda o: o.stream.create_consumer(**WRONG),
    "Stream.update_consumer": lambda o: o.stream.update_consumer(name="c", **WRONG),
    "Stream.create_or_update_consumer": lambda o: o.stream.create_or_update_consumer(**WRONG),
}
"""Calls that take the fields of a configuration: the error names its class."""

CALLED: dict[str, Callable[[Any], object]] = {
    "JetStream.publish": lambda o: o.js.publish("a", b"", **WRONG),
    "JetStream.publish_async": lambda o: o.js.publish_async("a", b"", **WRONG),
    "PublishBatch.add": lambda o: o.js.batch().add("a", **WRONG),
    "PublishBatch.commit": lambda o: o.js.batch().commit("a", **WRONG),
    "Stream.ordered_consumer": lambda o: o.stream.ordered_consumer(**WRONG),
    "Consumer.consume": lambda o: o.consumer.consume(print, **WRONG),
    "OrderedConsumer.consume": lambda o: o.stream.ordered_consumer().consume(print, **WRONG),
    "PullSubscription.messages": lambda o: o.pulled.messages(**WRONG),
    "PullSubscription.consume": lambda o: o.pulled.consume(print, **WRONG),
    "shared_connection": lambda _: jetsync.shared_connection(**WRONG),
    "ConnectOptions.from_env": lambda _: jetsync.ConnectOptions.from_env({}, **WRONG),
    "ConnectOptions.from_context": lambda _: jetsync.ConnectOptions.from_context("c", **WRONG),
    "Worker": lambda o: Worker(o.consumer, print, **WRONG),
    "run": lambda o: run(o.consumer, print, **WRONG),
    "task": lambda _: task(stream="S", consumer="c", **WRONG),
}
"""Calls that hand options on to other functions: the error names the call."""

ELSEWHERE = {"ObjectStore.update_meta", "make_message", "Measured"}
"""Calls with texts of their own, and a protocol."""


def public_calls() -> Iterator[tuple[str, Any, Any]]:
    """Iterate over names, callables and the classes that they are methods of."""
    seen = set()
    for room in map(importlib.import_module, ROOMS):
        for name in room.__all__:
            found = getattr(room, name)
            if not callable(found) or found in seen:
                continue
            seen.add(found)
            yield name, found, None
            if not inspect.isclass(found) or issubclass(found, (str, tuple, BaseException)):
                continue
            for method in sorted(vars(found).keys() | {n for n in dir(found) if n[0] != "_"}):
                call = getattr(found, method)
                if method[0] != "_" and callable(call) and not inspect.isclass(call):
                    yield f"{name}.{method}", call, found


CALLS = {name: (call, owner) for name, call, owner in public_calls()}


def takes_any(call: Any) -> bool:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.kind is one.VAR_KEYWORD for one in parameters)


@pytest.fixture(params=["plain", "observed"])
def objects(url: str, request: Any) -> Iterator[SimpleNamespace]:
    hooks = Hooks() if request.param == "observed" else None
    with jetsync.connect(url, hooks=hooks) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="MISSPELT", subjects=["MISSPELT.>"], storage="memory")
        consumer = stream.create_consumer(durable_name="c")
        pulled = js.pull_subscribe("MISSPELT.a")
        yield SimpleNamespace(js=js, stream=stream, consumer=consumer, pulled=pulled)
        js.delete_stream("MISSPELT")


@pytest.mark.parametrize("name", CALLED)
def test_an_option_that_is_handed_on_is_told_by_the_public_call(objects, name: str) -> None:
    call = name.rpartition(".")[2]
    told = rf"(^|\.){call}\(\) got an unexpected keyword argument 'nonsense'"
    with pytest.raises(TypeError, match=told):
        CALLED[name](objects)


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_field_that_does_not_exist_is_told_by_its_configuration(objects, name: str) -> None:
    with pytest.raises(jetsync.ConfigError, match=r"\w+Config has no field 'nonsense'"):
        CONFIGURED[name](objects)


def test_the_option_that_was_probably_meant_is_named(objects) -> None:
    with pytest.raises(TypeError, match=r"^publish\(\) .* 'rolup'; did you mean 'rollup'\?$"):
        objects.js.publish("MISSPELT.a", rolup="sub")
    with pytest.raises(TypeError, match=r"^consume\(\) .* 'max_message'; did you mean 'max_mess"):
        objects.consumer.consume(print, max_message=1)


def test_no_public_call_with_options_is_missing_here() -> None:
    found = {name for name, (call, _) in CALLS.items() if takes_any(call)}
    assert found - ELSEWHERE == CONFIGURED.keys() | CALLED.keys()


PLAIN = [
    name for name, (call, _) in CALLS.items() if inspect.isroutine(call) and not takes_any(call)
]


@pytest.mark.parametrize("name", PLAIN)
def test_every_other_call_names_itself(name: str) -> None:
    """Python does so, unless a call takes what it is given and hands it on."""
    call, owner = CALLS[name]
    given = [] if owner is None or inspect.ismethod(call) else [owner.__new__(owner)]
    with pytest.raises(TypeError) as caught:
        call(*given, **WRONG)
    own = rf"\b{re.escape(name.rpartition('.')[2])}\(\)"
    assert re.search(own, str(caught.value)), str(caught.value)
