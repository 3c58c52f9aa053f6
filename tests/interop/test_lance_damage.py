"""Damaged tables: an error that names the file and what is wrong with it, or the rows; never a crash, a hang or
memory without bounds. And tables that use what we do not know: refused by name."""
import os
import pathlib
import struct
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_change_cases import lake
from lance_support import FULL, TOOL, ToolError, append, assert_same, scan, tool, write_ipc

DAMAGE = pathlib.Path(TOOL).parent / "damage_tool"


def rows(count=60, first=0, nulls=True):
    ids = np.arange(first, first + count)
    return pa.table({
        "id": ids, "text": pa.array([None if i % 7 == 0 else f"välue {i % 11}" for i in ids]),
        "list": pa.array([list(range(i % 4)) if i % 9 else None for i in ids], pa.list_(pa.int32())),
        "pair": pa.array([{"a": float(i), "b": str(i)} if i % 5 or not nulls else None for i in ids],
                         pa.struct([("a", pa.float64()), ("b", pa.utf8())])),
        "same": pa.array(["constant"] * count),
        "wide": pa.array([[float(i)] * 16 for i in ids], pa.list_(pa.float32(), 16)),
    })


def worn(uri, file_version):
    """A table with some of everything a reader must parse."""
    lance.write_dataset(rows(nulls=file_version != "2.0"), uri, data_storage_version=file_version,
                        enable_stable_row_ids=True, max_rows_per_file=30)
    lance.dataset(uri).delete("id % 5 = 0")
    lance.dataset(uri).update({"same": "'updated'"}, where="id in (1, 2, 31)")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).add_columns({"more": "id * 2"})
    lance.dataset(uri).drop_columns(["more"])


def vectors(uri, scratch):
    """Fixed-size lists of structs, by us: beside other columns pylance cannot read them to change the table."""
    items = rows(180).select(["id", "text"]).to_struct_array().combine_chunks()
    lists = pa.FixedSizeListArray.from_arrays(items, 3, mask=pa.array([i % 11 == 4 for i in range(60)]))
    lake("write", uri, write_ipc(scratch / "rows.arrow", rows().append_column("lists", lists)))


