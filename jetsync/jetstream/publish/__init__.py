"""jetsync.jetstream.publish - publishing: outcomes, retries, futures, bulk and atomic batches.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   publish, published: they settle asynchronous publishes, and run their callbacks.
Touch me:  to change retries, outcomes, windows, futures, bulk or atomic publishing.
Not here:  the bytes of a frame (_core/, csrc/); publishing without a stream (client/).
"""
