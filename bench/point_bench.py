"""point_bench.py - one row of a million by its id: GetFlightInfo, DoGet, as every Flight SQL client does it."""
import time

import pyarrow.flight as flight

import measure
from measure import lake


def fetch(client, descriptor):
    info = client.get_flight_info(descriptor)
    return client.do_get(info.endpoints[0].ticket).read_all()


def timed(client, descriptor, expected):
    start = time.perf_counter()
    table = fetch(client, descriptor)
    spent = time.perf_counter() - start
    if table.column("id").to_pylist() != [expected]:
        raise SystemExit(f"asked for row {expected}, got {table}")
    return spent * 1000


def compare(client, peer, table, count, samples, name, target, verb, how):
    ids = iter([number * 7919 * 7919 % count for number in range(1, 2 * samples + 41)])

    def ours():
        row = next(ids)
        return timed(client, lake.query_descriptor(f"SELECT * FROM {table} WHERE id = {row}"), row)

    def theirs():
        row = next(ids)
        return timed(peer, flight.FlightDescriptor.for_command(f"{verb} {row}"), row)

    measure.in_turns(20, ours, theirs) # connections, page cache, statistics of the files
    busy = measure.wait_for_quiet()
    mine, others = measure.in_turns(samples, ours, theirs)
    measure.report(
        name, "ms", measure.median(mine), measure.median(others), target=target,
        note=f"GetFlightInfo + DoGet on one connection, pyarrow client, another id each time, no index, 100 files, "
             f"{samples} samples, p99 {measure.percentile(mine, 0.99):.2f} ms; peer: a pyarrow Flight server that "
             f"{how} in memory, no SQL, p99 {measure.percentile(others, 0.99):.2f} ms; "
             f"others used {busy:.0%} of the cores")


def main():
    count, samples = measure.size(1_000_000, 20_000), measure.size(1000, 20)
    with measure.kept_server() as server, measure.flight_peer(count) as peer, server.flight() as client:
        compare(client, peer, measure.ensure_table(server, count), count, samples,
                "point query, 1 row of 1 M, p50", "<= 2", "row", "takes the row by its position")
        compare(client, peer, measure.ensure_table(server, count, shuffled=True), count, samples // 4,
                "point query, 1 row of 1 M, ids shuffled, p50", ">= 1x", "filter", "compares every id")


if __name__ == "__main__":
    main()
