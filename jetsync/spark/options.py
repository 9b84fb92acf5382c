"""Reading Spark's string options: names, values, and how to reach the servers.

Spark keeps option names in lower case and every value as a string. Nothing here does I/O except
looking whether named files and contexts exist.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from jetsync.client.options import ConnectOptions
from jetsync.errors import ConfigError
from jetsync.spark.errors import SparkOptionError

__all__ = [
    "LINK_OPTIONS",
    "LinkOptions",
    "Values",
    "connection_name",
    "parse_bytes",
    "parse_seconds",
]

T = TypeVar("T")

DEFAULT_SERVER = "nats://127.0.0.1:4222"

LINK_OPTIONS = (
    "servers",
    "url",
    "context",
    "credsFile",
    "creds",
    "credsEnv",
    "nkeySeedFile",
    "nkeySeed",
    "nkeySeedEnv",
    "user",
    "password",
    "passwordEnv",
    "token",
    "tokenEnv",
    "tlsCa",
    "tlsCaEnv",
    "tlsCert",
    "tlsCertEnv",
    "tlsKey",
    "tlsKeyEnv",
    "tlsHandshakeFirst",
    "domain",
    "apiPrefix",
    "connectTimeout",
    "requestTimeout",
    "connectionName",
    "serverUnavailableTimeout",
)
"""How to reach the servers; valid for every read, write and helper."""

# Spark adds these on its own to what the user gave.
_SPARKS_OWN = frozenset({"path", "checkpointlocation", "paths", "queryname"})

_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_BYTES = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "mib": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
    "gib": 1 << 30,
}
_QUANTITY = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")


def _quantity(text: str, units: Mapping[str, float]) -> float:
    match = _QUANTITY.match(text)
    if match is None or match[2].lower() not in units:
        raise ValueError(text)
    return float(match[1]) * units[match[2].lower()]


def parse_seconds(text: str) -> float:
    """Read ``200ms``, ``5s``, ``15m`` or a plain number of seconds; ``ValueError`` otherwise."""
    return _quantity(text, _SECONDS)


def parse_bytes(text: str) -> int:
    """Read ``4MiB``, ``64k`` (steps of 1024) or a plain number; ``ValueError`` otherwise."""
    return int(_quantity(text, _BYTES))


_OF_KAFKA: dict[str, tuple[str, ...]] = {
    "kafka.bootstrap.servers": ("servers",),
    "topic": ("subject", "stream"),
    "subscribe": ("stream",),
    "subscribepattern": ("streamPattern",),
    "assign": ("stream",),
}
"""Options of Spark's Kafka source and sink, each with the names of it here, the best one first."""


