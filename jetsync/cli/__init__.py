"""jetsync.cli - the command ``jetsync`` and its demo. Programs do not need it.

Room:      L7. May import: worker, spark, services, kv, objectstore, jetstream, client, protocol,
           server, hallway. Nothing imports it.
Threads:   of `bench`, one per client; commands run on the main thread, where Ctrl-C comes.
Touch me:  to change a command, its options, its progress and tables, or how it finds Java.
Not here:  starting nats-server (server/), the Spark data source (spark/), what programs call.
"""
