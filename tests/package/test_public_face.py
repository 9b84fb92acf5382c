"""What users see: the names of the package in order, and nothing of the inside on its objects."""

from __future__ import annotations

import enum
import inspect
import subprocess
import sys

import pytest

import jetsync
from jetsync import config, errors

MODULES = (
    *("config", "errors", "observe", "otel", "prometheus", "server", "services", "spark"),
    *("testing", "worker"),
)
CLASSES = sorted(
    {
        value
        for name in jetsync.__all__
        if inspect.isclass(value := getattr(jetsync, name))
        and not issubclass(value, (enum.Enum, Exception))
    },
    key=lambda kind: kind.__name__,
)


def test_daily_names_come_first_and_errors_last():
    names = [name for name in jetsync.__all__ if name != "__version__"]
    kinds = [2 if name in errors.__all__ else 1 if name in config.__all__ else 0 for name in names]
    assert kinds == sorted(kinds)
    assert names[:3] == ["connect", "shared_connection", "Connection"]


def test_each_error_is_in_its_module_and_in_the_package():
    assert set(errors.__all__) <= set(jetsync.__all__)
    assert all(getattr(errors, name) is getattr(jetsync, name) for name in errors.__all__)
    assert {errors.__dict__[name].__module__ for name in errors.__all__} == {"jetsync"}


def test_each_configuration_is_in_its_module_and_in_the_package():
    assert set(config.__all__) <= set(jetsync.__all__)
    assert all(getattr(config, name) is getattr(jetsync, name) for name in config.__all__)


def test_the_package_shows_its_public_names_only():
    """In an interpreter of its own, where other tests have not imported submodules."""
    code = "import jetsync; print(*dir(jetsync)); print(jetsync.config.StreamConfig.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, config_name = done.stdout.splitlines()
    assert set(shown.split()) == {*jetsync.__all__, *MODULES}
    assert config_name == "StreamConfig"


def test_each_package_for_users_is_an_attribute_and_a_wrong_name_is_told_the_nearest():
    code = "import jetsync\nfor name in {}: getattr(jetsync, name)\njetsync.conect"
    command = [sys.executable, "-c", code.format(MODULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "AttributeError: module 'jetsync' has no attribute 'conect'. Did you mean: 'connect'?"
    )


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_public_attributes_are_documented(kind):
    """An attribute without an underscore is for users; one of a compiled class that only other
    rooms use has no docstring."""
    fields = set(getattr(kind, "__dataclass_fields__", ()))
    bare = [
        name
        for name in dir(kind)
        if not name.startswith("_")
        and name not in fields
        and not inspect.getdoc(getattr(kind, name))
        and hasattr(getattr(kind, name), "__objclass__")
        and getattr(kind, name).__objclass__.__module__ not in ("_io", "io")
        and not any(f"``{name}``" in (base.__doc__ or "") for base in kind.__mro__)
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("kind", "internal"),
    [
        (jetsync.MsgBatch, {"answer_all", "arrow_capsules"}),
        (jetsync.JetStreamMsg, {"build"}),
        (jetsync.PubAckFuture, {"waiter", "callbacks"}),
        (jetsync.Watcher, {"set_origin", "take_initial"}),
        (jetsync.OrderedMessages, {"release"}),
        (jetsync.MessageStream, {"allow", "go_on", "interrupt"}),
    ],
)
def test_helpers_of_other_rooms_are_not_public(kind, internal):
    assert internal & set(dir(kind)) == set()
