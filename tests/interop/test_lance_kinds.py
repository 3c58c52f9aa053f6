"""Dictionaries, packed structs and blobs, between pylance and us."""
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_kinds import (BLOB, BLOBS, BLOBS_IN_LISTS, COLUMNS_2_1, COLUMNS_2_2, DICTIONARIES, blobs, for_2_2, table,
                         without_dictionaries)
from lance_support import TOOL, ToolError, append, assert_same, create, scan

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


def lake(*arguments):
    done = subprocess.run([TOOL.parents[1] / "lake", "lance", *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def side_files(uri):
    return {path.parent.name for path in uri.glob("data/*/*.blob")}


def ids_and_blobs(first, count):
    made = blobs([3, 70000, 10, 5 << 20])(np.random.default_rng(first), count)
    return pa.table([pa.array(range(first, first + count)), made],
                    schema=pa.schema([pa.field("id", pa.int64()), pa.field("v", made.type, metadata=BLOB)]))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("ours", [True, False])
def test_blobs_survive_what_rewrites_their_rows(version, ours, tmp_path):
    uri, parts = tmp_path / "t.lance", [ids_and_blobs(first, 9) for first in (0, 9, 18)]
    for part in parts:
        if not ours:
            lance.write_dataset(part, str(uri), mode="append" if uri.exists() else "create",
                                data_storage_version=version)
        else:
            if not uri.exists():
                create(uri, part.schema, tmp_path, version)
            append(uri, part, tmp_path)
    lance.dataset(str(uri)).delete("id % 5 = 2")
    every = pa.concat_tables(parts)
    kept = every.filter(pc.not_equal(pc.subtract(every["id"], pc.multiply(pc.divide(every["id"], 5), 5)), 2))
    lake("compact", uri)
    dataset = lance.dataset(str(uri))
    assert len(dataset.get_fragments()) == 1
    assert_alike(dataset.to_table(blob_handling="all_binary"), kept)
    lake("update", uri, "--set", "id=id+100", "--where", "id >= 20")
    expected = sorted(kept.to_pylist(), key=lambda row: row["id"])
    expected = [row | {"id": row["id"] + 100 * (row["id"] >= 20)} for row in expected]
    dataset = lance.dataset(str(uri))
    assert sorted(dataset.to_table(blob_handling="all_binary").to_pylist(), key=lambda row: row["id"]) == expected
    lake("cleanup", uri, "--retain", 1, "--older-than", "0s")
    live = {path.stem for path in uri.glob("data/*.lance")}
    assert len(live) == 2 and side_files(uri) <= live
    assert (side_files(uri) != set()) == (version == "2.2")
    read = scan(uri, tmp_path, options=["--bytes"]).to_pylist()
    assert sorted(read, key=lambda row: row["id"]) == expected


def test_blobs_elsewhere_are_written_only_when_asked_and_stay_where_they_are(tmp_path):
    uri, outside = tmp_path / "t.lance", tmp_path / "outside.bin"
    outside.write_bytes(b"0123456789")
    place = f"file://{outside}"
    made = lance.blob_array([lance.Blob.from_uri(place, 3, 4), place, None, b"here"])
    rows = pa.table([made], schema=pa.schema([pa.field("v", made.type)]))
    create(uri, rows.schema, tmp_path, "2.2")
    with pytest.raises(ToolError, match="outside of the table"):
        append(uri, rows, tmp_path)
    append(uri, rows, tmp_path, "--outside")
    append(uri, rows, tmp_path, "--outside")
    expected = [b"3456", b"0123456789", None, b"here"] * 2
    for _ in range(2):
        dataset = lance.dataset(str(uri))
        assert dataset.to_table(blob_handling="all_binary")["v"].to_pylist() == expected
        assert scan(uri, tmp_path, options=["--bytes"])["v"].to_pylist() == expected
        described = [blob and (blob["kind"], blob["position"], blob["size"]) for blob in dataset.to_table()["v"].to_pylist()]
        assert described[:3] == [(3, 3, 4), (3, 0, 0), None]
        lake("compact", uri)
    outside.unlink()
    with pytest.raises(ToolError):
        scan(uri, tmp_path, options=["--bytes"])
    assert scan(uri, tmp_path).num_rows == 8
