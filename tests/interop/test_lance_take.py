"""Chosen rows: `lake lance take` and `lake lance scan --filter --row-ids` beside pylance, over random tables."""
import csv
import io
import json
import os
import random
import subprocess

import lance
import pyarrow as pa
import pyarrow.parquet
import pytest

from lance_random import random_table
from lance_support import FULL, ROOT, assert_same, read_ipc, write_ipc

LAKE = os.environ.get("LAKE_BIN", ROOT / "build/lake")
SEEDS = range(200 if FULL else 6)


def lake(*words, fails=False):
    done = subprocess.run([LAKE, "lance", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr


def read(verb, uri, out, *words):
    lake(verb, uri, *words, "-o", out)
    return read_ipc(out)


@pytest.fixture(params=SEEDS)
def table(request, tmp_path):
    """(rows as pylance reads them, directory, seed): written by pylance, or by us and then deleted from by it."""
    seed, rows = request.param, random_table(request.param)
    rng = random.Random(seed)
    uri, version = tmp_path / "t.lance", rng.choice(["2.1", "2.2"])
    lance.write_dataset(rows, uri, data_storage_version=version, enable_stable_row_ids=seed % 3 == 0,
                        max_rows_per_file=rng.choice([700, 6000, 10**6]))
    if rng.random() < 0.6 and rows.num_rows > 10:
        lance.dataset(uri).delete(f"id % {rng.choice([2, 7, 50])} = 1")
    return lance.dataset(uri), uri, seed


# -- tests -------------------------------------------------------------------------------------------
def test_take_gives_the_rows_that_pylance_gives(table, tmp_path):
    dataset, uri, seed = table
    rng, count = random.Random(seed), dataset.count_rows()
    for wanted in ([], [rng.randrange(count) for _ in range(200)], sorted(rng.sample(range(count), min(count, 300))),
                   [count - 1] * 3) if count else ([],):
        listed = ",".join(map(str, wanted))
        assert_same(read("take", uri, tmp_path / "out.arrow", "--rows", listed), dataset.take(wanted))
        assert_same(read("take", uri, tmp_path / "out.arrow", "--rows", listed, "--columns", "id"),
                    dataset.take(wanted, columns=["id"]))


def test_take_by_row_ids_leaves_deleted_rows_out(table, tmp_path):
    dataset, uri, seed = table
    ids = dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    first = lance.dataset(str(uri), version=1).to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    rng = random.Random(seed)
    wanted = [rng.choice(first) for _ in range(100)] if first else []
    (tmp_path / "ids.txt").write_text("\n".join(map(str, wanted)))
    expected = dataset._take_rows(wanted) if set(wanted) & set(ids) else dataset.to_table().slice(0, 0)
    assert_same(read("take", uri, tmp_path / "out.arrow", "--row-ids", tmp_path / "ids.txt"), expected)
    arrow = write_ipc(tmp_path / "ids.arrow", pa.table({"_rowid": pa.array(wanted, pa.uint64())}))
    pyarrow.parquet.write_table(read_ipc(arrow), tmp_path / "ids.parquet")
    for file in (arrow, tmp_path / "ids.parquet"):
        assert_same(read("take", uri, tmp_path / "out.arrow", "--row-ids", file), expected)


def test_a_condition_and_row_ids_keep_exactly_their_rows(table, tmp_path):
    dataset, uri, seed = table
    rng = random.Random(seed)
    low = rng.randrange(20_000)
    for condition in (f"id >= {low} AND id < {low + 500}", f"id % 97 = {seed % 97}", f"id IN (3, {low}, 700)"):
        assert_same(read("scan", uri, tmp_path / "out.arrow", "--filter", condition),
                    dataset.to_table(filter=condition))
    ids = dataset.to_table(columns=["id"], with_row_id=True)
    chosen = [row for row in zip(ids["id"].to_pylist(), ids["_rowid"].to_pylist()) if row[0] % 11 == 0]
    (tmp_path / "ids.txt").write_text(" ".join(str(row_id) for _, row_id in chosen))
    some = read("scan", uri, tmp_path / "out.arrow", "--row-ids", tmp_path / "ids.txt", "--filter", "id % 2 = 0")
    assert_same(some, dataset.to_table(filter="id % 22 = 0"))


def test_conditions_on_members_of_structs(tmp_path):
    rows = [None if i % 10 == 3 else {"a": i % 1000, "t": {"b": f"x{i % 7}" if i % 11 else None}} for i in range(20_000)]
    kind = pa.struct([("a", pa.int64()), ("t", pa.struct([("b", pa.utf8())]))])
    uri = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": list(range(20_000)), "s": pa.array(rows, kind)}), uri)
    for condition in ("s.a = 5 AND s.t.b LIKE 'x3%'", "s.t.b IS NULL", "s.t.b IS NOT NULL AND s.a < 3",
                      "NOT (s.a > 10) OR s.t.b IN ('x1', 'x2')"):
        keeps = {row["id"] for row in lance.dataset(uri).to_table(filter=condition).to_pylist()}
        if "IS NULL" in condition: # what pylance means by the member of a null struct
            keeps = {number for number, row in enumerate(rows) if row is None or row["t"]["b"] is None}
        found = read("scan", uri, tmp_path / "out.arrow", "--filter", condition)
        assert set(found["id"].to_pylist()) == keeps, condition


def shown(*words):
    done = subprocess.run([LAKE, "lance", *map(str, words)], capture_output=True, timeout=120, check=True)
    return done.stdout


def test_rows_come_on_the_terminal_where_no_file_is_named(tmp_path):
    uri = tmp_path / "t.lance"
    rows = pa.table({"id": [1, 2, 3, 4], "word": pa.array(["a", None, "b", "a"]).dictionary_encode(),
                     "s": [{"x": [1, 2]}, {"x": []}, {"x": None}, None]})
    lance.write_dataset(rows, uri)
    dataset = lance.dataset(uri)
    for words, expected in ((("scan", uri, "--filter", "id > 2"), dataset.to_table(filter="id > 2")),
                            (("take", uri, "--rows", "3,0,3"), dataset.take([3, 0, 3]))):
        objects = expected.to_pylist()
        assert json.loads(shown(*words, "--format", "json")) == objects
        assert [json.loads(line) for line in shown(*words, "--format", "ndjson").splitlines()] == objects
        table = list(csv.DictReader(io.StringIO(shown(*words, "--format", "csv", "--columns", "id,word").decode())))
        assert table == [{"id": str(row["id"]), "word": row["word"] or ""} for row in objects]
        assert [line.split("|")[0].strip() for line in shown(*words).decode().splitlines()[2:]] == \
            [str(row["id"]) for row in objects]
        for stream in (shown(*words, "--format", "arrow"), shown(*words, "-o", "-")):
            assert pa.ipc.open_stream(stream).read_all().to_pylist() == objects
    assert "--format" in lake("scan", uri, "--format", "csv", "-o", tmp_path / "out.csv", fails=True)
    assert not (tmp_path / "out.csv").exists()
    for ending in ("csv", "json", "ndjson"):
        lake("scan", uri, "-o", tmp_path / f"out.{ending}")
        assert (tmp_path / f"out.{ending}").read_bytes() == shown("scan", uri, "--format", ending)
    assert str(uri) in lake("scan", uri, "-o", uri, fails=True) # a directory
    assert not list(tmp_path.glob("*.tmp*"))


def test_rows_that_are_not_there_are_refused_by_name(tmp_path):
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path / "t.lance")
    assert "offset 3" in lake("take", tmp_path / "t.lance", "--rows", "0,3", "-o", tmp_path / "o", fails=True)
    assert "is not a row" in lake("take", tmp_path / "t.lance", "--rows", "-1", "-o", tmp_path / "o", fails=True)
    assert "--row-ids" in lake("take", tmp_path / "t.lance", "-o", tmp_path / "o", fails=True)
    assert not (tmp_path / "o").exists()
