"""No object of an extension type crashes the process, however it was made and whatever is asked."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest

import jetsync._core
from jetsync._core.futures import AckForm
from tests.harness.places import SEARCH_PATH
from tests.harness.soak import scaled

PROGRAM = """
import faulthandler, importlib, sys, types
faulthandler.enable()

def types_to_try(path):
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    try:
        class Forgetful(kind):
            def __init__(self, *args, **kwargs):
                "Forgets super().__init__()."
    except TypeError:  # it cannot be subclassed
        return [kind]
    return [kind, Forgetful]

ARGUMENTS = ((), (None,), (0,), (b"x",), ("x",), ("x", b"y"), (1, 1), (None, None), (object(),),
             (b"x", b"y", b"z"), (1, 2, 3), ("x", b"y", None, None, False), (int, 1), ([], [], []))

def made(kind):
    for args in ARGUMENTS:
        for factory in (kind, lambda *args: kind.__new__(kind, *args)):
            try:
                yield factory(*args)
            except Exception:
                pass

SKIPPED = {"__class__", "__init_subclass__", "__subclasshook__", "__dict__", "__weakref__"}

def ask(one):
    for name in dir(type(one)):
        if name in SKIPPED:
            continue
        try:
            value = getattr(one, name)
        except Exception:
            continue
        if not callable(value):
            continue
        for args in ARGUMENTS:
            try:
                print(name, args, flush=True, file=sys.stderr)
                found = value(*args)
                if isinstance(found, types.GeneratorType) or hasattr(found, "__next__"):
                    next(found, None)
            except Exception:
                pass

for path in sys.argv[1:]:
    print(path, file=sys.stderr)
    for kind in types_to_try(path):
        for one in made(kind):
            ask(one)
"""


_HEAP_TYPE = 1 << 9  # of CPython's tp_flags: made by a class statement


def extension_types() -> list[str]:
    found = []
    for info in pkgutil.iter_modules(jetsync._core.__path__, "jetsync._core."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            compiled = isinstance(value, type) and not value.__flags__ & _HEAP_TYPE
            if compiled and value.__module__ == info.name:
                found.append(f"{info.name}.{name}")
    return found


def test_the_list_of_types_is_whole() -> None:
    assert len(extension_types()) >= 20


def test_an_object_made_in_any_way_raises_and_never_crashes() -> None:
    command = [sys.executable, "-c", PROGRAM, *extension_types()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == 0, run.stderr[-1500:]


@pytest.mark.parametrize("seed", range(scaled(3, 60)))
def test_random_use_of_any_object_raises_and_never_crashes(seed) -> None:
    command = [sys.executable, "-m", "tests.fuzz.objects", str(seed), str(scaled(2_000, 20_000))]
    environment = {**os.environ, "PYTHONPATH": SEARCH_PATH}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-1500:]
    assert json.loads(run.stdout)["returned"] > 200  # it found ways that work, too


@pytest.mark.parametrize("made", [lambda: AckForm.__new__(AckForm), lambda: AckForm(int, print)])
def test_a_form_of_confirmations_without_a_dataclass_is_refused(made):
    with pytest.raises(TypeError):
        made().make("stream", 1, False)
