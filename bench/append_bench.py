"""append_bench.py - a named append through the whole path, durable when acknowledged: client, Query, Metasrv, Lance, KV."""
import os

import lance
import numpy as np
import pyarrow as pa

import measure
from measure import lake


class Disk:
    """Milliseconds to make one new 4 KiB file durable, its bytes and then its name: the least of any append."""

    def __init__(self, directory):
        self.directory, self.count = directory, 0
        self.handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)

    def write_one(self):
        self.count += 1
        descriptor = os.open(self.directory / f"sync{self.count}", os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(descriptor, b"x" * 4096)
        os.fsync(descriptor)
        os.fsync(self.handle)
        os.close(descriptor)

    def __call__(self):
        return measure.seconds(self.write_one) * 1000


def compare(server, directory, count, target, samples):
    table, path = f"bench.append{count}", directory / f"append{count}.lance"
    server.create(table, measure.SCHEMA)
    lance.write_dataset(pa.table(measure.SCHEMA.empty_table()), path, data_storage_version="2.1")
    batch = measure.rows(count).combine_chunks().to_batches()[0]
    rows = pa.Table.from_batches([batch])
    digest = lake.digest(batch)
    with server.flight() as client:
        ours = lambda: measure.seconds(lake.append, client, table, batch, lake.uuid7(), digest) * 1000
        peer = lambda: measure.seconds(lambda: lance.write_dataset(rows, path, mode="append")) * 1000
        measure.in_turns(5, ours, peer)
        busy = measure.wait_for_quiet()
        mine, others, floor = measure.in_turns(samples, ours, peer, Disk(directory))
    measure.report(
        f"append of {count:,} row{'s' * (count > 1)}, acknowledged durable, p50", "ms", measure.median(mine),
        measure.median(others), target=target, floor=measure.median(floor),
        note=f"DoPut of one named operation, pyarrow client, {samples} appends, p99 "
             f"{measure.percentile(mine, 0.99):.1f} ms; durable before the answer: data file, transaction and manifest, "
             f"their names (6 fsyncs side by side), then the KV's log (1); floor: one 4 KiB file and its name made "
             f"durable; peer: pylance's append of the same rows in this process, which never calls fsync; "
             f"others used {busy:.0%} of the cores")


def main():
    with measure.fresh_directory() as directory, lake.Server(directory / "data") as server:
        compare(server, directory, 1, "<= 6", measure.size(300, 5))
        compare(server, directory, 10_000, "<= 25", measure.size(100, 3))


if __name__ == "__main__":
    main()
