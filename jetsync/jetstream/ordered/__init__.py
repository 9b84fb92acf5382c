"""jetsync.jetstream.ordered - ordered consumers: every message once and in order, over failures.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change when a reader is made anew, from where, and what the user sees of it.
Not here:  one pull and its statuses (pull/), ordered push subscriptions (push/).
"""
