"""Dictionaries, packed structs and blobs, between pylance and us."""
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_kinds import (BLOB, BLOBS, BLOBS_IN_LISTS, COLUMNS_2_1, COLUMNS_2_2, DICTIONARIES, PACKED, WORDS, as_values,
                         blobs, dictionary, for_2_2, number, packed, table, text)
from lance_support import FULL, TOOL, ToolError, append, assert_same, create, read_ipc, scan, write_ipc

NULL_STRUCTS = {"blob_in_struct", "dictionary_in_struct", "packed_nulls", "packed_all_null", "packed_in_struct"}
EVERY = [("2.0", name) for name in COLUMNS_2_1 if name not in NULL_STRUCTS] + \
    [("2.1", name) for name in COLUMNS_2_1] + [("2.2", name) for name in COLUMNS_2_2]


def of_pylance(uri, rows, version):
    """Three fragments."""
    for part in (rows.slice(0, 1), rows, rows.slice(0, rows.num_rows // 2)):
        lance.write_dataset(part, str(uri), mode="append" if uri.exists() else "create", data_storage_version=version)
    return lance.dataset(str(uri))


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


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_one_blob_is_a_file(version, tmp_path):
    uri, rows, out = tmp_path / "t.lance", ids_and_blobs(3, 12), tmp_path / "blob"
    for part in (rows.slice(0, 5), rows.slice(5)):
        lance.write_dataset(part, str(uri), mode="append" if uri.exists() else "create", data_storage_version=version)
    lance.dataset(str(uri)).delete("id = 5")
    for row, expected in enumerate(rows.filter(pc.not_equal(rows["id"], 5))["v"].to_pylist()):
        arguments = ["blob", uri, "--column", "v", "--row", row, "-o", out]
        if expected is None:
            with pytest.raises(AssertionError, match="it is null"):
                lake(*arguments)
            continue
        lake(*arguments)
        assert out.read_bytes() == expected
        lake(*arguments, "--offset", 2, "--length", 70001)
        assert out.read_bytes() == expected[2:70003]
    with pytest.raises(AssertionError, match="holds no blobs"):
        lake("blob", uri, "--column", "id", "--row", 0, "-o", out)


def random_kind(rng, version):
    """A column of one of the kinds: how to make it, and its metadata."""
    values = [(WORDS[: rng.integers(1, 8)], pa.utf8()), ([b"\0", b"", b"x" * 300], pa.binary()),
              (list(range(int(rng.integers(1, 60)))), pa.int64()), ([True, False], pa.bool_()),
              ([0.5, -0.0], pa.float32())]
    chosen, kind = values[rng.integers(0, len(values))]
    index = str(rng.choice(["int8", "uint16", "int32", "int64"]))
    members = [number(str(rng.choice(["int8", "int16", "float32", "int64"]))) for _ in range(rng.integers(1, 5))]
    if version == "2.2" and rng.random() < 0.5:
        members.insert(int(rng.integers(0, len(members) + 1)), text(int(rng.integers(1, 30))))
    made = [(dictionary(chosen, kind, index, nulls=bool(rng.random() < 0.5)), None),
            (packed(members, nulls=bool(rng.random() < 0.5)), PACKED),
            (blobs([1, int(rng.integers(1, 200)), int(rng.choice([10, 70000]))]), BLOB)]
    return made[rng.integers(0, len(made))]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("seed", range(60 if FULL else 3))
def test_random_kinds_survive_both_ways(version, seed, tmp_path):
    rng = np.random.default_rng(seed * 2 + (version == "2.2"))
    makers = [random_kind(rng, version) for _ in range(3)]
    parts = []
    for count in (int(rng.choice([0, 1, 7, 300])), int(rng.integers(1, 200))):
        arrays = [pa.array(range(count), pa.int64())] + [make(rng, count) for make, _ in makers]
        fields = [pa.field("id", pa.int64())] + [pa.field(f"c{i}", array.type, metadata=makers[i][1])
                                                 for i, array in enumerate(arrays[1:])]
        parts.append(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    create(ours, parts[0].schema, tmp_path, version)
    for i, part in enumerate([parts[0], *parts[1:], parts[0]]):
        append(ours, part, tmp_path, "--rows-per-file", int(rng.integers(100, 500)), rows_per_batch=int(rng.integers(50, 300)))
        lance.write_dataset(part, str(theirs), mode="append" if i else "create", data_storage_version=version)
    every = pa.concat_tables([part.select(part.column_names) for part in [parts[0], *parts[1:], parts[0]]])
    for uri in (ours, theirs):
        dataset = lance.dataset(str(uri))
        dataset.delete("id % 3 = 1")
        kept = [row for row in every.to_pylist() if row["id"] % 3 != 1]
        dataset = lance.dataset(str(uri))
        assert dataset.to_table(blob_handling="all_binary").to_pylist() == kept
        assert scan(uri, tmp_path, options=["--bytes"]).to_pylist() == kept
        assert_alike(scan(uri, tmp_path), dataset.to_table())
        if kept:
            lake("compact", uri)
            assert lance.dataset(str(uri)).to_table(blob_handling="all_binary").to_pylist() == kept


def flipped(path, at, bit):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("version,name", [("2.1", "dictionary_nulls"), ("2.1", "packed_nulls"), ("2.1", "blob"),
                                          ("2.2", "dictionary_in_list"), ("2.2", "packed_text_nulls"), ("2.2", "blob")])
def test_a_flipped_bit_is_an_error_or_changes_nothing_but_values(version, name, tmp_path):
    """No crash, no hang, never other rows: their number stays, or the file is refused."""
    uri, rows = tmp_path / "t.lance", table(name).slice(0, 25)
    stored = for_2_2(rows) if version == "2.2" else rows
    create(uri, stored.schema, tmp_path, version)
    append(uri, stored, tmp_path)
    path = next(uri.glob("data/*.lance"))
    good, size = path.read_bytes(), path.stat().st_size
    rng = np.random.default_rng(size)
    places = {int(at) for at in rng.integers(0, size, 400 if FULL else 10)} | set(range(size - 40, size, 1 if FULL else 3))
    for at in sorted(places):
        flipped(path, at, int(rng.integers(0, 8)))
        for option in ("--bytes", "--values"):
            try:
                assert scan(uri, tmp_path, options=[option]).num_rows == len(rows)
            except ToolError as refused:
                assert "CORRUPT_FILE" in str(refused) or "UNSUPPORTED" in str(refused) or "LIMIT" in str(refused), refused
        path.write_bytes(good)
    assert_alike(scan(uri, tmp_path, options=["--bytes"]), rows)


@pytest.mark.parametrize("name", ["dictionary_nulls", "packed_nulls", "blob", "packed_text_nulls"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_file_becomes_a_dataset_of_it(version, name, tmp_path):
    if version == "2.1" and name == "packed_text_nulls":
        with pytest.raises(AssertionError, match="create the table with file version 2.2"):
            lake("write", tmp_path / "no.lance", write_ipc(tmp_path / "rows.arrow", table(name)), "--file-version", "2.1")
        return
    uri, rows, out = tmp_path / "t.lance", table(name), tmp_path / "out.arrow"
    path = write_ipc(tmp_path / "rows.arrow", rows)
    lake("write", uri, path, "--file-version", version)
    lake("write", uri, path, "--mode", "append")
    handling = {"blob_handling": "all_binary"} if name == "blob" else {}
    assert_alike(lance.dataset(str(uri)).to_table(**handling), pa.concat_tables([rows, rows]))
    lake("write", uri, path, "--mode", "overwrite")
    assert_alike(lance.dataset(str(uri)).to_table(**handling), rows)
    lake("scan", uri, "--blobs", "bytes", "-o", out)
    assert_same(read_ipc(out), as_values(rows) if name in DICTIONARIES else rows)
    plain = as_values(rows) if name in DICTIONARIES else rows
    lake("write", uri, write_ipc(tmp_path / "plain.arrow", plain), "--mode", "append")
    assert lance.dataset(str(uri)).to_table(**handling).to_pylist() == rows.to_pylist() * 2


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_vectors_of_bfloat16_keep_their_type(version, tmp_path):
    extension = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
    items = pa.array([bytes([i, 64]) for i in range(60)], pa.binary(2))
    made = pa.FixedSizeListArray.from_arrays(items, type=pa.list_(pa.field("item", pa.binary(2), metadata=extension), 3))
    rows = pa.table([made], schema=pa.schema([pa.field("v", made.type)]))
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    create(ours, rows.schema, tmp_path, version)
    append(ours, rows, tmp_path)
    lance.write_dataset(rows, str(theirs), data_storage_version=version)
    append(theirs, rows, tmp_path)
    lance.write_dataset(rows, str(ours), mode="append")
    for uri in (ours, theirs):
        table_of_it = lance.dataset(str(uri)).to_table()
        assert table_of_it.schema.field("v").type.value_field.metadata[b"ARROW:extension:name"] == b"lance.bfloat16"
        assert table_of_it.to_pylist() == rows.to_pylist() * 2
        read = scan(uri, tmp_path)
        assert read.schema.field("v").type.value_field.metadata[b"ARROW:extension:name"] == b"lance.bfloat16"
        assert read.to_pylist() == rows.to_pylist() * 2


def test_a_clones_blobs_are_read_at_its_source_and_copied_by_a_rewrite(tmp_path):
    source, clone, out = tmp_path / "t.lance", tmp_path / "c.lance", tmp_path / "scan.arrow"
    made = lance.write_dataset(ids_and_blobs(0, 12), str(source), data_storage_version="2.2")
    kept = made.to_table(blob_handling="all_binary").to_pylist()
    made.shallow_clone(str(clone), made.version)
    lake("scan", clone, "--blobs", "bytes", "-o", out)
    assert read_ipc(out).to_pylist() == kept
    lake("delete", clone, "--where", "id < 4")
    lake("compact", clone)
    assert side_files(clone)
    del kept[:4]
    assert lance.dataset(str(clone)).to_table(blob_handling="all_binary").to_pylist() == kept
