"""The errors of connections, requests and arguments."""

from __future__ import annotations

import builtins

from jetsync._printable import printable

__all__ = [
    "AuthorizationError",
    "ConfigError",
    "ConnectError",
    "ConnectionClosedError",
    "DisconnectedError",
    "DrainingError",
    "Error",
    "ForkedError",
    "MaxPayloadError",
    "NoRespondersError",
    "NoServersError",
    "OutboundFullError",
    "PermissionsError",
    "ProtocolError",
    "PullUnansweredError",
    "ServerError",
    "ServerUnavailableError",
    "SlowConsumerError",
    "StaleConnectionError",
    "TLSRequiredError",
    "TimeoutError",
]


class Error(Exception):
    """Base of everything jetsync raises.

    Subclasses take one positional message; anything else is a keyword with a default, so that
    every error survives pickling (attributes travel in ``__dict__``). Control characters in the
    text, which a peer may have sent, are escaped: it is always one line.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message) if isinstance(message, str) else message)


class ConfigError(Error, ValueError):
    """An option, name or argument is wrong; nothing was sent. Correct the one named."""


class ConnectError(Error, ConnectionError):
    """No connection could be made. The text names the last server tried and why it failed."""


class NoServersError(ConnectError):
    """Every known server was tried and none gave a connection. Check the URLs and the network."""


class AuthorizationError(ConnectError):
    """The server refused the credentials, or they expired. Check what you gave."""


class TLSRequiredError(ConnectError):
    """One side insists on TLS and the other does not offer it. Check the URL scheme and ``tls``."""


class ConnectionClosedError(Error, ConnectionError):
    """The connection is closed, so nothing more can be done with it. Make a new one."""


class ForkedError(ConnectionClosedError):
    """The connection was made in another process (before a fork). Connect again in this one."""


class DrainingError(ConnectionClosedError):
    """The connection or subscription is being drained and takes no new work."""


class DisconnectedError(Error, ConnectionError):
    """The link broke while this call waited. The request may have been carried out."""


class StaleConnectionError(DisconnectedError):
    """The server stopped answering pings, so the link was given up."""


class ServerError(Error):
    """The server reported an error (an ``-ERR`` line); its own words are the text."""


class PermissionsError(ServerError):
    """The account may not publish or subscribe to ``subject``. Ask for the permission."""

    def __init__(
        self,
        message: str = "",
        *,
        subject: str | None = None,
        queue: str | None = None,
        operation: str | None = None,
    ) -> None:
        super().__init__(message)
        self.subject = subject
        self.queue = queue
        self.operation = operation


class ProtocolError(Error):
    """The server sent bytes that break the NATS protocol. The link is replaced."""


class TimeoutError(Error, builtins.TimeoutError):
    """The time budget of a call is used up; ``operation`` says of which."""

    def __init__(self, message: str = "", *, operation: str | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class PullUnansweredError(TimeoutError):
    """The server did not answer a pull in time: this does not mean that there are no messages.

    ``cause`` is ``"link"`` (there is no link, it takes nothing more, or it is still bringing a
    message), ``"leader"`` (no server leads the consumer at the moment) or ``"server"`` (the server
    hangs). Call again: what was on its way is returned then.
    """

    def __init__(
        self, message: str = "", *, cause: str = "server", operation: str | None = None
    ) -> None:
        super().__init__(message, operation=operation)
        self.cause = cause


class NoRespondersError(Error):
    """The requested subject has no subscriber (status 503). Raised at once, not after a timeout."""

    def __init__(self, message: str = "", *, subject: str | None = None) -> None:
        super().__init__(message)
        self.subject = subject


class MaxPayloadError(Error):
    """The message is larger than the server's ``max_payload``; nothing was sent."""


class OutboundFullError(Error):
    """The outbound buffer stayed full (server slow or away). Nothing of the message left."""


class SlowConsumerError(Error):
    """A subscription's limit was hit, new messages were dropped. Given to ``on_error``."""

    def __init__(self, message: str = "", *, subject: str | None = None, dropped: int = 0) -> None:
        super().__init__(message)
        self.subject = subject
        self.dropped = dropped


class ServerUnavailableError(Error):
    """The embedded nats-server could not be found or started; the text says what to do."""
