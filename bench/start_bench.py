"""start_bench.py - from exec to serving, and the memory of a server at rest."""
import time

import measure
from measure import lake


def resident_mib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def start_once(directory):
    start = time.perf_counter()
    with lake.Server(directory / "data") as server:
        spent = time.perf_counter() - start
        server.stop()
    return spent


def main():
    samples = measure.size(10, 2)
    with measure.fresh_directory() as directory:
        busy = measure.wait_for_quiet()
        empty = []
        for number in range(samples):
            (directory / str(number)).mkdir()
            empty.append(start_once(directory / str(number)))
        again = [start_once(directory / "0") for _ in range(samples)]
        note = f"to the ready file, port 0, page cache warm; {samples} samples, others used {busy:.0%} of the cores"
        for name, times in (("start to ready, new directory", empty), ("start to ready, used directory", again)):
            measure.report(name, "s", measure.median(times), target="<= 0.5", note=f"{note}; worst {max(times):.3f} s")

        with lake.Server(directory / "0/data") as server:
            time.sleep(measure.size(5, 0.5))
            idle = resident_mib(server.process.pid)
            server.create("a.t", measure.SCHEMA)
            server.append("a.t", measure.rows(1000).to_batches()[0])
            server.sql("SELECT count(*), max(name) FROM a.t")
            used = resident_mib(server.process.pid)
            measure.report("idle memory of lake serve", "MiB", idle, target="<= 96",
                           note=f"VmRSS some seconds after start, shared libraries included; {used:.0f} MiB after "
                                "the first create, append and aggregate")


if __name__ == "__main__":
    main()
