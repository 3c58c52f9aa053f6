"""scan_bench.py - a full scan of a table in the small files that ingest makes: our engine and pylance in turns."""
import measure
import read_bench


def main():
    count = measure.size(10_000_000, 100_000)
    with measure.kept_server() as server:
        ingested = measure.location(server, measure.ensure_table(server, count))
    with read_bench.both(ingested) as pair:
        read_bench.compare(pair, "scan of 10 M rows, as ingested (10,000 a file)", ">= 1x", "scan", count,
                           measure.size(7, 2), ["scan", "whole"], note="the better of to_batches and to_table; ")


if __name__ == "__main__":
    main()
