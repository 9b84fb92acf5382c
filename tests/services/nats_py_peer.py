"""nats-py's own services, in a process of their own: ``python nats_py_peer.py serve|ask URL NAME``.

``serve`` offers a service until its input ends; ``ask`` prints as JSON what it learns of one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import nats
from nats import micro
from nats.micro.request import Request
from nats.micro.service import ServiceInfo, ServicePing, ServiceStats


async def serve(url: str, name: str) -> None:
    """Offer endpoints; say "ready" when they are there."""
    nc = await nats.connect(url)

    async def echo(request: Request) -> None:
        await request.respond(request.data, headers={"Heard": (request.headers or {})["Say"]})

    async def refuse(request: Request) -> None:
        await request.respond_error("404", "no such thing", data=b"details")

    async def fail(request: Request) -> None:
        raise ValueError("broken")

    service = await micro.add_service(
        nc, name=name, version="2.1.0", description="theirs", metadata={"k": "v"}
    )
    await service.add_endpoint(name="echo", subject=f"{name}.echo", handler=echo)
    group = service.add_group(name=name, queue_group="g")
    await group.add_endpoint(name="refuse", handler=refuse, metadata={"m": "n"})
    await group.add_endpoint(name="fail", handler=fail)
    # A flush of nats-py sends its PING before what waits to be written. By the time it is answered
    # the subscriptions have left, and the second answer says that the server has them.
    await nc.flush()
    await nc.flush()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await service.stop()
    await nc.close()


async def ask(url: str, name: str) -> None:
    """Ask for the documents and for two answers of our service."""
    nc = await nats.connect(url)
    found: dict[str, Any] = {}
    for verb, kind in (("PING", ServicePing), ("INFO", ServiceInfo), ("STATS", ServiceStats)):
        msg = await nc.request(f"$SRV.{verb}.{name}", timeout=20)
        found[verb] = kind.from_dict(json.loads(msg.data)).to_dict()
    good = await nc.request(f"{name}.echo", b"data", headers={"Say": "a"}, timeout=20)
    bad = await nc.request(f"{name}.refuse", timeout=20)
    found["echo"] = [good.data.decode(), good.headers]
    found["refuse"] = [bad.data.decode(), bad.headers]
    await nc.close()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run({"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:]))
