"""A network that behaves differently every moment."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from tests.harness.proxy import Proxy


class Chaos:
    """Puts a proxy into one fault after the other, on a thread, until the block ends.

    ``with Chaos(proxy, random.Random(7)) as chaos: ...``; afterwards the proxy is healed.
    ``hold`` is how long one state lasts, in seconds.
    """

    def __init__(
        self, proxy: Proxy, rng: random.Random, *, hold: tuple[float, float] = (0.01, 0.15)
    ) -> None:
        self._proxy = proxy
        self._rng = rng
        self._hold = hold
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self.faults = 0

    def _states(self) -> dict[str, Callable[[], None]]:
        proxy, rng = self._proxy, self._rng
        return {
            "healthy": proxy.heal,
            "cut": proxy.cut,
            "half closed": lambda: proxy.half_close(towards_client=rng.random() < 0.5),
            "black hole": proxy.blackhole,
            "slow": lambda: proxy.delay(rng.uniform(0.001, 0.2)),
            "crumbs": proxy.one_byte_writes,
            "swallowed answers": lambda: proxy.swallow_after(rng.randrange(2000)),
            "away": proxy.stop,
        }

    def _run(self) -> None:
        names = list(self._states())
        while not self._stop.wait(self._rng.uniform(*self._hold)):
            self._proxy.start()
            self._proxy.heal()
            name = self._rng.choice(names)
            self._states()[name]()
            self.faults += name != "healthy"

    def __enter__(self) -> Chaos:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._proxy.start()
        self._proxy.heal()
