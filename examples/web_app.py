"""A web application (plain WSGI): each request publishes and answers when the order is stored.

Run it under any server, for example ``gunicorn --preload -w 4 --threads 8 web_app:application``:
every worker process makes a connection of its own at its first request.
"""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import jetsync

URL = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    js = jetsync.shared_connection(URL).jetstream()
    try:
        ack = js.publish("web.orders", body, msg_id=environ.get("HTTP_IDEMPOTENCY_KEY"), timeout=2)
    except jetsync.PublishUnknownError:
        start("202 Accepted", [("Content-Type", "text/plain")])
        return [b"perhaps stored; repeat with the same Idempotency-Key\n"]
    except jetsync.NotStoredError as error:
        start("503 Service Unavailable", [("Content-Type", "text/plain")])
        return [f"not stored: {error}\n".encode()]
    start("200 OK" if ack.duplicate else "201 Created", [("Content-Type", "text/plain")])
    return [f"order {ack.seq}\n".encode()]


def demo() -> None:
    """Serve on a free port, and be the browser, too."""
    import http.client
    import threading
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    js = jetsync.shared_connection(URL).jetstream()
    js.create_or_update_stream(name="WEB", subjects=["web.>"])
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for key in ("a", "b", "a"):
            browser = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            browser.request("POST", "/", b"an order", {"Idempotency-Key": key})
            response = browser.getresponse()
            print(key, response.status, response.read().decode().strip())
            browser.close()
        server.shutdown()
        thread.join()
    jetsync.shared_connection(URL).close()


if __name__ == "__main__":
    demo()
