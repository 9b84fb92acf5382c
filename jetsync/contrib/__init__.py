"""jetsync.contrib - NATS for other people's frameworks: kombu's transport, Celery's result backend.

Room:      L6. May import: jetstream. May not: any other; public names of jetsync only.
Threads:   one that renews queues, while there are any that age out (kombu/renewal.py).
Touch me:  to change how Celery and kombu use NATS.
Not here:  what they are made of: streams, consumers, buckets (jetstream/, kv/).
"""
