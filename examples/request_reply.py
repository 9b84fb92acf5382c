"""Request and reply with core NATS: two threads answer, the one that is free first."""

import json
import sys

import jetsync


def add(msg: jetsync.Msg) -> None:
    try:
        numbers = json.loads(msg.data)
        msg.respond(json.dumps(sum(numbers)).encode())
    except (ValueError, TypeError) as error:
        msg.respond(headers={"Error": str(error)})


with jetsync.connect(*sys.argv[1:], name="adder") as nc:
    for _ in range(2):
        nc.subscribe("add", queue="adders", callback=add)

    print(nc.request("add", b"[1, 2, 3]", timeout=5).data.decode())
    print("refused:", nc.request("add", b'["a"]', timeout=5).headers["Error"])
    try:
        nc.request("subtract", b"[]", timeout=5)
    except jetsync.NoRespondersError as error:
        print(error)
