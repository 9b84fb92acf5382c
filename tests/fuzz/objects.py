"""Make objects of the extension types and use them, with arguments drawn by lot.

``python -m tests.fuzz.objects SEED CALLS`` never crashes or hangs, whatever is drawn: objects
come from constructors, from ``__new__`` alone and from subclasses that forget ``__init__``; their
attributes are read, set and called, with one another as arguments. Prints how many calls returned
and how many raised. The last line of stderr names the call that a crash was in.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import pkgutil
import random
import resource
import signal
import socket
import sys
from collections import Counter
from typing import Any

import jetsync._core

HEAP_TYPE = 1 << 9  # of CPython's tp_flags: made by a class statement
PER_CALL = 0.25  # seconds, then a signal ends the wait
STUCK = 60.0
KEPT = 60
MEMORY = 3 << 30

# These run on a thread of their own until the link ends, or say that this process is a fork.
LEFT_OUT = {"pump", "abandon", "reset"}
PLAIN: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 7, 255, 65_536, -1, 1 << 31, 1 << 63, 1 << 64, -(1 << 63)),
    *(0.0, 0.01, -1.0, float("nan"), float("inf"), 1e300),
    *("", "s", "a.b", "a b", "\r\n", "é", "\udc80", "x" * 5000),
    *(b"", b"x", b"MSG s 1 1\r\nx\r\n", b"PONG\r\n", b"$JS.ACK.S.C.1.2.3.4.5", b"\0" * 3000),
    *((), (1, 2), [], [("s", b"x")], {}, {"A": "b"}, {"A": ["b", b"c"]}, object(), int, len),
)


class Interrupted(Exception):
    """A call that waits is ended."""


def interrupt(*_: object) -> None:
    raise Interrupted


def extension_types() -> list[type]:
    found = []
    for info in pkgutil.iter_modules(jetsync._core.__path__, "jetsync._core."):
        for value in vars(importlib.import_module(info.name)).values():
            compiled = isinstance(value, type) and not value.__flags__ & HEAP_TYPE
            if compiled and value.__module__ == info.name:
                found.append(value)
    return found


def forgetful(kind: type) -> type | None:
    """A subclass that does not call its base; None where there can be none."""
    try:
        return type(kind.__name__, (kind,), {"__init__": lambda self, *_, **__: None})
    except TypeError:
        return None


class Player:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.types = extension_types()
        self.types += [made for kind in self.types if (made := forgetful(kind))]
        self.objects: list[Any] = []
        self.sockets = socket.socketpair()
        for one in self.sockets:
            one.setblocking(False)
        self.counts: Counter[str] = Counter()

    def argument(self) -> Any:
        lot = self.dice.random()
        if lot < 0.3 and self.objects:
            return self.dice.choice(self.objects)
        if lot < 0.35:
            return self.sockets[0].fileno()
        if lot < 0.4:
            return lambda *_: self.dice.choice(PLAIN)
        return self.dice.choice(PLAIN)

    def arguments(self) -> list[Any]:
        return [self.argument() for _ in range(self.dice.choice((0, 0, 1, 1, 2, 3, 4, 6)))]

    def call(self, name: str, function: Any, *given: Any) -> Any:
        print(name, [type(one).__name__ for one in given], file=sys.stderr)
        try:
            signal.setitimer(signal.ITIMER_REAL, PER_CALL)
            try:
                result = function(*given)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Exception as error:
            self.counts["raised"] += 1
            self.counts["interrupted"] += isinstance(error, Interrupted)
            return None
        self.counts["returned"] += 1
        return result

    def make(self) -> None:
        kind = self.dice.choice(self.types)
        how = self.dice.choice((kind, kind, lambda *given: kind.__new__(kind, *given)))
        made = self.call(kind.__name__, how, *self.arguments())
        if made is not None:
            self.objects.append(made)
        if len(self.objects) > KEPT:
            del self.objects[self.dice.randrange(KEPT)]

    def use(self) -> None:
        one = self.dice.choice(self.objects)
        kind = type(one)
        name = self.dice.choice([n for n in dir(kind) if n not in LEFT_OUT])
        if name in ("__class__", "__init_subclass__", "__subclasshook__", "__reduce__"):
            return
        where = f"{kind.__name__}.{name}"
        lot = self.dice.random()
        if lot < 0.05:
            self.call("set " + where, setattr, one, name, self.argument())
        elif lot < 0.08:
            self.call("del " + where, delattr, one, name)
        else:
            value = self.call("get " + where, getattr, one, name)
            if callable(value):
                self.call(where, value, *self.arguments())

    def play(self, calls: int) -> None:
        for _ in range(calls):
            if not self.objects or self.dice.random() < 0.2:
                self.make()
            else:
                self.use()


def main(seed: int, calls: int) -> None:
    faulthandler.enable()
    if "ASAN_OPTIONS" not in os.environ:  # the sanitizer itself takes terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, interrupt)
    player = Player(seed)
    for _ in range(0, calls, 1000):
        faulthandler.dump_traceback_later(STUCK, exit=True)
        player.play(min(1000, calls))
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(player.counts), flush=True)
    os._exit(0)  # without finalizers of what was half made: they ran whenever an object was dropped


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
