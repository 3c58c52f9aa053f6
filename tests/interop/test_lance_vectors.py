"""Fixed-size lists of structs, in files of version 2.2, between pylance and us. pylance stores them beside other columns,
but reads each only alone: there it is asked column by column, and what it cannot read at all we read back ourselves."""
import random
import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_change_cases import lake, report
from lance_random import random_array, random_vector_type
from lance_support import FULL, ToolError, assert_same, read_ipc, write_ipc

SEEDS = range(150 if FULL else 4)


def random_vectors(seed, count=None):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    count = rng.choice([0, 1, 40, 3000]) if count is None else count
    return random_array(rng, numbers, random_vector_type(rng), count)


def scan(uri, scratch, *options):
    lake("scan", uri, *options, "-o", scratch / "out.arrow")
    return read_ipc(scratch / "out.arrow")


def plain(values):
    return [repr(value) for value in values.to_pylist()]


def as_values(kind):
    """The type without dictionaries: we hand out their values."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(as_values(field.type)) for field in kind])
    return pa.list_(as_values(kind.value_type), kind.list_size) if pa.types.is_fixed_size_list(kind) else kind


def alike(actual, expected):
    assert list(map(as_values, actual.schema.types)) == list(map(as_values, expected.schema.types))
    for name in expected.column_names:
        assert plain(actual[name]) == plain(expected[name]), name


def by_columns(uri, names):
    dataset = lance.dataset(str(uri))
    return pa.table({name: dataset.to_table(columns=[name])[name] for name in names})


def write(uri, scratch, rows, *options):
    lake("write", uri, write_ipc(scratch / "rows.arrow", rows, 700), *options)


def pylance_writes(uri, rows, **options):
    """False where its own writer stumbles over the nulls of nested lists, which ours stores and it reads."""
    try:
        lance.write_dataset(rows, uri, data_storage_version="2.2", **options)
    except OSError as error:
        assert "null_bit_buffer size too small" in str(error)
        shutil.rmtree(uri, ignore_errors=True)
        return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_alone_is_read_and_taken_by_both(seed, tmp_path):
    rows, rng = pa.table({"v": random_vectors(seed)}), random.Random(seed)
    wanted = sorted(rng.sample(range(rows.num_rows), min(rows.num_rows, 30)))
    uris = [tmp_path / "theirs"] if pylance_writes(tmp_path / "theirs", rows, max_rows_per_file=1100) else []
    write(tmp_path / "ours", tmp_path, rows, "--max-rows-per-file", 1100)
    for uri in [*uris, tmp_path / "ours"]:
        dataset = lance.dataset(str(uri))
        assert dataset.data_storage_version == "2.2"
        alike(dataset.to_table(), rows)
        alike(scan(uri, tmp_path), rows)
        if wanted:
            alike(dataset.take(wanted), rows.take(pa.array(wanted, pa.int64())))
        lake("take", uri, "--rows", ",".join(map(str, wanted)), "-o", tmp_path / "taken.arrow")
        alike(read_ipc(tmp_path / "taken.arrow"), rows.take(pa.array(wanted, pa.int64())))
        assert lake("verify", uri)
        there = rows.filter(rows["v"].is_valid()) # where it filters by such a column it loses members of its structs
        alike(scan(uri, tmp_path, "--filter", "v IS NOT NULL"), there)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_beside_others_it_goes_through_every_change(seed, stable, tmp_path):
    """By us, of a table that pylance or we wrote; pylance changes what it can without reading the column."""
    uri, count = tmp_path / "t.lance", random.Random(seed).choice([1, 60, 2500])
    parts = {"id": pa.array(range(count), pa.int64()), "v": random_vectors(seed, count)}
    inner = random_vectors(seed + 1000, count)
    parts["s"] = pa.StructArray.from_arrays([inner, parts["id"]], ["f", "n"],
                                            mask=pa.array([i % 6 == 2 for i in range(count)]))
    rows, read_by_pylance = pa.table(parts), ["id", "v"] # of a struct with members of two lengths it reads neither

    def check():
        found = scan(uri, tmp_path)
        alike(found.sort_by("id") if found.num_rows else found, rows)
        theirs = by_columns(uri, read_by_pylance)
        alike(theirs.take(pa.compute.sort_indices(theirs["id"])) if theirs.num_rows else theirs,
              rows.select(read_by_pylance))
        assert lake("verify", uri)

    if not seed % 2 or not pylance_writes(uri, rows, max_rows_per_file=900, enable_stable_row_ids=stable):
        write(uri, tmp_path, rows, "--max-rows-per-file", 900, *(["--stable-row-ids"] if stable else []))
    check()
    report("delete", uri, "--where", "id % 5 = 1")
    lance.dataset(str(uri)).delete("id % 5 = 3")
    rows = rows.filter(pa.array([i % 5 not in (1, 3) for i in rows["id"].to_pylist()], pa.bool_()))
    check()
    report("update", uri, "--set", "id=id + 10000", "--where", "id % 7 = 2")
    ids = [i + 10000 if i % 7 == 2 else i for i in rows["id"].to_pylist()]
    rows = rows.set_column(0, "id", pa.array(ids, pa.int64()))
    rows = rows.take(pa.array(np.argsort(ids), pa.int64()))
    check()
    more = rows.take(pa.array(range(rows.num_rows // 2), pa.int64()))
    more = more.set_column(0, "id", pa.compute.add(more["id"], 1_000_000))
    write(uri, tmp_path, more, "--mode", "append")
    rows = pa.concat_tables([rows, more]).unify_dictionaries()
    check()
    report("compact", uri)
    check()
    low = scan(uri, tmp_path, "--filter", "id < 20")
    alike(low.sort_by("id") if low.num_rows else low, rows.filter(pa.compute.less(rows["id"], 20)))


def test_a_column_added_to_and_dropped_from_a_table(tmp_path):
    uri, rows = tmp_path / "t.lance", pa.table({"id": pa.array(range(9)), "v": random_vectors(3, 9)})
    write(uri, tmp_path, rows)
    lake("columns", "add", uri, "--column", "w:fixed_size_list<struct<x:int64?,y:utf8?>?>(4)?")
    found = scan(uri, tmp_path)
    assert found["w"].null_count == 9 and found["w"].type.list_size == 4
    lake("columns", "drop", uri, "--column", "v")
    assert_same(scan(uri, tmp_path).select(["id"]), rows.select(["id"]))
    write(uri, tmp_path, pa.table({"id": pa.array([9]), "w": pa.array([[{"x": 1, "y": "a"}] * 4],
                                                                     found["w"].type)}), "--mode", "append")
    report("compact", uri)
    assert scan(uri, tmp_path)["w"].to_pylist() == [None] * 9 + [[{"x": 1, "y": "a"}] * 4]
    assert lance.dataset(str(uri)).to_table(columns=["w"])["w"].to_pylist()[-1] == [{"x": 1, "y": "a"}] * 4


@pytest.mark.parametrize("kind, value", [
    (pa.list_(pa.list_(pa.struct([("a", pa.int64())]), 2)), [[{"a": 1}, {"a": 2}]]),
    (pa.list_(pa.struct([("a", pa.list_(pa.int64()))]), 2), [{"a": [1]}, {"a": [2, 3]}])])
def test_lists_in_or_around_them_are_refused_by_name(kind, value, tmp_path):
    rows = pa.table({"v": pa.array([value], kind)})
    with pytest.raises(ToolError, match="fixed-size lists of structs with lists"):
        write(tmp_path / "ours", tmp_path, rows)
    lance.write_dataset(rows, tmp_path / "theirs", data_storage_version="2.2") # and cannot read it
    with pytest.raises(ToolError, match="fixed-size lists of structs with lists"):
        scan(tmp_path / "theirs", tmp_path)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_files_before_2_2_hold_none(version, tmp_path):
    with pytest.raises(ToolError, match="2.2"):
        write(tmp_path / "t", tmp_path, pa.table({"v": random_vectors(1, 5)}), "--file-version", version)
