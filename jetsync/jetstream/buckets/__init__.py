"""jetsync.jetstream.buckets - what all kinds of buckets are: a stream, looked at in another way.

Room:      L4, a part of jetstream/. May import: client, protocol, hallway, jetstream rooms below.
Threads:   none of its own.
Touch me:  to change what key-value and object stores have in common: their state, their watchers.
Not here:  keys, entries, objects and chunks (kv/, objectstore/), which are the floor above.
"""
