"""``jetsync account``: what an account holds in JetStream, and its limits."""

from __future__ import annotations

from jetsync.cli import values
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields
from jetsync.cli.registry import Command
from jetsync.errors import JetStreamNotEnabledError

__all__ = ["COMMANDS"]


def _info(invocation: Invocation) -> None:
    nc = invocation.connect()
    server = nc.server_info
    assert server is not None  # connect() has returned
    seconds = nc.rtt()
    try:
        account = invocation.jetstream().account_info()
    except JetStreamNotEnabledError:
        account = None
    connection: dict[str, object] = {
        "url": nc.connected_url,
        "server_name": server.server_name,
        "version": server.version,
        "cluster": server.cluster,
        "client_id": nc.client_id,
        "client_ip": server.client_ip,
        "max_payload": server.max_payload,
        "rtt": round(seconds * 1e9),
    }

    def view() -> Fields:
        sections: dict[str, dict[str, object]] = {
            "Connection": {
                "Server": f"{server.server_name} at {nc.connected_url}",
                "Version": server.version,
                "Cluster": server.cluster or None,
                "Round trip": values.format_duration(seconds),
                "Client id": nc.client_id,
                "Our address": server.client_ip,
                "Most per message": values.format_size(server.max_payload),
            }
        }
        if account is None:
            sections["JetStream"] = {"": "not enabled for this account"}
        else:
            limits = account.limits
            sections["JetStream"] = {
                "Domain": account.domain,
                "File storage": _of(account.storage, limits.max_storage),
                "Memory": _of(account.memory, limits.max_memory),
                "Streams": _count(account.streams, limits.max_streams),
                "Consumers": _count(account.consumers, limits.max_consumers),
                "API requests": f"{account.api.total:,}, {account.api.errors:,} of them errors",
                "API level": account.api.level,
            }
        return Fields("Account", sections)

    invocation.out.show({"connection": connection, "jetstream": account}, view)


def _of(used: int, most: int) -> str:
    return f"{values.format_size(used)} of {values.format_size(most)}"


def _count(used: int, most: int) -> str:
    return f"{used:,} of {'any number' if most < 0 else f'{most:,}'}"


COMMANDS = (
    Command(
        "info",
        "show the connection, and storage and limits of the account",
        _info,
        example="jetsync account info --json",
        default=True,
        other=("nfo",),
    ),
)
