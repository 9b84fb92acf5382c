"""One run of a command: its arguments, its output and its connection."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jetsync.cli.events import EventLog
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import SIGN_IN
from jetsync.cli.output import Output

if TYPE_CHECKING:
    from jetsync.client.connection import Connection
    from jetsync.client.options import ConnectOptions
    from jetsync.jetstream import JetStream

__all__ = ["Invocation", "connect_options"]

_VARIABLES = {
    "server": "NATS_URL",
    "tlscert": "NATS_CERT",
    "tlskey": "NATS_KEY",
    "tlsca": "NATS_CA",
    "socks_proxy": "NATS_SOCKS_PROXY",
    "timeout": "NATS_TIMEOUT",
    "context": "NATS_CONTEXT",
}

_LOGGER = logging.getLogger("jetsync")
_MOMENT = 0.5
"""Seconds after which what no call has raised is told."""


class Invocation:
    """The arguments, output and connection of one command. A context manager: leaving it closes the
    connection.

    Used by the thread that runs the command.
    """

    def __init__(self, args: argparse.Namespace, output: Output) -> None:
        self.args = args
        self.out = output
        self._nc: Connection | None = None
        self._js: JetStream | None = None
        self._events: EventLog | None = None

    def options(self, **overrides: Any) -> ConnectOptions:
        """Return the options of a connection, whose events go to stderr. Raises ConfigError."""
        self._watch()
        return connect_options(self.args, os.environ, **overrides)

    def flush(self, nc: Connection, timeout: float | None = None) -> None:
        """Wait until the server has all that was published on a connection. Raises what it
        refused: that is told before the answer to the flush."""
        from jetsync.errors import PermissionsError

        nc.flush(timeout)
        if isinstance(nc.last_error, PermissionsError):
            raise nc.last_error

    def connect(self) -> Connection:
        """Return the connection, made by the first call. Blocks; raises ConnectError."""
        if self._nc is None:
            from jetsync.client import connect

            self._nc = connect(options=self.options())
        return self._nc

    def jetstream(self) -> JetStream:
        """Return JetStream over the connection."""
        if self._js is None:
            self._js = self.connect().jetstream()
        return self._js

    def _watch(self) -> None:
        """Send the log of the connection to stderr."""
        if not _LOGGER.handlers:
            self._events = EventLog(self._soon)
            _LOGGER.addHandler(self._events)
            _LOGGER.propagate = False
        level = logging.ERROR if self.out.quiet else logging.WARNING
        if getattr(self.args, "trace", False):
            level = logging.DEBUG
            logging.getLogger("jetsync.wire").setLevel(level)
        _LOGGER.setLevel(level)

    def _soon(self, function: Callable[[], object]) -> None:
        from jetsync.client.port import port_of

        if self._nc is not None:
            port_of(self._nc).later(_MOMENT, function)

    def ended(self, code: int) -> int:
        """Note the exit code of the command, and return it. One that is not 0 is explained by what
        the command has printed."""
        if code and self._events is not None:
            self._events.drop()
        return code

    def __enter__(self) -> Invocation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._events is not None and kind is None:
                self._events.tell()
            if self._nc is not None:
                self._close(self._nc, kind is None)
        finally:
            if self._events is not None:
                _LOGGER.removeHandler(self._events)
                _LOGGER.propagate = True

    def _close(self, nc: Connection, drains: bool) -> None:
        try:
            if drains and not nc.is_closed:
                nc.drain()
        finally:
            nc.close()


def _timeout(text: str) -> str:
    """Check the text of a flag; returns it as a variable has it."""
    from jetsync.cli.values import duration

    try:
        return f"{duration(text):g}"
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--timeout is {error}.") from None


def connect_options(
    args: argparse.Namespace, environ: Mapping[str, str], **overrides: Any
) -> ConnectOptions:
    """Return options: a flag wins over a variable, a variable over the context, and that over the
    default. A flag that signs in replaces everything else that signs in. Raises ConfigError."""
    from jetsync._deadline import to_seconds
    from jetsync.client.options import ConnectOptions
    from jetsync.protocol.contexts import ContextFolder

    given = {key: value for key, value in vars(args).items() if value not in (None, "")}
    variables = {name: value for name, value in environ.items() if name.startswith("NATS_")}
    if any(flag in given for flag in SIGN_IN):
        for name in SIGN_IN.values():
            variables.pop(name, None)
    if "timeout" in given:
        given["timeout"] = _timeout(given["timeout"])
    for flag, name in {**SIGN_IN, **_VARIABLES}.items():
        if flag in given:
            variables[name] = given[flag]
    if given.get("no_context"):
        if "context" in given:
            raise UsageError("--context and --no-context contradict each other.")
        variables.pop("NATS_CONTEXT", None)
    elif not variables.get("NATS_CONTEXT") and (selected := ContextFolder().selected):
        variables["NATS_CONTEXT"] = selected
    overrides.setdefault("name", given.get("connection_name", "jetsync"))
    if "js_domain" in given and "js_api_prefix" in given:
        raise UsageError("give either --js-domain or --js-api-prefix, not both.")
    if "js_domain" in given or "js_api_prefix" in given:
        overrides["jetstream_domain"] = given.get("js_domain")
        overrides["jetstream_api_prefix"] = given.get("js_api_prefix")
    for flag, option in (("inbox_prefix", "inbox_prefix"), ("proxy", "proxy")):
        if flag in given:
            overrides[option] = given[flag]
    if given.get("tlsfirst"):
        overrides["tls_handshake_first"] = True
    # A context out of the user's own folder may start a program for its secrets; a file that is
    # named by its path may not.
    named = variables.get("NATS_CONTEXT", "")
    trusted = os.sep not in named and not named.endswith(".json")
    options: ConnectOptions = ConnectOptions.from_env(variables, run_commands=trusted, **overrides)
    if variables.get("NATS_TIMEOUT") and not to_seconds(options.timeout, "timeout") > 0:
        # A command would act, and not wait for what came of it.
        raise UsageError(f"--timeout must be above 0, not {variables['NATS_TIMEOUT']!r}.")
    return options
