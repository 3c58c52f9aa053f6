"""What README.md says of this release's limits is so: each statement that no other test is about."""
import datetime
import decimal
import subprocess

import adbc_driver_flightsql.dbapi as dbapi
import lance
import numpy as np
import pyarrow as pa
import pytest

import lake

D = decimal.Decimal
WIDE = pa.table({"id": pa.array([1, 2, 3], pa.int64()),
                 "d": pa.array([D(10**50), D("-0.25"), None], pa.decimal256(60, 2)),
                 "h": pa.array(np.array([1.5, -2, 0], "float16")),
                 "t": pa.array([datetime.timedelta(seconds=3), None, datetime.timedelta(0)], pa.duration("us")),
                 "b": pa.array([b"abcd", b"\0\0\0\1", None], pa.binary(4))})


@pytest.fixture()
def cursor(own_server):
    with dbapi.connect(own_server.endpoint) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("wide", WIDE, mode="create", db_schema_name="limits")
        yield cursor


def rows(cursor, statement):
    cursor.execute(statement)
    return cursor.fetch_arrow_table()


def test_decimals_of_256_bits_are_read_by_a_plain_select(cursor):
    found = rows(cursor, "SELECT id, d FROM limits.wide")
    assert found["d"].type == pa.decimal256(60, 2) and found.to_pylist() == WIDE.select(["id", "d"]).to_pylist()
    assert rows(cursor, "SELECT d FROM limits.wide WHERE id = 2")["d"].to_pylist() == [D("-0.25")]
    assert rows(cursor, "SELECT id FROM limits.wide WHERE d IS NULL")["id"].to_pylist() == [3]
    for more in ("SELECT d + 1 FROM limits.wide", "SELECT id, d FROM limits.wide ORDER BY id",
                 "SELECT id FROM limits.wide WHERE d > '100'"):
        with pytest.raises(dbapi.Error):
            rows(cursor, more)


def test_what_duckdb_has_no_type_for_becomes_another_inside_expressions(cursor):
    plain = rows(cursor, "SELECT h, t, b FROM limits.wide ORDER BY id")
    assert [field.type for field in plain.schema] == [pa.float16(), pa.duration("us"), pa.binary(4)]
    assert plain.to_pylist() == WIDE.select(["h", "t", "b"]).to_pylist()
    found = rows(cursor, "SELECT h + 0 AS h, t + 0 AS t, b || ''::BLOB AS b FROM limits.wide WHERE id = 1")
    assert [field.type for field in found.schema] == [pa.float32(), pa.int64(), pa.binary()]
    assert found.to_pylist() == [{"h": 1.5, "t": 3_000_000, "b": b"abcd"}]


def write(uri, table):
    with pa.OSFile(str(uri) + ".arrow", "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return subprocess.run([lake.LAKE, "lance", "write", uri, str(uri) + ".arrow"], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kind", [pa.list_view(pa.int64()), pa.large_list_view(pa.int64())])
def test_list_views_are_refused_with_what_to_do(kind, tmp_path):
    done = write(tmp_path / "t", pa.table({"v": pa.array([[1], []], kind)}))
    assert done.returncode != 0 and "list" in done.stderr


def test_structs_without_a_field_go_last_and_are_never_null(tmp_path):
    empty = pa.array([{}, {}], pa.struct([]))
    assert write(tmp_path / "last", pa.table({"a": [1, 2], "e": empty})).returncode == 0
    assert lance.dataset(str(tmp_path / "last")).to_table().to_pylist() == [{"a": 1, "e": {}}, {"a": 2, "e": {}}]
    done = write(tmp_path / "first", pa.table({"e": empty, "a": [1, 2]}))
    assert done.returncode != 0 and "go last" in done.stderr
    done = write(tmp_path / "null", pa.table({"a": [1, 2], "e": pa.array([{}, None], pa.struct([]))}))
    assert done.returncode != 0 and "null" in done.stderr
