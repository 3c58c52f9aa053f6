"""rollout_add_bench.py - adds to a rollout store: how long one takes, and how many rows fit into a second.

In process (rollout_adds.c) against the embedded published store, in turns; over HTTP with the load generator. The peers
never call fsync; the machine's floor is a new durable file twice over: the wave of a flush, and the manifest that lists it.
"""
import os

import rollout_measure as rollout

import measure

ROUNDS = measure.size(5, 1)


def single(directory, peers, floor, note):
    """P5: one client, one row an add, every one durable; and without fsync, which the peers never call."""
    adds = measure.size(100, 5)
    kinds = [("always", f"<= {2.5}", floor), ("never", f"<= {0.8}", None)]
    for fsync, target, machine in kinds:
        def ours():
            return rollout.tool("rollout_adds", directory / f"single-{fsync}", f"adds={adds}", "before=5", f"fsync={fsync}")
        samplers = [lambda peer=peer: peer.ask_json(f"add {adds} 1 0") for peer in peers]
        mine, *theirs = measure.in_turns(ROUNDS, ours, *samplers)
        best = min((measure.median(sum(took, [])) for took in theirs), default=None)
        worst = max(sample["p99_ms"] for sample in mine)
        busy = rollout.busy_note()
        measure.report(f"add of one row, fsync={fsync}, p50", "ms", measure.median([s["p50_ms"] for s in mine]), best,
                       target=target, floor=machine, note=f"in process, JSON parsed; {note}; {busy}")
        measure.report(f"add of one row, fsync={fsync}, p99", "ms", measure.median([s["p99_ms"] for s in mine]),
                       min((measure.percentile(sum(took, []), 0.99) for took in theirs), default=None),
                       target="<= 5", floor=machine and 2 * machine,
                       note=f"worst of {ROUNDS} rounds {worst:.2f} ms; {note}; {busy}")


def merging(directory, note):
    """P8: every add merges; the best of three runs' slowest add."""
    os.sync()  # the peers never do: what they wrote would go to the disk beside what is measured now
    slowest = [rollout.tool("rollout_adds", directory / f"merging-{turn}", f"adds={measure.size(200, 5)}", "merge=1",
                            "before=5", "fsync=always")["max_ms"] for turn in range(measure.size(3, 1))]
    measure.report("slowest of 200 adds, each with a merge", "ms", min(slowest), target="<= 6",
                   note=f"best of {len(slowest)} runs {[round(ms, 1) for ms in slowest]}, every add and merge "
                        f"durable; {note}; {rollout.busy_note()}")


def grouped(directory, note):
    """P6: 64 clients over HTTP, one row a request, every one durable."""
    with rollout.served(directory / "grouped") as server:
        samples = [server.load("s", clients=64, requests=measure.size(20000, 200)) for _ in range(ROUNDS)]
    measure.report("64 clients, adds of one row, durable", "rows/s", measure.median([s["rows_per_s"] for s in samples]),
                   target=">= 10000", higher_is_better=True,
                   note=f"over HTTP, the load generator on the same cores; {note}; {rollout.busy_note()}")
    measure.report("64 clients, adds of one row, durable, p99", "ms", measure.median([s["p99_ms"] for s in samples]),
                   target="<= 25", note=f"the same; {note}")


def batches(directory, note):
    """P7: one client, 256 rows of 512 tokens with logprobs a request."""
    for body, target in (("arrow", 50000), ("json", 12000)):
        with rollout.served(directory / f"batches-{body}") as server:
            samples = [server.load("s", clients=1, requests=measure.size(100, 4), rows=256, tokens=512, body=body)
                       for _ in range(ROUNDS)]
        measure.report(f"adds of 256 rows with 512 tokens each, {body}", "rows/s",
                       measure.median([s["rows_per_s"] for s in samples]), target=f">= {target}", higher_is_better=True,
                       note=f"over HTTP, durable, without the time in which the load generator makes bodies; {note}; "
                            f"{rollout.busy_note()}")


def main():
    with measure.fresh_directory() as directory, rollout.peers(directory) as peers:
        create, note = rollout.fsync_note(directory)
        single(directory, peers, 2 * create, note)
        merging(directory, note)
        grouped(directory, note)
        batches(directory, note)


if __name__ == "__main__":
    main()
