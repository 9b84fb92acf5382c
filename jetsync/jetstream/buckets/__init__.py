"""jetsync.jetstream.buckets - what key-value and object stores share: state, listing, watchers.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own.
Touch me:  to change what key-value and object stores have in common: their state, their watchers.
Not here:  keys, entries, objects and chunks (kv/, objectstore/), which are the floor above.
"""
