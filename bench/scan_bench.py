"""scan_bench.py - a full scan to Arrow batches: our engine and pylance on the same files, each in its own process."""
import subprocess
import sys

import pyarrow as pa

import measure

PEER = """
import sys, time, lance
dataset = lance.dataset(sys.argv[1])
for line in sys.stdin:
    start = time.perf_counter()
    if line.strip() == "table":
        count = dataset.to_table().num_rows
    else:
        count = sum(batch.num_rows for batch in dataset.to_batches())
    print(time.perf_counter() - start, count, flush=True)
"""


def standalone(count):
    """The same rows as one Lance dataset with a million rows a file, written by our engine."""
    path = measure.DATA / f"rows{count}.lance"
    if not path.exists():
        arrow = measure.DATA / "rows.arrow"
        with pa.OSFile(str(arrow), "wb") as file, pa.ipc.new_stream(file, measure.SCHEMA) as writer:
            for batch in measure.batches(count):
                writer.write_batch(batch)
        for command in ("create", "append"):
            subprocess.run([measure.TOOLS / "lance_scan", command, path, arrow], check=True)
        arrow.unlink()
    return path


def compare(name, path, count, target, rounds):
    with measure.Helper(measure.TOOLS / "lance_scan", "scan", path) as mine, \
            measure.Helper(sys.executable, "-c", PEER, path) as peer:
        def sample(helper, how):
            spent, rows = helper.ask(how).split()
            if int(rows) != count:
                raise SystemExit(f"{rows} rows instead of {count} in {path}")
            return float(spent)

        samplers = (lambda: sample(mine, "batches"), lambda: sample(peer, "batches"), lambda: sample(peer, "table"))
        for sampler in samplers:
            sampler()
        busy = measure.wait_for_quiet()
        ours, streamed, whole = map(measure.median, measure.in_turns(rounds, *samplers))
        measure.report(
            name, "Mrows/s", count / ours / 1e6, count / min(streamed, whole) / 1e6, target=target,
            higher_is_better=True,
            note=f"all 4 columns, page cache warm, dataset held open, medians of {rounds}; pylance 14: to_batches "
                 f"{streamed:.3f} s, to_table {whole:.3f} s, the better counts; ours {ours:.3f} s batch by batch; "
                 f"others used {busy:.0%} of the cores")


def main():
    count, rounds = measure.size(10_000_000, 100_000), measure.size(7, 2)
    measure.DATA.mkdir(parents=True, exist_ok=True)
    compare("scan of 10 M rows, a million rows a file", standalone(count), count, ">= 1x", rounds)
    with measure.kept_server() as server:
        ingested = measure.location(server, measure.ensure_table(server, count))
    compare("scan of 10 M rows, as ingested (10,000 a file)", ingested, count, ">= 1x", rounds)


if __name__ == "__main__":
    main()
