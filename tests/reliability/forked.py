"""A program that forks in the middle of traffic: ``python -m tests.reliability.forked``.

The links of the core have no hook for forks; the client room has one and abandons what was
inherited. What the core owes is that a child which does so can exit, and that the parent does not
notice.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings

from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox, abandon
from jetsync._core.outbound import Outbound
from tests.core.kit import LONG, Thread, message, pair


def main() -> None:
    # Newer Pythons warn about forking with threads, which is the very thing to be shown here.
    warnings.simplefilter("ignore", DeprecationWarning)
    children = 10
    with pair() as (ours, theirs):
        outbound = Outbound(write_timeout=LONG)
        inbound, box = Inbound(outbound), Mailbox()
        inbound.add(box)
        outbound.attach(ours.fileno(), b"", 1 << 20)
        stop = threading.Event()

        def serve() -> int:
            """Read what is published and send as many messages back."""
            total, tail = 0, b""
            while not tail.endswith(b"PING\r\n"):
                data = theirs.recv(1 << 16)
                total += len(data)
                tail = (tail + data)[-6:]
                theirs.sendall(message(payload=b"x") * 20)
            return total - len(tail)

        def publish() -> int:
            total = 0
            while not stop.is_set():
                outbound.publish("s", b"y" * 100)
                total += len(b"PUB s 100\r\n") + 102
                if total % 7 == 0:
                    outbound.send_now()
            return total

        threads = [Thread(outbound.pump), Thread(inbound.pump, ours.fileno())]
        server, publisher = Thread(serve), Thread(publish)
        for _ in range(children):
            for _ in range(200):
                assert box.get(LONG) is not None
            pid = os.fork()
            if pid == 0:
                for thing in (outbound, inbound, box):
                    abandon(thing)
                # The whole of the interpreter's end, not os._exit: objects are freed there.
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        total = publisher.finish()
        # The link is as good as before: all that was published arrives.
        outbound.ping()
        assert server.finish() == total
        outbound.close()
        ours.shutdown(2)
        for thread in threads:
            thread.finish()
    print("fine", flush=True)


if __name__ == "__main__":
    main()
