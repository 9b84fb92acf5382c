"""A service: counts words on request, until SIGTERM or Ctrl-C.

    python service.py
    jetsync req words.count 'how many are these'
    jetsync service stats words

Start it several times: the instances share the requests. A request that came before the end is
answered. Needs nothing but ``pip install jetsync``.
"""

from __future__ import annotations

import argparse
import signal
import threading

import jetsync
from jetsync.services import ServiceRequest


def count(request: ServiceRequest) -> bytes:
    """Answer with the number of words."""
    try:
        text = request.data.decode()
    except UnicodeDecodeError:
        raise jetsync.ServiceError(400, "the text must be UTF-8") from None
    return str(len(text.split())).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="nats://127.0.0.1:4222")
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with (
        jetsync.connect(given.servers, name="words") as nc,
        nc.add_service("words", "1.0.0", threads=given.threads) as service,
    ):
        service.add_endpoint("count", count, subject="words.count")
        nc.flush()
        print(f"service words {service.id} on {nc.connected_url}", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
