"""commit_bench.py - one row more as one version more, when a table has few versions and when it has many."""
import json
import subprocess

import lance
import pyarrow as pa

import measure

TOOL = measure.TOOLS.parent / "tests/grow_tool"


def ours(path, source, times):
    """Microseconds of an append, the median of so many in a row."""
    done = subprocess.run([TOOL, path, source, str(times), "0", "1"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["append_us"] / 1000


def theirs(path, rows, times):
    return measure.median([measure.seconds(lambda: lance.write_dataset(rows, path, mode="append")) * 1000
                           for _ in range(times)])


def compare(directory, versions, rounds):
    mine, peer = directory / f"mine{versions}.lance", directory / f"peer{versions}.lance"
    rows = pa.Table.from_batches([measure.rows(1).combine_chunks().to_batches()[0]])
    source = directory / "one.arrow"
    with pa.OSFile(str(source), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)
    lance.write_dataset(rows, mine, data_storage_version="2.1")
    lance.write_dataset(rows, peer, data_storage_version="2.1")
    ours(mine, source, versions - 1)
    theirs(peer, rows, versions - 1)
    busy = measure.wait_for_quiet()
    mine_ms, peer_ms = measure.in_turns(rounds, lambda: ours(mine, source, 10), lambda: theirs(peer, rows, 10))
    measure.report(
        f"append of 1 row to a table in place, at {versions:,} versions", "ms", measure.median(mine_ms),
        measure.median(peer_ms), target=">= 1x",
        note=f"{rounds} times 10 appends, each durable before it returns (data file, transaction, manifest and their "
             f"directories are synced); peer: pylance's append, which never calls fsync; a fragment for every version, "
             f"nothing compacted; others used {busy:.0%} of the cores")


def main():
    with measure.fresh_directory() as directory:
        compare(directory, 10, measure.size(10, 2))
        compare(directory, measure.size(1000, 20), measure.size(10, 2))


if __name__ == "__main__":
    main()
