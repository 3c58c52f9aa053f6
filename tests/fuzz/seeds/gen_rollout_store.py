#!/usr/bin/env python3
"""gen_rollout_store.py STORE OUT - packs the directory of a rollout store for fuzz_rollout_store: a row of objects, each u8
size of the key, key, u32 size of the bytes, bytes. With --unlisted the newest manifest of each shard is left out: what it
listed is in the log alone then. Filters and transactions, which no reader opens, are left out."""
import pathlib
import sys

root, out = map(pathlib.Path, sys.argv[1:3])
files = sorted(path for path in root.rglob("*") if path.is_file())


def version(path):
    return int(path.stem[::-1], 2)


newest = {}
for path in files:
    if path.suffix == ".binpb":
        newest[path.parent] = max(version(path), newest.get(path.parent, 0))
packed = bytearray()
for path in files:
    key = str(path.relative_to(root)).encode()
    if path.name == "bloom_filter.bin" or b"_transactions" in key or path.name.startswith("."):
        continue
    if "--unlisted" in sys.argv and path.suffix == ".binpb" and version(path) == newest[path.parent]:
        continue
    content = path.read_bytes()
    packed += bytes([len(key)]) + key + len(content).to_bytes(4, "little") + content
out.write_bytes(packed)
