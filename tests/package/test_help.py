"""help() of every public call names its errors, its parameters and their unit by itself.

A reader has one docstring at hand. ``CALLS`` is found by reflection, so a call that is added is
judged here; what can raise nothing (or is called by another program) is listed, with the reason.
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import jetsync

MODULES = (
    *("jetsync", "jetsync.observe", "jetsync.otel", "jetsync.prometheus", "jetsync.server"),
    *("jetsync.services", "jetsync.spark", "jetsync.testing", "jetsync.worker"),
)

RAISES_NOTHING = {
    # They read or change what is here already.
    *("Connection.close", "Connection.measurements", "Connection.new_inbox"),
    *("Headers.get", "Headers.get_all", "Headers.parse", "Headers.to_dict"),
    *("MsgBatch.count", "ObjectReader.readable", "ObjectReader.seekable", "ObjectReader.tell"),
    *("ObjectWriter.abandon", "ObjectWriter.tell", "ObjectWriter.writable"),
    *("ConsumerLag.from_info", "APIErrorDetail.to_wire", "ObjectInfo.to_wire"),
    *("PublishBatch.discard", "Backoff.delay"),
    *("EndpointInfo.to_dict", "EndpointStats.to_dict", "ServiceInfo.to_dict"),
    *("ServicePing.to_dict", "ServiceStats.to_dict"),
    *("Service.info", "Service.measurements", "Service.ping", "Service.reset", "Service.stats"),
    *("Endpoint.info", "Endpoint.reset", "Endpoint.stats"),
    *("Worker.health", "Worker.measurements"),
    *("observe.install", "observe.uninstall", "observe.processing", "otel.uninstrument"),
    *("LagListener.prometheus", "spark.lag", "spark.reason", "spark.register"),
    # They end something, and ending twice or in an outage is no error.
    *("Consumer.close", "OrderedConsumer.close", "OrderedMessages.stop", "Watcher.stop"),
    *("MessageStream.drain", "MessageStream.stop", "ConsumeContext.stop", "ObjectReader.close"),
    *("MetricsServer.close", "Collected.close"),
    *("NatsServer.kill", "NatsServer.resume", "NatsServer.stop", "NatsServer.wait"),
    *("NatsCluster.kill", "NatsCluster.lame_duck", "NatsCluster.leader", "NatsCluster.resume"),
    "NatsCluster.stop",
    *("PubAckFuture.cancelled", "RequestFuture.cancelled"),
    # They raise what the function raises that they are given.
    *("PubAckFuture.add_done_callback", "RequestFuture.add_done_callback"),
    *("Faults.close", "Faults.cut", "Faults.half_close", "Faults.resume", "Faults.stall"),
    *("Faults.bandwidth", "Faults.delay", "Faults.drop_after"),
}
CALLED_BY_OTHERS = {
    # Spark, Prometheus and OpenTelemetry call them, with signatures of their own.
    *("JetStreamDataSource.name", "JetStreamDataSource.schema"),
    *("JetStreamDataSource.reader", "JetStreamDataSource.streamReader"),
    *("JetStreamDataSource.writer", "JetStreamDataSource.streamWriter"),
    *("LagListener.onQueryStarted", "LagListener.onQueryProgress"),
    *("LagListener.onQueryIdle", "LagListener.onQueryTerminated"),
    *("Collector.collect", "JetsyncInstrumentor.instrument", "JetsyncInstrumentor.uninstrument"),
    # Users write them.
    *("Hooks.plan", "Hooks.begin", "Hooks.end", "Hooks.inject", "Hooks.noted", "LeftOut.end"),
    "Measured.measurements",
}
# Parameters whose name says it all, wherever they are.
PLAIN = {
    *("self", "cls", "args", "kwargs", "fields", "options", "config", "extra"),
    *("subject", "data", "headers", "reply", "name", "new_name", "stream", "seq", "key", "value"),
    *("folder", "path", "callback", "raw", "bucket", "spark", "nc", "js", "id", "description"),
}


def calls() -> Iterator[tuple[str, Any]]:
    """Each public function and method once, under the name that a reader would say."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            public = getattr(module, name)
            if not inspect.isclass(public):
                if inspect.isroutine(public) and id(public) not in seen:
                    seen.add(id(public))
                    yield name if module is jetsync else f"{module_name[8:]}.{name}", public
                continue
            if issubclass(public, (BaseException, enum.Enum)):
                continue
            for method in dir(public):
                call = inspect.getattr_static(public, method)
                call = getattr(call, "__func__", call)
                owner = next(base for base in public.__mro__ if method in base.__dict__)
                if (
                    not method.startswith("_")
                    and inspect.isroutine(call)
                    and owner.__module__.startswith("jetsync")
                    and id(call) not in seen
                ):
                    seen.add(id(call))
                    yield f"{name}.{method}", call


CALLS = dict(calls())


def text_of(call: Any) -> str:
    return " ".join((inspect.getdoc(call) or "").split())


def errors_in(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]\w+(?:Error|Interrupt)\b", text))


def test_the_lists_name_calls_that_exist():
    assert sorted((RAISES_NOTHING | CALLED_BY_OTHERS) - set(CALLS)) == []


@pytest.mark.parametrize("name", sorted(set(CALLS) - RAISES_NOTHING - CALLED_BY_OTHERS))
def test_help_names_the_errors_of_a_call(name):
    text = text_of(CALLS[name])
    errors = errors_in(text)
    another = re.search(r"[Rr]aises? (?:like|as) (?::meth:)?`", text)
    assert errors or another or re.search(r"[Rr]aises nothing|[Nn]ever raises", text), text
    assert not {error for error in errors if not (hasattr(jetsync, error) or is_known(error))}


def is_known(error: str) -> bool:
    modules = [builtins, json, *map(importlib.import_module, MODULES)]
    return any(hasattr(module, error) for module in modules)


def own_parameters(call: Any) -> list[str]:
    """Those of its code: fields of a configuration have docstrings of their own."""
    code = getattr(inspect.unwrap(call), "__code__", None)
    if code is None:  # compiled
        return list(inspect.signature(call).parameters)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


@pytest.mark.parametrize("name", sorted(set(CALLS) - CALLED_BY_OTHERS))
def test_help_names_every_parameter_that_does_not_explain_itself(name):
    text = text_of(CALLS[name])
    assert text, "no docstring"
    known = PLAIN | set(re.findall(r"\w+", text))
    if "fields of :class:`ConnectOptions`" in text:
        known |= {field.name for field in dataclasses.fields(jetsync.ConnectOptions)}
    if "``expected_*``" in text:
        known |= {p for p in own_parameters(CALLS[name]) if p.startswith("expected_")}
    assert [p for p in own_parameters(CALLS[name]) if p not in known] == []


SECONDS = ("timeout", "delay", "stall", "interval", "read_timeout", "expires", "older_than")


@pytest.mark.parametrize("name", sorted(set(CALLS) - CALLED_BY_OTHERS))
def test_help_says_that_a_time_is_in_seconds(name):
    if set(SECONDS) & set(own_parameters(CALLS[name])):
        assert re.search(r"\bseconds?\b|\d s\b", text_of(CALLS[name]))
