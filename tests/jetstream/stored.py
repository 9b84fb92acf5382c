"""Messages for tests of direct gets."""

from __future__ import annotations

COLUMNS = "subject data headers stream_seq consumer_seq num_delivered num_pending timestamp reply"


def fill(js, stream, count=10):
    for n in range(count):
        headers = {"N": [str(n), "again"], "Only": "odd"} if n % 2 else None
        js.publish(f"{stream.name}.{n % 3}", b"%d" % n, headers=headers, msg_id=None)
