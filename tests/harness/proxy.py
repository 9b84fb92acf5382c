"""The proxy of ``jetsync.testing``, with all that it can do."""

from jetsync.testing.proxy import Proxy

__all__ = ["Proxy"]
