"""read_bench.py - Lance files read by our engine and by pylance in turns: scans, columns, filters, takes, small files."""
import contextlib
import subprocess
import sys

import lance
import numpy as np
import pyarrow as pa

import measure

COUNT = measure.size(10_000_000, 100_000)
PER_FILE = measure.size(1 << 20, 20_000)
ROUNDS = measure.size(9, 2)


# -- tables ----------------------------------------------------------------------------------------
def ours(name, schema, batches):
    """A table written by our engine, a million rows a file."""
    path = measure.DATA / name
    if not path.exists():
        arrow, half = measure.DATA / f"{name}.arrow", measure.DATA / f"{name}.half"
        with pa.OSFile(str(arrow), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        for command in ("create", "append"):
            subprocess.run([measure.TOOLS / "lance_scan", command, half, arrow], check=True)
        arrow.unlink()
        half.rename(path)
    return path


def theirs(name, schema, batches, version, rows_per_file=PER_FILE):
    """The same by pylance."""
    path = measure.DATA / name
    if not path.exists():
        half = measure.DATA / f"{name}.half"
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        lance.write_dataset(reader, half, data_storage_version=version, max_rows_per_file=rows_per_file)
        half.rename(path)
    return path


VECTORS = pa.schema([pa.field("id", pa.int64(), False), pa.field("vector", pa.list_(pa.float32(), 768), False)])


def vectors(count, step=10_000):
    random = np.random.default_rng(7)
    for first in range(0, count, step):
        rows = min(step, count - first)
        values = pa.array(random.random(rows * 768, dtype=np.float32))
        yield pa.record_batch([pa.array(np.arange(first, first + rows)),
                               pa.FixedSizeListArray.from_arrays(values, 768)], schema=VECTORS)


def one_row_fragments(count):
    path = measure.DATA / f"fragments{count}.lance"
    if not path.exists():
        half = measure.DATA / "fragments.half"
        for number in range(count):
            lance.write_dataset(measure.rows(1, number), half, mode="append", data_storage_version="2.1")
        half.rename(path)
    return path


def offsets(name, count, total):
    path = measure.DATA / f"{name}.u64"
    np.random.default_rng(3).integers(0, total, count).astype("<u8").tofile(path)
    return path


# -- comparing -------------------------------------------------------------------------------------
@contextlib.contextmanager
def both(path):
    with measure.Helper(measure.TOOLS / "lance_scan", "serve", path) as mine, \
            measure.Helper(sys.executable, measure.ROOT / "bench/lance_peer.py", path) as peer:
        yield mine, peer


def compare(pair, name, target, line, rows, rounds, peer_lines=None, unit="ms", note=""):
    """The peer answers each of its lines; the fastest of them counts."""
    def sample(helper, question):
        spent, got = helper.ask(question).split()
        if int(got) != rows:
            raise SystemExit(f"{name}: {got} rows instead of {rows}")
        return float(spent) * 1000

    samplers = [lambda: sample(pair[0], line)]
    samplers += [lambda question=question: sample(pair[1], question) for question in peer_lines or [line]]
    for sampler in samplers:
        sampler()
    busy = measure.wait_for_quiet()
    results = list(map(measure.median, measure.in_turns(rounds, *samplers)))
    measure.report(name, unit, results[0], min(results[1:]), target=target,
                   note=f"{note}page cache warm, medians of {rounds} in turns; others used {busy:.0%} of the cores")


def scans(path, who, target, matching):
    with both(path) as pair:
        compare(pair, f"full scan, {who}", target, "scan", COUNT, ROUNDS, ["scan", "whole"],
                note="4 columns to Arrow batches; the better of pylance's to_batches and to_table; ")
        for number, column in ((0, "int64 seq"), (1, "float64"), (3, "utf8")):
            compare(pair, f"one column {column}, {who}", ">= 1.5x", f"scan {number}", COUNT, ROUNDS,
                    [f"scan {number}", f"whole {number}"])
        compare(pair, f"filter 1 %, all columns, {who}", ">= 3x", "equals 2=7", matching, ROUNDS)


def takes(path, who, total):
    thousand, one = offsets("thousand", 1000, total), offsets("one", 1, total)
    with both(path) as pair:
        compare(pair, f"take 1,000 rows x 4 columns, {who}", ">= 8x", f"take {thousand}", 1000, measure.size(30, 2),
                note="random rows, dataset held open; ")
        compare(pair, f"take 1 row, {who}", ">= 1x", f"take {one}", 1, measure.size(50, 2))
        compare(pair, f"open + take 1 row, {who}", ">= 3x", f"open-take {one}", 1, measure.size(50, 2))


def main():
    measure.DATA.mkdir(parents=True, exist_ok=True)
    tables = [(ours(f"rows{COUNT}.lance", measure.SCHEMA, measure.batches(COUNT)), "our 2.1", ">= 1.5x")]
    for version in ("2.0", "2.1", "2.2"):
        path = theirs(f"peer{version}-{COUNT}.lance", measure.SCHEMA, measure.batches(COUNT), version)
        tables.append((path, f"pylance's {version}", ">= 1.3x"))
    matching = lance.dataset(tables[0][0]).count_rows("label = 7")
    for path, who, target in tables:
        scans(path, who, target, matching)
        takes(path, who, COUNT)
    wide = measure.size(200_000, 5_000)
    for path, who in ((ours(f"vectors{wide}.lance", VECTORS, vectors(wide)), "our 2.1"),
                      (theirs(f"vectors2.1-{wide}.lance", VECTORS, vectors(wide), "2.1"), "pylance's 2.1")):
        with both(path) as pair:
            compare(pair, f"take 1,000 x float32[768], {who}", ">= 3x", f"take {offsets('wide', 1000, wide)} 1", 1000,
                    measure.size(30, 2))
    with both(one_row_fragments(200)) as pair:
        compare(pair, "200 one-row fragments, open + read all", ">= 6x", "open-scan", 200, measure.size(30, 2))


if __name__ == "__main__":
    main()
