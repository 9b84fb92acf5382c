"""Configuration in a key-value bucket: read at the start, followed while the program runs."""

import sys

import jetsync

with jetsync.connect(*sys.argv[1:], name="configured") as nc:
    js = nc.jetstream()
    bucket = js.create_or_update_key_value(bucket="settings", history=3)
    bucket.put("rates.eur", b"1.09")
    bucket.put("rates.gbp", b"1.27")

    watcher = bucket.watch("rates.>")
    settings = {entry.key: entry.value for entry in watcher.initial(timeout=5)}
    print("at the start:", dict(sorted(settings.items())))

    revision = bucket.put("rates.eur", b"1.10")
    bucket.delete("rates.gbp")
    for _ in range(2):
        entry = watcher.next(timeout=5)
        print("changed:", entry.key, entry.operation.name, entry.value)
    watcher.stop()

    try:
        bucket.update("rates.eur", b"1.11", revision - 1)
    except jetsync.KeyWrongRevisionError:
        print("another writer was faster; read again:", bucket["rates.eur"])