class Values:
    """The options of one read or write, checked against the names that are allowed there."""

    def __init__(
        self,
        options: Mapping[str, str],
        allowed: Iterable[str],
        use: str,
        elsewhere: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """``elsewhere`` has the names that are known for other uses, by use."""
        self._names = {name.lower(): name for name in (*LINK_OPTIONS, *allowed)}
        self._use = use
        self._elsewhere = {
            name.lower(): (name, other)
            for other, names in (elsewhere or {}).items()
            for name in names
        }
        self._values: dict[str, str] = {}
        for key, value in options.items():
            lower = key.lower()
            if lower in self._names:
                self._values[self._names[lower]] = str(value)
            elif lower not in _SPARKS_OWN and not lower.startswith("__"):
                raise SparkOptionError(self._unknown(key), code="JETSYNC_UNKNOWN_OPTION")

    def _unknown(self, key: str) -> str:
        if key.lower() in self._elsewhere:
            name, other = self._elsewhere[key.lower()]
            return f"option '{name}' is for {other} only, not for {self._use}"
        meant = [name for name in _OF_KAFKA.get(key.lower(), ()) if name.lower() in self._names]
        near = difflib.get_close_matches(key.lower(), self._names, n=1, cutoff=0.6)
        if not meant and key.lower() not in _OF_KAFKA:
            meant = [self._names[name] for name in near]
        hint = f"; did you mean '{meant[0]}'?" if meant else ""
        return f"option '{key}' is not known for {self._use}{hint}"

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        """Return the value without surrounding blanks; an empty one counts as not given."""
        value = self._values.get(name)
        return (value.strip() or None) if value is not None else None

    def secret(self, name: str) -> str | None:
        """Return the value exactly as it was given."""
        return self._values.get(name) or None

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise SparkOptionError(
                f"option '{name}' is required for {self._use}", code="JETSYNC_MISSING_OPTION"
            )
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Return a comma list without blanks and empty entries."""
        value = self.text(name) or ""
        return tuple(part.strip() for part in value.split(",") if part.strip())

    def parsed(self, name: str, parse: Callable[[str], T], default: T, expected: str) -> T:
        value = self.text(name)
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError:
            raise self.invalid(name, expected) from None

    def invalid(self, name: str, expected: str) -> SparkOptionError:
        return SparkOptionError(
            f"option '{name}' must be {expected}, got {self._values.get(name)!r}",
            code="JETSYNC_INVALID_OPTION",
        )

    def integer(self, name: str, default: int, *, least: int = 0) -> int:
        number = self.parsed(name, int, default, f"an integer >= {least}")
        if number < least:
            raise self.invalid(name, f"an integer >= {least}")
        return number

    def optional_integer(self, name: str, *, least: int = 1) -> int | None:
        return self.integer(name, 0, least=least) if self.text(name) is not None else None

    def seconds(self, name: str, default: float, *, positive: bool = False) -> float:
        expected = "a duration such as 200ms, 5s or 15m"
        value = self.parsed(name, parse_seconds, default, expected)
        if positive and value <= 0:
            raise self.invalid(name, expected + " above zero")
        return value

    def size(self, name: str, default: int) -> int:
        expected = "a size such as 65536, 64k or 4MiB, above zero"
        value = self.parsed(name, parse_bytes, default, expected)
        if value <= 0:
            raise self.invalid(name, expected)
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise self.invalid(name, "true or false")
        return value.lower() == "true"

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in allowed:
            raise self.invalid(name, "one of " + ", ".join(allowed))
        return value


def connection_name() -> str | None:
    """Return the default name of connections, where this process knows its Spark application.

    That is its driver's, and any with a task of a query; not one that Spark uses for planning.
    """
    pyspark = sys.modules.get("pyspark")
    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if context is not None:
        return f"jetsync-spark/{context.appName}"
    task = pyspark.TaskContext.get() if pyspark is not None else None
    name = task.getLocalProperty("spark.app.name") if task is not None else None
    return f"jetsync-spark/{name}" if name else None


def _file(values: Values, name: str) -> str | None:
    path = values.text(name)
    if path is not None and not os.path.isfile(path):
        raise SparkOptionError(
            f"option '{name}': no file {path!r} on this machine (it must exist on the driver and "
            "on every executor)",
            code="JETSYNC_FILE_NOT_FOUND",
        )
    return path


def _servers(values: Values) -> tuple[str, ...]:
    """Return the value of ``servers``, or of ``url``, which means the same: Spark hides the value
    of an option of that name, also where it prints SQL."""
    servers, hidden = values.names("servers"), values.names("url")
    if servers and hidden:
        raise SparkOptionError(
            "options 'servers' and 'url' mean the same; give one of them",
            code="JETSYNC_OPTION_CONFLICT",
        )
    return servers or hidden


def _context(values: Values) -> str | None:
    name = values.text("context")
    if name is not None:
        try:
            ConnectOptions.from_context(name)
        except ConfigError as error:
            raise SparkOptionError(
                f"option 'context': {error} (contexts must be on the driver and on every executor)",
                code="JETSYNC_INVALID_OPTION",
            ) from None
    return name


class ServerAddress(str):
    """The URL of a server. Its ``repr`` hides the password or token in it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(re.sub(r"(^|//)[^/@]*@", r"\1***@", str(self)))


_KINDS = (
    ("credsFile", "creds", "credsEnv"),
    ("nkeySeedFile", "nkeySeed", "nkeySeedEnv"),
    ("user",),
    ("token", "tokenEnv"),
)
"""The ways to log in: for each, the options of which one may be given."""


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """How to reach the servers. Picklable; secrets do not show in ``repr``.

    Without ``servers`` those of the ``context`` count; a context is read where it is used.
    """

    servers: tuple[str, ...] = (DEFAULT_SERVER,)
    context: str | None = None
    creds_file: str | None = None
    creds: str | None = field(default=None, repr=False)
    creds_env: str | None = None
    nkey_seed_file: str | None = None
    nkey_seed: str | None = field(default=None, repr=False)
    nkey_seed_env: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None
    token: str | None = field(default=None, repr=False)
    token_env: str | None = None
    tls_ca: str | None = None
    tls_ca_env: str | None = None
    tls_cert: str | None = None
    tls_cert_env: str | None = None
    tls_key: str | None = None
    tls_key_env: str | None = None
    tls_handshake_first: bool = False
    domain: str | None = None
    api_prefix: str | None = None
    connect_timeout: float = 5.0
    request_timeout: float = 5.0
    connection_name: str | None = None
    server_unavailable_timeout: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "servers", tuple(map(ServerAddress, self.servers)))

    @classmethod
    def from_values(cls, values: Values) -> LinkOptions:
        """Read and check the connection options.

        ``NATS_URL`` is looked up here, on the driver, so executors need not have it.
        """
        servers, context = _servers(values), _context(values)
        if not servers and context is None:
            known = os.environ.get("NATS_URL", DEFAULT_SERVER)
            servers = tuple(part.strip() for part in known.split(","))
        given = [name for kind in _KINDS for name in kind if values.text(name) is not None]
        if len(given) > 1:
            raise SparkOptionError(
                f"options {' and '.join(given)} are different ways to log in; give one",
                code="JETSYNC_AUTH_CONFLICT",
            )
        if values.has("password") and values.has("passwordEnv"):
            raise SparkOptionError(
                "options password and passwordEnv exclude each other", code="JETSYNC_AUTH_CONFLICT"
            )
        if (values.has("password") or values.has("passwordEnv")) and values.text("user") is None:
            raise SparkOptionError("a password needs option 'user'", code="JETSYNC_MISSING_OPTION")
        if values.text("domain") and values.text("apiPrefix"):
            raise SparkOptionError(
                "options domain and apiPrefix exclude each other", code="JETSYNC_OPTION_CONFLICT"
            )
        for name in ("tlsCa", "tlsCert", "tlsKey"):
            if values.text(name) and values.text(f"{name}Env"):
                raise SparkOptionError(
                    f"options {name} and {name}Env exclude each other",
                    code="JETSYNC_OPTION_CONFLICT",
                )
        cert, key = (
            values.text(name) or values.text(f"{name}Env") for name in ("tlsCert", "tlsKey")
        )
        if (cert is None) != (key is None):
            raise SparkOptionError(
                "options tlsCert and tlsKey go together", code="JETSYNC_MISSING_OPTION"
            )
        return cls(
            servers=servers,
            context=context,
            creds_file=_file(values, "credsFile"),
            creds=values.secret("creds"),
            creds_env=values.text("credsEnv"),
            nkey_seed_file=_file(values, "nkeySeedFile"),
            nkey_seed=values.secret("nkeySeed"),
            nkey_seed_env=values.text("nkeySeedEnv"),
            user=values.text("user"),
            password=values.secret("password"),
            password_env=values.text("passwordEnv"),
            token=values.secret("token"),
            token_env=values.text("tokenEnv"),
            tls_ca=_file(values, "tlsCa"),
            tls_ca_env=values.text("tlsCaEnv"),
            tls_cert=_file(values, "tlsCert"),
            tls_cert_env=values.text("tlsCertEnv"),
            tls_key=_file(values, "tlsKey"),
            tls_key_env=values.text("tlsKeyEnv"),
            tls_handshake_first=values.flag("tlsHandshakeFirst", False),
            domain=values.text("domain"),
            api_prefix=values.text("apiPrefix"),
            connect_timeout=values.seconds("connectTimeout", 5.0, positive=True),
            request_timeout=values.seconds("requestTimeout", 5.0, positive=True),
            connection_name=values.text("connectionName") or connection_name(),
            server_unavailable_timeout=values.seconds("serverUnavailableTimeout", 60.0),
        )
