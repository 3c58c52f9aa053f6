"""SQL over Lance tables that pylance wrote: rows by their names, and the first rows by an order, which are all that is
read of wide columns."""
import os
import pathlib
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_support import ROOT

RUN = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake")).parent / "bench/sql_run"
COUNT, WIDE = 8_000, 6_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("sql")
    random = np.random.default_rng(2)
    order = random.permutation(COUNT)
    rows = pa.table({"id": np.arange(COUNT), "score": order, "kind": [f"k{number % 5}" for number in order.tolist()],
                     "image": pa.array([random.bytes(WIDE) for _ in range(COUNT)], pa.large_binary())})
    for name, stable in (("wide", False), ("stable", True)):
        lance.write_dataset(rows, path / f"{name}.lance", max_rows_per_file=3_000, enable_stable_row_ids=stable)
        lance.dataset(path / f"{name}.lance").delete("id % 9 = 4")
    return path


@pytest.fixture
def sql(directory, tmp_path):
    """Runs statements one by one in one process; (rows, bytes read) each."""
    with subprocess.Popen([RUN, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def ask(text):
            (tmp_path / "in.sql").write_text(text)
            process.stdin.write(f"{tmp_path}/in.sql {tmp_path}/out.arrow\n")
            process.stdin.flush()
            size = int(process.stdout.readline().split()[2])
            with pa.OSFile(str(tmp_path / "out.arrow")) as source:
                return pa.ipc.open_stream(source).read_all(), size
        yield ask
        process.stdin.close()


@pytest.mark.parametrize("name", ["wide", "stable"])
def test_rows_have_pylances_names(sql, directory, name):
    expected = lance.dataset(directory / f"{name}.lance").scanner(
        columns=["id"], with_row_id=True, with_row_address=True).to_table()
    rows, _ = sql(f"SELECT id, _rowid, _rowaddr FROM t.{name} ORDER BY id")
    assert rows.to_pydict() == expected.select(["id", "_rowid", "_rowaddr"]).to_pydict()
    some, _ = sql(f"SELECT t._ROWADDR AS a, * EXCLUDE (image) FROM t.{name} AS t WHERE _rowid = 5 OR _rowaddr = 3")
    assert some.column_names == ["a", "id", "score", "kind"] and some.num_rows == 2


def test_a_star_does_not_show_the_names_of_rows(sql):
    rows, _ = sql("SELECT * FROM t.wide WHERE _rowid < 3")
    assert rows.column_names == ["id", "score", "kind", "image"]
    rows, _ = sql("SELECT * FROM (SELECT kind, _rowid FROM t.wide) WHERE _rowid < 3")
    assert rows.column_names == ["kind", "_rowid"]
    rows, _ = sql("SELECT b.*, a._rowid FROM t.wide a JOIN t.stable b ON a.id = b.id WHERE a.id = 5")
    assert rows.column_names == ["id", "score", "kind", "image", "_rowid"]


@pytest.mark.parametrize("name", ["wide", "stable"])
def test_the_first_rows_by_an_order_are_all_that_is_read_of_wide_columns(sql, directory, name):
    table = lance.dataset(directory / f"{name}.lance").to_table()
    for text, keys, keeps in (
            ("ORDER BY score LIMIT 7", [("score", "ascending")], table),
            ("WHERE kind = 'k3' ORDER BY score DESC LIMIT 5 OFFSET 2", [("score", "descending")],
             table.filter(pa.compute.equal(table["kind"], "k3"))),
            ("ORDER BY kind, score DESC LIMIT 9", [("kind", "ascending"), ("score", "descending")], table)):
        rows, size = sql(f"SELECT * FROM t.{name} {text}")
        first = 2 if "OFFSET" in text else 0
        assert rows.to_pydict() == keeps.sort_by(keys).slice(first, rows.num_rows).to_pydict()
        assert rows.num_rows in (5, 7, 9)
        assert size < COUNT * WIDE / 20, f"{size} bytes read for {text}"
    _, everything = sql(f"SELECT max(octet_length(image)) FROM t.{name}") # what the same column costs as a whole
    assert everything > COUNT * WIDE / 2
