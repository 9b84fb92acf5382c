"""ServiceClient: calls services, and finds them (ADR-32)."""

from __future__ import annotations

from typing import TypeVar

from jetsync._deadline import Seconds
from jetsync._log import Log
from jetsync.client import Connection, Msg
from jetsync.errors import ConfigError, NoRespondersError, ProtocolError, ServiceError
from jetsync.headers import HeaderInput
from jetsync.services.documents import ServiceInfo, ServicePing, ServiceStats
from jetsync.services.names import DEFAULT_PREFIX, check_name, check_prefix, discovery_subject
from jetsync.services.request import ERROR, ERROR_CODE

__all__ = ["ServiceClient"]

logger: Log = Log("jetsync.services")

T = TypeVar("T", bound=ServicePing)


class ServiceClient:
    """Calls services over a connection and discovers them.

    ``prefix`` is that of the services' discovery, ``timeout`` the default of :meth:`call` (None:
    the connection's). Holds nothing that needs closing. Thread-safe.
    """

    def __init__(
        self, nc: Connection, *, prefix: str = DEFAULT_PREFIX, timeout: Seconds | None = None
    ) -> None:
        self._nc = nc
        self._prefix = check_prefix(prefix)
        self._timeout = timeout

    def call(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
        timeout: Seconds | None = None,
    ) -> Msg:
        """Send ``data`` and ``headers`` to the ``subject`` of an endpoint and return its answer.
        Blocks up to ``timeout`` seconds (default: that of this object).

        Raises ServiceError when the answer is an error, NoRespondersError at once when no instance
        listens, TimeoutError, and what ``Connection.request`` raises.
        """
        seconds = self._timeout if timeout is None else timeout
        msg = self._nc.request(subject, data, timeout=seconds, headers=headers)
        text, code = msg.headers.get(ERROR), msg.headers.get(ERROR_CODE)
        if text is None and code is None:
            return msg
        raise ServiceError(_code(code), text or "", msg.data)

    def ping(
        self,
        name: str | None = None,
        id: str | None = None,
        *,
        max_responses: int | None = None,
        stall: Seconds | None = 0.5,
        timeout: Seconds = 2.0,
    ) -> list[ServicePing]:
        """Return the running instances: all, those with the ``name``, or the one with the ``id``.

        Blocks until ``max_responses`` came, until ``stall`` seconds after the last one, and
        ``timeout`` seconds at most. Without instances the list is empty. An answer that cannot be
        read is left out, with a warning in the log. Raises ConfigError, DisconnectedError,
        PermissionsError.
        """
        return self._ask("PING", ServicePing, name, id, max_responses, stall, timeout)

    def info(
        self,
        name: str | None = None,
        id: str | None = None,
        *,
        max_responses: int | None = None,
        stall: Seconds | None = 0.5,
        timeout: Seconds = 2.0,
    ) -> list[ServiceInfo]:
        """Return the descriptions of services and their endpoints: of all, of those with the
        ``name``, or of the one with the ``id``.

        Blocks as :meth:`ping` does, with the same limits ``max_responses``, ``stall`` and
        ``timeout`` (seconds). Raises ConfigError, DisconnectedError, PermissionsError.
        """
        return self._ask("INFO", ServiceInfo, name, id, max_responses, stall, timeout)

    def stats(
        self,
        name: str | None = None,
        id: str | None = None,
        *,
        max_responses: int | None = None,
        stall: Seconds | None = 0.5,
        timeout: Seconds = 2.0,
    ) -> list[ServiceStats]:
        """Return the statistics of services: of all, of those with the ``name``, or of the one with
        the ``id``.

        Blocks as :meth:`ping` does, with the same limits ``max_responses``, ``stall`` and
        ``timeout`` (seconds). Raises ConfigError, DisconnectedError, PermissionsError.
        """
        return self._ask("STATS", ServiceStats, name, id, max_responses, stall, timeout)

    def _ask(
        self,
        verb: str,
        kind: type[T],
        name: str | None,
        instance: str | None,
        most: int | None,
        stall: Seconds | None,
        timeout: Seconds,
    ) -> list[T]:
        if name is not None:
            check_name("a service", name)
        if instance is not None:
            check_name("an instance", instance)
            if name is None:
                raise ConfigError("an id needs the name of its service")
            most = 1
        subject = discovery_subject(self._prefix, verb, name, instance)
        found: list[T] = []
        try:
            for msg in self._nc.request_many(
                subject, timeout=timeout, max_messages=most, stall=stall
            ):
                try:
                    found.append(kind.from_json(msg.data))
                except ProtocolError as error:
                    logger.warning("an answer on %s is left out: %s", subject, error)
        except NoRespondersError:
            pass
        return found

    def __repr__(self) -> str:
        return f"ServiceClient({self._nc!r}, prefix={self._prefix!r})"


def _code(text: str | None) -> int:
    """The number of an error; 0 when the service sent none."""
    try:
        return int(text or 0)
    except ValueError:
        return 0
