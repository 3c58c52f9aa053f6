"""write_bench.py - 10 M rows become a Lance dataset: our engine and pylance, from the same Arrow stream in a file.

pylance never calls fsync: the figure is without. Ours with fsync stands beside it, and how large the files are.
"""
import shutil
import sys

import pyarrow as pa

import measure

PEER = """
import sys, time, lance, pyarrow as pa
for line in sys.stdin:
    start = time.perf_counter()
    with pa.memory_map(sys.argv[1]) as source:
        lance.write_dataset(pa.ipc.open_stream(source), line.strip(), data_storage_version="2.1")
    print(time.perf_counter() - start, flush=True)
"""


def make_stream(count):
    path = measure.DATA / f"stream{count}.arrow"
    if not path.exists():
        part = path.with_suffix(".part")
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_stream(file, measure.SCHEMA) as writer:
            for batch in measure.batches(count):
                writer.write_batch(batch)
        part.rename(path)
    return path


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*.lance") if path.is_file())


def main():
    count, rounds = measure.size(10_000_000, 100_000), measure.size(5, 2)
    measure.DATA.mkdir(parents=True, exist_ok=True)
    stream = make_stream(count)
    with measure.fresh_directory() as scratch, measure.Helper(measure.TOOLS / "lance_write", stream) as mine, \
            measure.Helper(sys.executable, "-c", PEER, stream) as peer:
        sizes = {}

        def sample(helper, name, how=""):
            target = scratch / name
            shutil.rmtree(target, ignore_errors=True)
            spent = float(helper.ask(f"{target} {how}".strip()))
            sizes[name] = size_of(target)
            return spent

        samplers = (lambda: sample(mine, "ours", "no-sync"), lambda: sample(peer, "theirs"),
                    lambda: sample(mine, "synced", "sync"))
        for sampler in samplers:
            sampler()
        busy = measure.wait_for_quiet()
        ours, theirs, synced = map(measure.median, measure.in_turns(rounds, *samplers))
    note = f"4 columns, files of 2.1, a million rows a file, medians of {rounds}; ours with fsync {synced:.3f} s; " \
           f"others used {busy:.0%} of the cores"
    measure.report("write of 10 M rows, no fsync", "s", ours, theirs, target=">= 1.5x", note=note)
    measure.report("size of these files", "MB", sizes["ours"] / 1e6, sizes["theirs"] / 1e6, target=">= 0.87x",
                   note="the promise: at most 1.15 times pylance's")


if __name__ == "__main__":
    main()
