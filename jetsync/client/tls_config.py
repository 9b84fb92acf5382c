"""The settings of TLS. Only connections that speak TLS import the ``ssl`` module: with OpenSSL
behind it, its import takes a tenth of the time of the whole library's."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from jetsync.errors import ConfigError

if TYPE_CHECKING:
    import ssl

__all__ = ["TLS", "TLSConfig", "is_context", "is_tls_error"]


@dataclass(frozen=True, kw_only=True)
class TLSConfig:
    """The files of a TLS setup: picklable, and read anew at every connection attempt.

    So certificates may be replaced while a connection lives, and options may travel to other
    processes, which an ``ssl.SSLContext`` cannot. ``ca_file`` holds the certificates to trust
    (None: the system's); ``cert_file`` and ``key_file`` are the client's own certificate and its
    key (None: in the same file), ``key_password`` opens an encrypted key. All are PEM files.
    """

    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None
    key_password: str | Callable[[], str] | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.key_file is not None and self.cert_file is None:
            raise ConfigError("TLSConfig has a key_file without the cert_file that belongs to it")
        if self.key_password is not None and self.cert_file is None:
            raise ConfigError("TLSConfig has a key_password without a cert_file")


TLS: TypeAlias = "bool | ssl.SSLContext | TLSConfig"
"""The values of ``connect(tls=...)``."""


def is_context(value: object) -> TypeGuard[ssl.SSLContext]:
    """Whether a value is an ``ssl.SSLContext``; there is none before ``ssl`` was imported."""
    known = sys.modules.get("ssl")
    return known is not None and isinstance(value, known.SSLContext)


def is_tls_error(error: BaseException) -> TypeGuard[ssl.SSLError]:
    """Whether an error is an ``ssl.SSLError``."""
    known = sys.modules.get("ssl")
    return known is not None and isinstance(error, known.SSLError)
