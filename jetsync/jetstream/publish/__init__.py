"""jetsync.jetstream.publish - publishing: outcomes, retries, futures, bulk and atomic batches.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change retries, outcomes, windows, futures, bulk or atomic publishing.
Not here:  the bytes of a frame (_core/, csrc/); publishing without a stream (client/).
"""
