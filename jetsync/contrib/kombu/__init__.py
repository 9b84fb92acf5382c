"""jetsync.contrib.kombu - kombu's transport: Celery's broker on NATS JetStream.

Room:      L6. May import: jetstream. May not: any other; public names of jetsync only.
Threads:   one that renews queues, while there are any that age out (renewal.py).
Touch me:  to change how queues, exchanges, priorities and delays are kept in NATS.
Not here:  results (contrib/celery/).

``broker_transport = "jetsync.contrib.kombu:Transport"`` with a ``nats://`` URL, or import this
package and write ``jetsync+nats://host/vhost``.
"""

try:
    import kombu as _kombu
except ImportError:
    from jetsync import ConfigError

    raise ConfigError('kombu is missing: pip install "jetsync[celery]"') from None

from kombu.transport import TRANSPORT_ALIASES

from jetsync.contrib.kombu.channel import Channel, QoS
from jetsync.contrib.kombu.transport import Transport

__all__ = ["Channel", "QoS", "Transport"]

TRANSPORT_ALIASES["jetsync"] = "jetsync.contrib.kombu:Transport"
for _alias in ("nats", "tls"):
    TRANSPORT_ALIASES.setdefault(_alias, "jetsync.contrib.kombu:Transport")
