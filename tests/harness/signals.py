"""Ctrl-C works in the processes that tests start, however the suite itself was started.

A suite that runs in the background of a shell inherits an ignored SIGINT and would hand that on.
"""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
