"""Maps, dictionaries, lists of structs and blobs through a server: created, added to, queried, read by pylance."""
import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest

WORDS = pa.array(["red", None, "a longer colour", ""])
DICTIONARY = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 3, 1, 0], pa.int16()), WORDS)
MAPS = pa.array([[("a", 1), ("b", None)], [], None, [("c", 3)], [("a", 4)], [("", 0)]], pa.map_(pa.utf8(), pa.int64()))
STRUCTS = pa.array([[{"x": 1, "y": "a"}, None], [], None, [{"x": None, "y": None}], [{"x": 5, "y": "e"}], []],
                   pa.list_(pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.utf8())])))
VECTORS = pa.array([[{"x": i, "y": "v"}, None if i == 2 else {"x": None, "y": "w"}] if i != 4 else None for i in range(6)],
                   pa.list_(pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.utf8())]), 2))
BLOBS = pa.array([b"small", None, b"", b"x" * 70000, b"y" * (5 << 20), b"z"], pa.large_binary())
BLOB = {"lance-encoding:blob": "true"}


def columns(**arrays):
    arrays = {"id": pa.array(range(6), pa.int64())} | arrays
    fields = [pa.field(name, array.type, metadata=BLOB if name == "blob" else None) for name, array in arrays.items()]
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


CASES = {
    "maps": (columns(m=MAPS), "2.2"),
    "dictionaries": (columns(d=DICTIONARY), "2.1"),
    "structs": (columns(s=STRUCTS), "2.1"),
    "vectors": (columns(f=VECTORS), "2.2"),
    "blobs": (columns(blob=BLOBS), "2.1"),
    "blobs_and_maps": (columns(blob=BLOBS, m=MAPS), "2.2"),
    "everything": (columns(d=DICTIONARY, m=MAPS, s=STRUCTS), "2.2"),
}


def as_values(table):
    fields = [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
              for field in table.schema]
    return table.cast(pa.schema(fields))


@pytest.mark.parametrize("name", CASES)
def test_a_table_of_it_is_created_added_to_queried_and_read_by_pylance(own_server, name):
    table, version = CASES[name]
    every = pa.concat_tables([as_values(table)] * 2)
    with dbapi.connect(own_server.endpoint) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("t", table, mode="create", db_schema_name="kinds")
        cursor.adbc_ingest("t", table, mode="append", db_schema_name="kinds")
        cursor.execute("SELECT * FROM kinds.t")
        got = cursor.fetch_arrow_table()
        assert got.to_pylist() == every.to_pylist()
        cursor.execute("SELECT * FROM kinds.t WHERE id >= 4 ORDER BY id DESC LIMIT 3")
        rows = sorted((row for row in every.to_pylist() if row["id"] >= 4), key=lambda row: -row["id"])
        assert [row["id"] for row in cursor.fetch_arrow_table().to_pylist()] == [row["id"] for row in rows[:3]]
        if "m" in table.column_names:
            cursor.execute("SELECT id, m['a'] AS a, cardinality(m) AS c FROM kinds.t WHERE m['a'] IS NOT NULL")
            assert sorted(cursor.fetchall()) == [(0, 1, 2), (0, 1, 2), (4, 4, 1), (4, 4, 1)]
        if "d" in table.column_names:
            cursor.execute("SELECT d, count(*) FROM kinds.t WHERE d <> '' GROUP BY d ORDER BY d")
            assert cursor.fetchall() == [("a longer colour", 2), ("red", 4)]
        if "s" in table.column_names:
            cursor.execute("SELECT id, s[1].x FROM kinds.t WHERE s[1].x = 5")
            assert cursor.fetchall() == [(4, 5), (4, 5)]
        if "f" in table.column_names:
            cursor.execute("SELECT id, f[1].x, f[2].y FROM kinds.t WHERE f[2].y IS NULL ORDER BY id")
            assert cursor.fetchall() == [(2, 2, None)] * 2 + [(4, None, None)] * 2
        if "blob" in table.column_names:
            cursor.execute("SELECT id, octet_length(blob) FROM kinds.t WHERE blob IS NOT NULL ORDER BY id")
            assert cursor.fetchall() == [(i, len(v)) for i, v in enumerate(BLOBS.to_pylist()) if v is not None for _ in "12"]
    dataset = lance.dataset(own_server.resolve("kinds.t")["location"])
    assert dataset.data_storage_version == version
    handling = {"blob_handling": "all_binary"} if "blob" in table.column_names else {}
    parts = [["id"], ["f"]] if "f" in table.column_names else [table.column_names] # it reads "f" only alone
    for part in parts:
        assert dataset.to_table(columns=part, **handling).to_pylist() == every.select(part).to_pylist()


def test_rows_of_dictionaries_that_differ_are_added(own_server):
    with dbapi.connect(own_server.endpoint) as connection, connection.cursor() as cursor:
        for i in range(3):
            part = pa.table({"d": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()),
                                                                 pa.array([f"v{i}", f"w{i}"]))})
            cursor.adbc_ingest("t", part, mode="create_append", db_schema_name="kinds")
        cursor.execute("SELECT d FROM kinds.t")
        assert [row[0] for row in cursor.fetchall()] == [v for i in range(3) for v in (f"w{i}", f"v{i}", None)]
