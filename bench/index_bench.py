"""index_bench.py - a BTREE over 10 M shuffled keys: made by both libraries, and one row found by its key through it."""
import shutil
import subprocess
import sys
import time

import lance
import numpy as np
import pyarrow as pa

import measure

LAKE = measure.TOOLS.parent / "lake"
FILES = 10


def table(count):
    path = measure.DATA / f"keys{count}.lance"
    if not path.exists():
        random = np.random.default_rng(7)
        for keys in np.array_split(random.permutation(count), FILES):
            rows = pa.table({"id": keys, "value": random.random(len(keys)),
                             "name": [f"{key:016d}" for key in keys]})
            lance.write_dataset(rows, str(path), mode="append" if path.exists() else "create",
                                data_storage_version="2.1")
    return path


def drop(path):
    dataset = lance.dataset(str(path))
    for index in {index["name"] for index in dataset.list_indices()}:
        dataset.drop_index(index)
        dataset = lance.dataset(str(path))
    for directory in (path / "_indices").glob("*"):
        shutil.rmtree(directory)


def timed(make):
    start = time.perf_counter()
    make()
    return time.perf_counter() - start


def create(path, column, count, rounds, what):
    def ours():
        drop(path)
        return timed(lambda: subprocess.run([LAKE, "lance", "index", "create", path, "--column", column], check=True,
                                            stdout=subprocess.DEVNULL))

    def theirs():
        drop(path)
        dataset = lance.dataset(str(path))
        return timed(lambda: dataset.create_scalar_index(column, "BTREE"))

    busy = measure.wait_for_quiet()
    others, mine = measure.in_turns(rounds, theirs, ours)
    measure.report(f"BTREE over 10 M {what}", "s", measure.median(mine), measure.median(others), target=">= 1x",
                   note=f"{count} rows in {FILES} files, page cache warm; ours is a process of its own and fsyncs; medians "
                        f"of {rounds}; others used {busy:.0%} of the cores")


def lookup(path, count, samples):
    subprocess.run([LAKE, "lance", "index", "create", path, "--column", "id"], check=True, stdout=subprocess.DEVNULL)
    keys = iter(np.random.default_rng(11).integers(0, count, 4 * samples + 100).tolist())
    with measure.Helper(measure.TOOLS / "lance_scan", "serve", path) as mine, \
            measure.Helper(sys.executable, measure.ROOT / "bench/lance_peer.py", path) as peer:
        def sample(helper):
            spent, rows = helper.ask(f"equals 0={next(keys)}").split()
            if int(rows) != 1:
                raise SystemExit(f"{rows} rows instead of 1 in {path}")
            return float(spent) * 1000

        samplers = (lambda: sample(mine), lambda: sample(peer))
        measure.in_turns(20, *samplers)
        busy = measure.wait_for_quiet()
        ours, others = measure.in_turns(samples, *samplers)
        measure.report("one row of 10 M by its key, BTREE", "ms", measure.median(ours), measure.median(others),
                       target="<= 1", note=f"3 columns, another key each time, dataset held open, one index for both, "
                                           f"{samples} samples, p99 {measure.percentile(ours, 0.99):.2f} and "
                                           f"{measure.percentile(others, 0.99):.2f} ms; others used {busy:.0%} of the cores")


def main():
    count = measure.size(10_000_000, 50_000)
    measure.DATA.mkdir(parents=True, exist_ok=True)
    path = table(count)
    create(path, "id", count, measure.size(3, 1), "int64")
    create(path, "name", count, measure.size(3, 1), "texts of 16 bytes")
    drop(path)
    lookup(path, count, measure.size(500, 20))


if __name__ == "__main__":
    main()
