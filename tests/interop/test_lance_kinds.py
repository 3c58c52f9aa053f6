"""Dictionaries, packed structs and blobs, between pylance and us."""
import lance
import pyarrow as pa
import pytest

from lance_kinds import (BLOBS, BLOBS_IN_LISTS, COLUMNS_2_1, COLUMNS_2_2, DICTIONARIES, for_2_2, table,
                         without_dictionaries)
from lance_support import append, assert_same, create, scan

NULL_STRUCTS = {"blob_in_struct", "dictionary_in_struct", "packed_nulls", "packed_all_null", "packed_in_struct"}
EVERY = [("2.0", name) for name in COLUMNS_2_1 if name not in NULL_STRUCTS] + [("2.1", name) for name in COLUMNS_2_1] + [("2.2", name) for name in COLUMNS_2_2]


def of_pylance(uri, rows, version):
    """Three fragments."""
    for part in (rows.slice(0, 1), rows, rows.slice(0, rows.num_rows // 2)):
        lance.write_dataset(part, str(uri), mode="append" if uri.exists() else "create", data_storage_version=version)
    return lance.dataset(str(uri))


def as_values(rows):
    schema = pa.schema([field.with_type(without_dictionaries(field.type)) for field in rows.schema])
    return pa.table([pa.array(column.to_pylist(), field.type) for column, field in zip(rows.columns, schema)],
                    schema=schema)


def assert_alike(actual, expected):
    """The same types, and the same values, whatever the dictionaries' order."""
    assert [field.type for field in actual.schema] == [field.type for field in expected.schema]
    assert actual.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version,name", EVERY)
def test_what_pylance_stores_we_read(version, name, tmp_path):
    uri = tmp_path / "t.lance"
    dataset = of_pylance(uri, table(name), version)
    expected = dataset.to_table()
    assert_alike(scan(uri, tmp_path), expected)
    if name in DICTIONARIES:
        assert_same(scan(uri, tmp_path, options=["--values"]), as_values(expected))
    if name in BLOBS | BLOBS_IN_LISTS:
        assert_alike(scan(uri, tmp_path, options=["--bytes"]), dataset.to_table(blob_handling="all_binary"))


WRITTEN = [("2.1", name) for name in COLUMNS_2_1] + [("2.2", name) for name in COLUMNS_2_2]


@pytest.mark.parametrize("version,name", WRITTEN)
def test_what_we_store_pylance_reads(version, name, tmp_path):
    uri, bytes_of = tmp_path / "t.lance", BLOBS | BLOBS_IN_LISTS
    rows = table(name)
    stored = for_2_2(rows) if version == "2.2" else rows
    create(uri, stored.schema, tmp_path, version)
    append(uri, stored, tmp_path, rows_per_batch=777)
    append(uri, stored.slice(rows.num_rows // 3, 7), tmp_path)
    dataset = lance.dataset(str(uri))
    assert dataset.data_storage_version == version
    handling = {"blob_handling": "all_binary"} if name in bytes_of else {}
    every = pa.concat_tables([rows, rows.slice(rows.num_rows // 3, 7)])
    assert_alike(dataset.to_table(**handling), every)
    picked = sorted({0, rows.num_rows // 3, rows.num_rows - 1, rows.num_rows + 3})
    if name in BLOBS_IN_LISTS: # its take of nothing but lists without items panics, of its own files too
        picked = [row for row in picked if every["v"][row].as_py()]
    assert dataset.take(picked).to_pylist() == (dataset.to_table() if handling else every).take(picked).to_pylist()
    if handling and pa.types.is_binary(rows.schema.field(0).type) or pa.types.is_large_binary(rows.schema.field(0).type):
        read = [None if blob is None else blob.read() for blob in dataset.take_blobs("v", indices=picked)]
        assert read == every["v"].take(picked).to_pylist()
    assert_alike(scan(uri, tmp_path, options=["--bytes"]), every)
    assert_alike(scan(uri, tmp_path), dataset.to_table())
