"""rollout_s3_bench.py - the rollout store on object storage that answers a write after 30 ms and a read after 15 ms: s3_memory,
in the same machine.

One add, many clients of one shard, a cold list over many generations; then one, two and four instances: with a few clients
each, which leaves processors to spare, and with 2,000 clients between them, which does not.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.request

import measure
import rollout_measure as rollout

sys.path.insert(0, str(measure.ROOT / "tests/interop"))
import s3_support # noqa: E402  (the S3 server of the tests)

PUT_MS, GET_MS = 30, 15


class Storage:
    """Object storage in memory that makes everyone wait."""

    def __init__(self):
        self.process = subprocess.Popen([measure.TOOLS / "s3_memory", f"put={PUT_MS}", f"get={GET_MS}"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def told(self):
        """How many requests there were, by kind, and the milliseconds of a processor that they took."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.communicate("")


@contextlib.contextmanager
def storage():
    slow = Storage()
    try:
        yield slow
    finally:
        slow.close()


@contextlib.contextmanager
def instance(slow, place, number=0, *words):
    with rollout.served(f"s3://{s3_support.BUCKET}/{place}", "--instance-id", f"rollout-{number}", *words,
                        env=s3_support.environment(slow.url)) as server:
        yield server


def processor_ms(server):
    """Processor time that a server used so far."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def since(before, now):
    return {name: now[name] - before[name] for name in now}


def one_shard():
    rows = measure.size(6400, 128)
    with storage() as slow:
        with instance(slow, "one") as server:
            server.load("s", clients=1, requests=5) # the store, the claim, the connections
            alone = server.load("s", clients=1, requests=measure.size(100, 5))
            before, used = slow.told(), processor_ms(server)
            many = server.load("s", clients=64, requests=rows)
            after, used = slow.told(), processor_ms(server) - used
            busy = rollout.busy_note()
    did = since(before, after)
    note = f"PUT {PUT_MS} ms, GET {GET_MS} ms, over HTTP; {busy}"
    measure.report("S3: add of one row, p50", "ms", alone["p50_ms"], target="<= 70", floor=2 * PUT_MS,
                   note=f"p99 {alone['p99_ms']:.0f} ms; floor: two writes after each other; {note}")
    measure.report("S3: 64 clients, adds of one row, one shard", "rows/s", many["rows_per_s"], target=">= 900",
                   higher_is_better=True, floor=64 / (2 * PUT_MS) * 1000,
                   note=f"p50 {many['p50_ms']:.0f} ms, p99 {many['p99_ms']:.0f} ms; {used / rows * 1000:.0f} us of a processor a "
                        f"row, {did['put']} PUTs, {did['get']} GETs and {did['list']} lists for {rows} rows; floor: everyone's "
                        f"add in one group, two writes after each other; {note}")


def cold_list():
    generations = measure.size(200, 5)
    with storage() as slow:
        with instance(slow, "list") as server:
            server.load("s", clients=1, requests=generations)
        samples, used, before = [], [], slow.told()
        rounds = measure.size(5, 1)
        for _ in range(rounds):
            with instance(slow, "list") as server:
                began = processor_ms(server)
                samples.append(measure.seconds(fetch, server.address) * 1000)
                used.append(processor_ms(server) - began)
        did = since(before, slow.told())
        busy = rollout.busy_note()
    measure.report(f"S3: list over {generations} generations, cold", "ms", measure.median(samples), target="<= 150",
                   note=f"a server that was just started, over HTTP; samples {[round(ms) for ms in samples]}; a list makes "
                        f"{did['get'] / rounds:.0f} GETs and {did['list'] / rounds:.0f} lists and takes "
                        f"{measure.median(used):.0f} ms of a processor; {busy}")


def fetch(address):
    with urllib.request.urlopen(f"http://{address}/api/v1/rollouts/s/records") as answer:
        return len(json.load(answer)["records"])


class Cores:
    """The share of all cores that was in use, sampled beside a run."""

    def __enter__(self):
        self.samples, self.ended = [], threading.Event()
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()
        return self

    def sample(self):
        while not self.ended.is_set():
            self.samples.append(measure.busy(0.5))

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def share(self):
        return measure.median(self.samples)


def fleet(directory, count, clients, seconds):
    """Rows a second of `count` instances with so many clients between them, how busy the cores were; all rows are there."""
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(storage())
        servers = [stack.enter_context(instance(slow, "fleet", number)) for number in range(count)]
        for server in servers:
            server.load("s", clients=1, requests=2)
        files = [directory / f"ids-{clients}-{count}-{number}" for number in range(count)]
        with Cores() as cores, concurrent.futures.ThreadPoolExecutor(count) as pool:
            runs = list(pool.map(lambda pair: pair[0].load("s", clients=clients // count, requests=10**9, seconds=seconds,
                                                           ids=pair[1]), zip(servers, files)))
        acknowledged = set()
        for file in files:
            acknowledged |= set(file.read_text().split())
        stored = set(ids(servers[-1].address))
        lost = len(acknowledged - stored)
        if lost:
            raise SystemExit(f"{lost} of {len(acknowledged)} acknowledged rows are lost")
        return sum(run["rows_per_s"] for run in runs), cores.share()


def ids(address):
    with urllib.request.urlopen(f"http://{address}/api/v1/rollouts/s/records?columns=id&order=none") as answer:
        return [record["id"] for record in json.load(answer)["records"]]


def doublings(directory, clients_of, kind, more_note):
    """1, 2 and 4 instances, clients_of(count) clients between them."""
    counts = (1, 2, 4)
    figures = {count: fleet(directory, count, clients_of(count), measure.size(10, 1)) for count in counts}
    for before, count in zip(counts, counts[1:]):
        (less, less_cores), (more, cores) = figures[before], figures[count]
        measure.report(f"S3: {count} instances against {before}, {kind}", "x", more / less,
                       target=">= 1.8", higher_is_better=True, floor=1 / less_cores if cores > 0.85 else None,
                       note=f"{less:,.0f} and {more:,.0f} rows/s, 0 lost; {less_cores:.0%} and {cores:.0%} of the cores in use, "
                            f"storage and clients included; floor: what the cores had left, where they are the limit{more_note}")


def scaling(directory):
    each, all_clients = measure.size(32, 8), measure.size(2000, 40)
    doublings(directory, lambda count: each * count, f"{each} clients each", "")
    doublings(directory, lambda _: all_clients, f"{all_clients:,} clients",
              f"; clients wait for two writes an add, so all of them together never add more than "
              f"{all_clients / (2 * PUT_MS) * 1000:,.0f} rows/s")


def main():
    chosen = sys.argv[1:] or ["one", "list", "scaling"]
    with measure.fresh_directory() as directory:
        if "one" in chosen:
            one_shard()
        if "list" in chosen:
            cold_list()
        if "scaling" in chosen:
            scaling(directory)


if __name__ == "__main__":
    main()
