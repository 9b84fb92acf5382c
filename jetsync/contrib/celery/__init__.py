"""jetsync.contrib.celery - Celery's result backend on a NATS key-value bucket.

Room:      L6. May import: jetstream. May not: any other; public names of jetsync only.
Threads:   none of its own.
Touch me:  to change how results, groups and chords are kept in NATS.
Not here:  the broker (contrib/kombu/).

``result_backend = "jetsync+nats://host:4222/bucket"``: Celery finds it by its entry point.
"""

try:
    import celery as _celery
except ImportError:
    from jetsync import ConfigError

    raise ConfigError('celery is missing: pip install "jetsync[celery]"') from None

from jetsync.contrib.celery.backend import KeyValueBackend

__all__ = ["KeyValueBackend"]
