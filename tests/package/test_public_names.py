"""The public attributes of public classes are those of a list: none becomes public by accident.

``python -m tests.package.test_public_names`` writes the list anew; its difference is to be read.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import io
from pathlib import Path

LIST = Path(__file__).with_name("public_names.txt")
MODULES = (
    "jetsync",
    "jetsync.observe",
    "jetsync.otel",
    "jetsync.prometheus",
    "jetsync.server",
    "jetsync.services",
    "jetsync.testing",
    "jetsync.worker",
)
OTHERS = (enum.Enum, BaseException)  # their values and fields are in the documents of errors


def public_classes() -> dict[str, type]:
    found: dict[type, str] = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and not issubclass(value, OTHERS):
                found.setdefault(value, f"{module.__name__}.{name}")
    return {name: kind for kind, name in found.items()}


def names_of(kind: type) -> list[str]:
    """The public attributes of a class, without those of a file or a tuple that it is."""
    inherited = {
        name for base in (io.BufferedIOBase, tuple) if issubclass(kind, base) for name in dir(base)
    }
    fields = set(getattr(kind, "__dataclass_fields__", ()))
    return sorted({n for n in dir(kind) if not n.startswith("_")} - inherited - fields)


def lines() -> list[str]:
    classes = sorted(public_classes().items())
    return [f"{name}: {' '.join(names_of(kind))}".rstrip() for name, kind in classes]


def test_no_attribute_is_public_that_is_not_in_the_list():
    assert lines() == LIST.read_text().splitlines()


def test_the_check_sees_a_public_method():
    class Sample:
        def shown(self) -> None: ...

        def _hidden(self) -> None: ...

    assert names_of(Sample) == ["shown"]


if __name__ == "__main__":
    LIST.write_text("\n".join(lines()) + "\n")
