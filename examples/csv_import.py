"""A CSV file into a stream: in bulk, each row once, however often the import is repeated."""

import csv
import io
import sys
from collections.abc import Iterator

import jetsync

CSV = "order,customer,amount\n" + "".join(f"{n},c{n % 7},{n * 3}\n" for n in range(20_000))


def messages(rows: Iterator[dict[str, str]]) -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """One message for each row: its subject, its data, and a message id made of its key."""
    for row in rows:
        data = f"{row['customer']},{row['amount']}".encode()
        yield f"import.{row['customer']}", data, {"Nats-Msg-Id": f"order-{row['order']}"}


with jetsync.connect(*sys.argv[1:], name="csv import") as nc:
    js = nc.jetstream()
    stream = js.create_or_update_stream(name="IMPORT", subjects=["import.*"])
    for attempt in ("first", "repeated"):
        report = js.publish_many(messages(csv.DictReader(io.StringIO(CSV))), timeout=60)
        new = report.stored - report.duplicates
        print(f"{attempt}: {new} new, {report.duplicates} known, {len(report.failed)} failed")
    print("in the stream:", stream.info().state.messages)
