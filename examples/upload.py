"""A large object with progress: written in chunks, read back as a file that can seek."""

import hashlib
import sys

import jetsync

SIZE = 5_000_000
CHUNK = bytes(range(256)) * 1_000


def chunks(total: int) -> list[bytes]:
    whole, rest = divmod(total, len(CHUNK))
    return [CHUNK] * whole + [CHUNK[:rest]]


shown: list[int] = []


def progress(done: int) -> None:
    percent = 100 * done // SIZE // 25 * 25
    if percent not in shown:
        shown.append(percent)
        print(f"{percent} %")


with jetsync.connect(*sys.argv[1:], name="upload") as nc:
    js = nc.jetstream()
    store = js.create_or_update_object_store(bucket="models")
    info = store.put("weights.bin", chunks(SIZE), on_progress=progress)
    print(info.name, info.size, "bytes in", info.chunks, "chunks")

    with store.open("weights.bin") as file:
        file.seek(-4, 2)
        print("its last bytes:", file.read().hex())
    digest = hashlib.sha256(store.get_bytes("weights.bin")).hexdigest()
    print("whole:", digest == hashlib.sha256(b"".join(chunks(SIZE))).hexdigest())
