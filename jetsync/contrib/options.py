"""The options of a transport or a result backend, made of its URL and its ``transport_options``."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from kombu.log import get_logger

from jetsync import ConfigError, ConnectOptions, TLSConfig

__all__ = ["Address", "StoreOptions", "read_options"]

logger = get_logger("jetsync.contrib")

_CONNECT = {field.name for field in dataclasses.fields(ConnectOptions)}

# kombu and Celery keep these in transport_options for themselves or for any transport.
_FOREIGN = {
    "body_encoding",
    "client_properties",
    "confirm_publish",
    "confirm_timeout",
    "deadletter_queue",
    "errback",
    "fanout_patterns",
    "fanout_prefix",
    "global_keyprefix",
    "interval_max",
    "interval_start",
    "interval_step",
    "max_retries",
    "polling_interval",
    "priority_steps",
    "queue_order_strategy",
    "retry_errors",
    "retry_policy",
    "visibility_timeout",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How queues or results are stored. ``ack_wait`` in seconds: so long after the death of a
    worker its messages come back. With ``create=False`` streams and buckets have to be there."""

    name: str
    """The virtual host, or the bucket of results."""
    num_replicas: int = 1
    storage: str = "file"
    ack_wait: float = 30.0
    stream_name: str | None = None
    native_delay: bool = True
    create: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Address:
    """The parts of a URL."""

    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: str | None = None
    path: str | None = None
    tls: Any = None
    """None or False, True, or a mapping as of Celery's ``broker_use_ssl``."""

    @classmethod
    def of_url(cls, url: str, tls: Any = None) -> Address:
        """Take ``nats://user:password@host:port/path`` or ``tls://...`` apart."""
        try:
            parts = urlsplit(url if "://" in url else f"nats://{url}")
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"not a URL of a NATS server: {error}") from None
        return cls(
            host=unquote(parts.hostname or "") or None,
            port=port,
            user=unquote(parts.username or "") or None,
            password=unquote(parts.password or "") or None,
            path=unquote(parts.path) or None,
            tls=tls or parts.scheme == "tls",
        )


_STORE = {field.name for field in dataclasses.fields(StoreOptions)} - {"name"}


def read_options(
    address: Address, given: Mapping[str, Any], *, default: str
) -> tuple[dict[str, Any], StoreOptions]:
    """Return the keywords of :func:`jetsync.shared_connection` and how to store.

    Raises ConfigError for what neither takes; an unknown option is logged once as a warning.
    """
    fields = {key: value for key, value in given.items() if key in _CONNECT}
    store = {key: value for key, value in given.items() if key in _STORE}
    unknown = set(given) - _CONNECT - _STORE - _FOREIGN - {"context"}
    if unknown:
        logger.warning("options that jetsync does not know are ignored: %s", sorted(unknown))
    if given.get("context") is not None:
        fields["context"] = given["context"]
    elif "servers" not in fields:
        host = address.host or "127.0.0.1"
        literal = f"[{host}]" if ":" in host else host
        fields["servers"] = f"nats://{literal}:{address.port or 4222}"
    if address.user and not address.password:
        fields.setdefault("token", address.user)
    elif address.user:
        fields.setdefault("user", address.user)
        fields.setdefault("password", address.password)
    if address.tls and "tls" not in fields:
        fields["tls"] = _tls(address.tls)
    if isinstance(fields.get("servers"), list):
        fields["servers"] = tuple(fields["servers"])
    path = (address.path or "").strip("/")
    return fields, StoreOptions(name=path or default, **store)


_FILES = {"ca_certs": "ca_file", "certfile": "cert_file", "keyfile": "key_file"}


def _tls(given: Any) -> Any:
    """TLS as Celery writes it: True, a context, or names of files."""
    if not isinstance(given, Mapping):
        return given
    unknown = set(given) - set(_FILES) - {"cert_reqs"}
    if unknown:
        raise ConfigError(
            f"TLS takes {', '.join(_FILES)} and cert_reqs, not {', '.join(sorted(unknown))}"
        )
    needed = given.get("cert_reqs", ssl.CERT_REQUIRED)
    if needed not in (ssl.CERT_REQUIRED, "required", "CERT_REQUIRED"):
        raise ConfigError(
            "cert_reqs has to be ssl.CERT_REQUIRED: certificates are checked always; "
            'for other rules give an ssl.SSLContext as the transport option "tls"'
        )
    return TLSConfig(**{_FILES[key]: given[key] for key in _FILES if given.get(key)})
