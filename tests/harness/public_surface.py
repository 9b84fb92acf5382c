"""What the public surface shows of itself: the calls that take a timeout."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import jetsync
from jetsync import services, worker

PACKAGES = (jetsync, services, worker)
BUDGETS = ("timeout", "read_timeout")


def _plain(kind: type, name: str) -> Any:
    """The function behind a method, so that a method can be told from an inherited one."""
    function = inspect.getattr_static(kind, name, None)
    return getattr(function, "__func__", function)


def surface() -> dict[str, Any]:
    """Return ``Class.method`` -> function of every public call that takes a timeout; functions
    stand under their own name.

    A method that a class inherits from another public class counts once, for the first one.
    """
    public = [getattr(package, name) for package in PACKAGES for name in package.__all__]
    found: dict[str, Any] = {
        each.__name__: each for each in public if inspect.isfunction(each) and _has_budget(each)
    }
    kinds = [each for each in public if inspect.isclass(each)]
    for kind in kinds:
        if issubclass(kind, (str, BaseException, tuple)) or kind.__name__.endswith("Config"):
            continue
        inherited = [base for base in kind.__mro__[1:] if base in kinds]
        for name in dir(kind):
            function = _plain(kind, name)
            if name.startswith("_") or not callable(function):
                continue
            if any(_plain(base, name) is function for base in inherited):
                continue
            if _has_budget(function):
                found[f"{kind.__name__}.{name}"] = function
    return found


def _has_budget(function: Any) -> bool:
    with contextlib.suppress(ValueError, TypeError):
        return any(budget in inspect.signature(function).parameters for budget in BUDGETS)
    return False


NOT_A_CALL = {
    "connect": "its timeout is the default of the calls of the connection: see test_deadlines.py",
    "shared_connection": "the same",
    "ConnectOptions.from_context": "its timeout is a field of the options",
    "ConnectOptions.from_env": "its timeout is a field of the options",
    "Connection.jetstream": "its timeout is the default of the calls of the context",
    "JetStream.batch": "its timeout is the default of the batch's commit",
    "Connection.drain": "ends the connection: see ENDINGS",
}
