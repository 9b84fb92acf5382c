"""Reads a stored message with nats-py: ``nats_py_reader.py URL STREAM`` prints it as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

import nats


async def read(url: str, stream: str) -> None:
    """Print the headers and the data of the first message."""
    nc = await nats.connect(url)
    msg = await nc.jetstream().get_msg(stream, seq=1)
    await nc.close()
    assert msg.data is not None
    print(json.dumps([msg.headers, msg.data.decode()]))


if __name__ == "__main__":
    asyncio.run(read(*sys.argv[1:]))
