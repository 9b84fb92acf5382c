"""Declaring: queues, exchanges and bindings of a channel, as kombu reads and writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp.protocol import (  # type: ignore[import-untyped, unused-ignore]
    queue_declare_ok_t,
)
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments

from jetsync.contrib.gevent import call
from jetsync.contrib.kombu.renewal import Declared

if TYPE_CHECKING:
    from jetsync.contrib.kombu.broker import Broker

__all__ = ["DeclaringChannel"]


class DeclaringChannel(virtual.Channel):
    """The part of a channel that declares, binds and deletes. Its methods block."""

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._broker: Broker = connection.broker
        self._exclusive: set[str] = set()
        self._declared: dict[str, Declared] = {}
        self._tables: dict[str, tuple[int, list[Any]]] = {}

    # -- declaring ---------------------------------------------------------------------------------

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        """Times and priorities of a kombu Queue, as AMQP's arguments."""
        return to_rabbitmq_queue_arguments(arguments, **options)

    def _new_queue(
        self,
        queue: str,
        auto_delete: bool = False,
        exclusive: bool = False,
        arguments: Any = None,
        **_: Any,
    ) -> None:
        record = call(
            self._broker.declare,
            queue,
            auto_delete=auto_delete,
            exclusive=exclusive,
            arguments=arguments,
        )
        if exclusive:
            self._exclusive.add(queue)
        known = self._declared.setdefault(queue, Declared(record))
        known.record = record
        known.renewed()

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        """Declare a queue. With ``passive`` only ask how many messages it has; a queue that is not
        there is a ChannelError then. Blocks."""
        if passive and queue and self._has_queue(queue):
            return queue_declare_ok_t(queue, self._size(queue), 0)
        return super().queue_declare(queue, passive, **options)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        routes = self._broker.routes
        if routes.queue(queue) is None:
            call(routes.catch_up)
        return routes.queue(queue) is not None

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Bind a queue to an exchange. Blocks."""
        exchange = exchange or "amq.direct"
        routing_key = routing_key or ""
        type = self.typeof(exchange).type
        call(self._broker.bind, exchange, type, queue, routing_key)
        declared = self._declared.get(queue)
        if declared is not None and (exchange, type, routing_key) not in declared.bound:
            declared.bound.append((exchange, type, routing_key))

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Take a binding away. Blocks."""
        exchange = exchange or "amq.direct"
        call(self._broker.routes.unbind, exchange, queue, routing_key or "")
        declared = self._declared.get(queue)
        if declared is not None:
            gone = (exchange, routing_key or "")
            declared.bound = [bound for bound in declared.bound if bound[::2] != gone]

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any
    ) -> None:
        """Delete a queue with its messages. Blocks."""
        if if_empty and self._size(queue):
            return
        self._forget(queue)
        call(self._broker.delete, queue)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        """Delete an exchange: its bindings. Blocks."""
        for queue, routing_key in self._broker.routes.bindings(exchange):
            call(self._broker.routes.unbind, exchange, queue, routing_key)
        self.state.exchanges.pop(exchange, None)

    def _forget(self, queue: str) -> None:
        declared = self._declared.pop(queue, None)
        if declared is not None:
            self._broker.renewals.drop(declared)
        self._exclusive.discard(queue)

    def _size(self, queue: str) -> int:
        return call(self._broker.size, queue)

    def _purge(self, queue: str) -> int:
        return call(self._broker.purge, queue)

    # -- routing -----------------------------------------------------------------------------------

    def typeof(self, exchange: str, default: str = "direct") -> Any:
        """The type of an exchange, as it was declared here or bound elsewhere."""
        known = self.state.exchanges.get(exchange)
        type = known["type"] if known else self._broker.routes.exchange_type(exchange)
        return self.exchange_types[type or default]

    def get_exchanges(self) -> list[str]:
        """The exchanges that are declared here or bound elsewhere."""
        return sorted({*self.state.exchanges, *self._broker.routes.exchanges()})

    def list_bindings(self) -> Any:
        """Queue, exchange and routing key of each binding."""
        routes = self._broker.routes
        return (
            (queue, exchange, routing_key)
            for exchange in routes.exchanges()
            for queue, routing_key in routes.bindings(exchange)
        )

    def get_table(self, exchange: str) -> list[Any]:
        """The bindings of an exchange, as kombu's exchange types read them."""
        routes = self._broker.routes
        bindings = routes.bindings(exchange)
        known = self._tables.get(exchange)
        if known is not None and known[0] == routes.version:
            return known[1]
        type = self.typeof(exchange)
        table = [type.prepare_bind(queue, exchange, key, None) for queue, key in bindings]
        self._tables[exchange] = routes.version, table
        return table
