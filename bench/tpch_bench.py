"""tpch_bench.py - the 22 queries of TPC-H: DuckDB over our Lance files beside DuckDB over its own Parquet files."""
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

import measure
from tpch_queries import QUERIES

SCALE = measure.size("1", "0.01")
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
DIRECTORY = measure.DATA / f"tpch{SCALE}"

PEER = """
import os, sys, time, duckdb, pyarrow as pa
connection = duckdb.connect()
connection.execute(f"SET threads={os.cpu_count()}")
connection.execute("SET enable_progress_bar=false") # it would print between our answers
for name in sys.argv[2:]:
    connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{sys.argv[1]}/{name}.parquet')")
for line in sys.stdin:
    words = line.split()
    text = open(words[0]).read()
    start = time.perf_counter()
    reader = connection.sql(text).to_arrow_reader()
    batches = list(reader)
    spent = time.perf_counter() - start
    if len(words) > 1:
        with pa.OSFile(words[1], "wb") as out, pa.ipc.new_stream(out, reader.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    print(spent, sum(batch.num_rows for batch in batches), flush=True)
"""


def generate():
    """Parquet by the reference's generator, then by DuckDB itself, and Lance by our engine."""
    import duckdb
    if DIRECTORY.exists():
        return
    half = DIRECTORY.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    generator = measure.ROOT / "third_party/venv-bench/bin/tpchgen-cli"
    subprocess.run([generator, "parquet", "-s", SCALE, "--output-dir", half / "raw"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in TABLES:
        raw = half / f"raw/{name}.parquet"
        duckdb.execute(f"COPY (SELECT * FROM read_parquet('{raw}')) TO '{half}/{name}.parquet'")
        arrow = half / f"{name}.arrow"
        with pq.ParquetFile(half / f"{name}.parquet") as source:
            fields = [pa.field(field.name, pa.utf8() if pa.types.is_string(field.type) or pa.types.is_large_string(
                field.type) or pa.types.is_string_view(field.type) else field.type) for field in source.schema_arrow]
            schema = pa.schema(fields)
            with pa.OSFile(str(arrow), "wb") as out, pa.ipc.new_stream(out, schema) as writer:
                for batch in source.iter_batches():
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
        for command in ("create", "append"):
            subprocess.run([measure.TOOLS / "lance_scan", command, half / f"{name}.lance", arrow], check=True)
        arrow.unlink()
    shutil.rmtree(half / "raw")
    half.rename(DIRECTORY)


def texts(prefix, directory):
    """A file for each query."""
    paths = []
    for number, query in enumerate(QUERIES, 1):
        paths.append(directory / f"{prefix or 'peer'}{number}.sql")
        paths[-1].write_text(query.replace("{t}", prefix))
    return paths


def read(path):
    with pa.OSFile(str(path)) as source:
        return pa.ipc.open_stream(source).read_all()


def same(ours, theirs):
    """Equal rows; a type may be spelled otherwise, and doubles differ in the last digits."""
    def plain(value):
        return round(float(value), 6) if isinstance(value, float) else value
    rows = lambda table: [[plain(value) for value in column.to_pylist()] for column in table.columns]
    return rows(ours) == rows(theirs)


def main():
    generate()
    rounds = measure.size(3, 1)
    with measure.fresh_directory() as scratch, \
            measure.Helper(measure.TOOLS / "sql_run", DIRECTORY) as mine, \
            measure.Helper(sys.executable, "-c", PEER, DIRECTORY, *TABLES) as peer:
        pairs = list(zip(texts("t.", scratch), texts("", scratch)))
        for number, (ours, theirs) in enumerate(pairs, 1):
            mine.ask(f"{ours} {scratch}/ours")
            peer.ask(f"{theirs} {scratch}/theirs")
            if not same(read(scratch / "ours"), read(scratch / "theirs")):
                raise SystemExit(f"query {number}: the results differ")
        busy, total, other = measure.wait_for_quiet(), 0.0, 0.0
        parts = []
        for number, (ours, theirs) in enumerate(pairs, 1):
            a, b = map(measure.median, measure.in_turns(
                rounds, lambda: float(mine.ask(str(ours)).split()[0]), lambda: float(peer.ask(str(theirs)).split()[0])))
            total, other = total + a, other + b
            parts.append(f"Q{number} {a * 1000:.0f}/{b * 1000:.0f}")
        measure.report(
            f"TPC-H scale {SCALE}, 22 queries", "s", total, other, target=">= 1x",
            note=f"sum of medians of {rounds} in turns, page cache warm, results equal; ours: SQL text to Arrow batches "
                 f"over Lance 2.1 files; peer: the same engine over its own Parquet (snappy); ms of each: "
                 f"{', '.join(parts)}; others used {busy:.0%} of the cores")


if __name__ == "__main__":
    main()