def damage(uri, step, first):
    """Outcomes by (key, how): readings, failed, same, others, nameless, slowest ms."""
    done = subprocess.run([DAMAGE, uri, str(step), str(first)], capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    *lines, memory = [line.split() for line in done.stdout.splitlines()]
    return {(key, how): tuple(map(int, numbers)) for key, how, *numbers in lines}, int(memory[1]), done.stderr


@pytest.mark.parametrize("file_version", ["2.0", "2.1", "2.2", "2.2 vectors"])
def test_any_byte_changed_and_any_file_cut_short_is_an_error_or_rows(file_version, tmp_path):
    uri = str(tmp_path / "t.lance")
    if "vectors" in file_version:
        vectors(uri, tmp_path)
    else:
        worn(uri, file_version)
    step = 1 if FULL else 29
    found, memory_kib, nameless = damage(uri, step, sum(file_version.encode()) % step)
    assert memory_kib < 300 * 1024
    read = files_of(uri)
    failed = {key: 0 for key, _ in found}
    for (key, how), (readings, failures, same, others, without_name, slowest_ms) in found.items():
        failed[key] += failures
        assert without_name == 0, nameless[-2000:]
        assert slowest_ms < 5000 and failures + same + others == readings
        assert how != "cut" or others == 0, key # a file cut short is not mistaken for a whole one
        assert key in read or failures == others == 0, key # what is not read does no harm
    assert all(failed[key] > 0 for key in read)


def files_of(uri):
    """Keys of the files that the newest version is read from."""
    dataset = lance.dataset(uri)
    keys = {f"_versions/{2**64 - 1 - dataset.version:020}.manifest"}
    for fragment in dataset.get_fragments():
        keys |= {f"data/{file.path}" for file in fragment.metadata.files}
        deletion = fragment.metadata.deletion_file
        keys |= {deletion.path(fragment.fragment_id)} if deletion else set()
    return keys


def version_2_3(data):
    return data[:-8] + struct.pack("<HH", 2, 3) + data[-4:]


@pytest.mark.parametrize("directory, change, reason", [
    ("_versions", lambda data: b"", "too small"),
    ("_versions", lambda data: data[:-4] + b"LENC", "LANC"),
    ("_versions", lambda data: data[:len(data) // 2], "LANC"),
    ("_versions", version_2_3, "layout 2.3"),
    ("data", lambda data: b"", "size"),
    ("data", lambda data: data[:-4] + b"LENC", "does not end like a Lance file"),
    ("data", lambda data: data[:len(data) // 2], "size"),
    ("data", version_2_3, "2.3"),
    ("_deletions", lambda data: b"", ""),
    ("_deletions", lambda data: data[:len(data) // 2], ""),
    ("_deletions", lambda data: b"ARROX1" + data[6:], ""),
])
def test_a_damaged_file_is_named_with_what_is_wrong(directory, change, reason, tmp_path):
    uri = tmp_path / "t.lance"
    worn(str(uri), "2.1")
    path = uri / sorted(key for key in files_of(str(uri)) if key.startswith(directory))[0]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ToolError) as refused:
        scan(str(uri), tmp_path)
    assert path.name in str(refused.value) and reason in str(refused.value)
    assert str(refused.value).startswith(("CORRUPT_FILE", "UNSUPPORTED_FORMAT"))


# -- features -----------------------------------------------------------------------------------------------

def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7f | 0x80]), value >> 7
    return out + bytes([value])


def with_fields(path, extra):
    """More fields behind the Manifest message: of a scalar that is there twice the last one counts."""
    good = path.read_bytes()
    position = struct.unpack_from("<Q", good, len(good) - 16)[0]
    body = good[position + 4:-16] + extra
    path.write_bytes(good[:position] + struct.pack("<I", len(body)) + body + good[-16:])
    return good


NAMES = {6: "data overlay files", 7: "covering index columns", 9: "fragment reuse index with stable row ids",
         10: "tagged fragment reuse index", 12: "fragment tree", 13: "independent covering fields",
         14: "managed blobs", 16: "zone write seeds", 17: "object metadata"}
FIELD_READER, FIELD_WRITER, FIELD_ID_MAX = b"\x48", b"\x50", b"\xc0\x01"


def outcome(do):
    try:
        do()
        return None
    except (ToolError, Exception) as error: # noqa: B014
        return str(error)


@pytest.mark.parametrize("words", ["reader", "writer", "both"])
def test_every_feature_bit_is_known_or_refused_by_name(words, tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(10), uri, data_storage_version="2.1")
    path = next((tmp_path / "t.lance/_versions").glob("*.manifest"))
    for bit in range(64):
        extra = (FIELD_READER + varint(1 << bit) if words != "writer" else b"")
        extra += (FIELD_WRITER + varint(1 << bit) if words != "reader" else b"")
        if bit == 15 and words == "writer":
            extra += FIELD_ID_MAX + varint(20)
        good = with_fields(path, extra)
        name = NAMES.get(bit, f"unknown feature {bit}" if bit > 17 else None)
        theirs = outcome(lambda: lance.dataset(uri).count_rows())
        ours = outcome(lambda: tool("info", uri))
        if name is None:
            assert (ours is None) == (theirs is None), (bit, ours, theirs)
        if theirs is not None:
            assert ours is not None, (bit, theirs)
        if ours is not None and name is not None and bit not in (8, 10, 14, 16):
            assert name in ours and "UNSUPPORTED_FORMAT" in ours, (bit, ours)
        if ours is None:
            writes = outcome(lambda: append(uri, rows(1, 10), tmp_path))
            if writes is not None:
                assert name is not None and name in writes, (bit, writes)
            else:
                assert bit <= 15 and bit not in NAMES, bit
                newest = lance.dataset(uri)
                assert newest.count_rows() == 11, bit
        for newer in (tmp_path / "t.lance/_versions").glob("*.manifest"):
            if newer != path:
                os.remove(newer)
        path.write_bytes(good)


def test_field_ids_go_on_above_the_highest_ever_given_out(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(10), uri, data_storage_version="2.1")
    path = next((tmp_path / "t.lance/_versions").glob("*.manifest"))
    with_fields(path, FIELD_WRITER + varint(1 << 15) + FIELD_ID_MAX + varint(40))
    lake("columns", "add", uri, "--column", "a:int32")
    lake("columns", "drop", uri, "--column", "a")
    lake("columns", "add", uri, "--column", "b:int32")
    ids = {field.name(): field.id() for field in lance.dataset(uri).lance_schema.fields()}
    assert ids["b"] == 42
    lance.dataset(uri).add_columns(pa.field("c", pa.int8()))
    ids = {field.name(): field.id() for field in lance.dataset(uri).lance_schema.fields()}
    assert ids["c"] == 43
    lake("restore", uri, "--version", 1)
    lake("columns", "add", uri, "--column", "d:int32")
    ids = {field.name(): field.id() for field in lance.dataset(uri).lance_schema.fields()}
    assert ids["d"] == 44
    lake("write", uri, write_ipc(tmp_path / "new.arrow", rows(5)), "--mode", "overwrite")
    newest = lance.dataset(uri)
    assert min(field.id() for field in newest.lance_schema.fields()) == 45 and newest.count_rows() == 5
    assert_same(scan(uri, tmp_path), newest.to_table())


def test_flags_follow_from_what_a_version_holds(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(10), uri, data_storage_version="2.1")

    def flags():
        path = tmp_path / "t.lance/_versions" / f"{2**64 - 1 - lance.dataset(uri).version:020}.manifest"
        return tool("flags", uri).split(), path

    assert flags()[0] == ["0", "0"]
    lake("delete", uri, "--where", "id = 1")
    assert flags()[0] == ["1", "1"]
    lance.dataset(uri).update_config({"k": "v"})
    append(uri, rows(1, 10), tmp_path)
    assert flags()[0] == ["1", "9"]
    lake("restore", uri, "--version", 1)
    assert flags()[0] == ["0", "0"]
