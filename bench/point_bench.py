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


def main():
    count, samples = measure.size(1_000_000, 20_000), measure.size(1000, 20)
    with measure.kept_server() as server, measure.flight_peer(count) as peer, server.flight() as client:
        table = measure.ensure_table(server, count)
        ids = iter([number * 7919 * 7919 % count for number in range(1, 2 * samples + 1)])

        def ours():
            row = next(ids)
            return timed(client, lake.query_descriptor(f"SELECT * FROM {table} WHERE id = {row}"), row)

        def theirs():
            row = next(ids)
            return timed(peer, flight.FlightDescriptor.for_command(f"row {row}"), row)

        for _ in range(20): # connections, page cache, statistics of the files
            timed(client, lake.query_descriptor(f"SELECT * FROM {table} WHERE id = 4711"), 4711)
            timed(peer, flight.FlightDescriptor.for_command("row 4711"), 4711)
        busy = measure.wait_for_quiet()
        mine, others = measure.in_turns(samples, ours, theirs)
        measure.report(
            "point query, 1 row of 1 M, 4 columns, p50", "ms", measure.median(mine), measure.median(others),
            target="<= 2",
            note=f"GetFlightInfo + DoGet on one connection, pyarrow client, another id each time, no index, "
                 f"{samples} samples, p99 {measure.percentile(mine, 0.99):.2f} ms; peer: a pyarrow Flight server that "
                 f"slices its rows in memory by position, no SQL, p99 {measure.percentile(others, 0.99):.2f} ms; "
                 f"others used {busy:.0%} of the cores")


if __name__ == "__main__":
    main()
