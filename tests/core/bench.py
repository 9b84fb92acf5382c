"""A window of bulk publishes between an outbound and an inbound side; the test plays the server."""

from __future__ import annotations

from jetsync._core.bulk import BulkWindow
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from tests.core.kit import client_frames, message

PREFIX = b"_INBOX.me."


class Bench:
    """Adds messages, answers them by number, and shows what was sent."""

    def __init__(
        self, *, outbound=None, ids=None, fixed=b"", capacity=1000, prefix=PREFIX, **options
    ):
        self.outbound = outbound or Outbound(offline_limit=1 << 30)
        self.inbound = Inbound(self.outbound)
        self.box = Mailbox()
        self.sid = self.inbound.add(self.box)
        self.prefix = prefix
        self.window = BulkWindow(self.outbound, self.box, prefix, ids, fixed, capacity, **options)

    def add(self, *rows):
        """Add all rows, or as many as the window takes."""
        start = 0
        while start < len(rows) and not self.window.full:
            start += self.window.add_rows(list(rows), start)
        return start

    def answer(self, number, payload, header=None):
        subject = self.prefix + b"%s" % str(number).encode()
        self.inbound.feed(message(subject, self.sid, payload, header=header))

    def confirm(self, number, seq, *, duplicate=False):
        more = b',"duplicate": true' if duplicate else b""
        self.answer(number, b'{"stream":"S","seq":%d%s}' % (seq, more))

    def frames(self):
        return client_frames(self.outbound.peek())
