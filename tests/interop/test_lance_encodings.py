"""Every encoding that pylance chooses, in files of version 2.1 and 2.2, read by us: whole, and filtered."""
import decimal
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_encodings import COLUMNS, LISTS, MAPS, table
from lance_support import FULL, TOOL, ToolError, append, assert_same, create, scan

VERSIONS = ["2.1", "2.2"]


@pytest.mark.parametrize("version,name", [(version, name) for version in VERSIONS for name in COLUMNS | LISTS] +
                         [("2.2", name) for name in MAPS])
def test_what_pylance_encodes_we_decode(version, name, tmp_path):
    uri, expected = tmp_path / "t.lance", table(name)
    for part in (expected.slice(0, 1), expected, expected.slice(0, expected.num_rows // 2)):
        lance.write_dataset(part, str(uri), mode="append" if uri.exists() else "create",
                            data_storage_version=version)
    every = pa.concat_tables([expected.slice(0, 1), expected, expected.slice(0, expected.num_rows // 2)])
    assert_same(scan(uri, tmp_path), every)


def is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


@pytest.mark.parametrize("version,name", [(version, name) for version in VERSIONS for name in COLUMNS | LISTS] +
                         [("2.2", name) for name in MAPS])
def test_what_we_encode_pylance_decodes(name, version, tmp_path):
    uri, expected = tmp_path / "t.lance", table(name)
    create(uri, expected.schema, tmp_path, version)
    append(uri, expected, tmp_path, rows_per_batch=777)
    dataset = lance.dataset(str(uri))
    assert dataset.data_storage_version == version
    assert_same(dataset.to_table(), expected)
    rows = sorted({0, expected.num_rows // 3, expected.num_rows - 1})
    assert_same(dataset.take(rows), expected.take(rows))
    assert_same(scan(uri, tmp_path), expected)


def test_maps_need_files_of_version_2_2_and_unsorted_keys(tmp_path):
    kind = pa.map_(pa.utf8(), pa.int64())
    with pytest.raises(ToolError, match="INVALID_SCHEMA.*file version 2.2"):
        create(tmp_path / "old.lance", pa.schema([("m", pa.list_(kind))]), tmp_path, "2.1")
    with pytest.raises(ToolError, match="INVALID_SCHEMA.*sorted"):
        create(tmp_path / "sorted.lance", pa.schema([("m", pa.map_(pa.utf8(), pa.int64(), keys_sorted=True))]),
               tmp_path, "2.2")


def random_type(rng, depth):
    leaves = [pa.int64(), pa.utf8(), pa.float32(), pa.bool_(), pa.int8(), pa.large_binary(), pa.decimal128(9, 2),
              pa.list_(pa.float32(), 3), pa.binary(4)]
    kind = rng.integers(0, 4 if depth < 4 else 1)
    if kind < 2:
        return leaves[rng.integers(0, len(leaves))]
    if kind == 2:
        return pa.struct([pa.field(f"m{i}", random_type(rng, depth + 1)) for i in range(rng.integers(1, 4))])
    return pa.list_(random_type(rng, depth + 1)) if rng.random() < 0.7 else pa.large_list(random_type(rng, depth + 1))


def random_value(rng, kind):
    if rng.random() < 0.08:
        return None
    if is_list(kind):
        return [random_value(rng, kind.value_type) for _ in range(rng.integers(0, 5))]
    if pa.types.is_struct(kind):
        return {field.name: random_value(rng, field.type) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return rng.random(3).tolist()
    if pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        text = "x" * int(rng.integers(0, 400) if rng.random() < 0.02 else rng.integers(0, 12))
        return text if pa.types.is_string(kind) else text.encode()
    if pa.types.is_fixed_size_binary(kind):
        return rng.bytes(4)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(int(rng.integers(0, 10**8))).scaleb(-2)
    return float(np.float32(rng.random())) if pa.types.is_floating(kind) else \
        bool(rng.random() < 0.5) if pa.types.is_boolean(kind) else int(rng.integers(-100, 100))


@pytest.mark.parametrize("seed", range(200 if FULL else 20))
def test_random_nesting_survives_both_ways(seed, tmp_path):
    rng = np.random.default_rng(seed)
    version = VERSIONS[seed % 2]
    kinds = [random_type(rng, 0) for _ in range(3)]
    count = int(rng.choice([1, 2, 50, 1500]))
    expected = pa.table([pa.array([random_value(rng, kind) for _ in range(count)], kind) for kind in kinds],
                        names=["a", "b", "c"])
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    lance.write_dataset(expected, str(theirs), data_storage_version=version)
    assert_same(scan(theirs, tmp_path), expected)
    create(ours, expected.schema, tmp_path, version)
    append(ours, expected, tmp_path, rows_per_batch=400)
    append(ours, expected.slice(count // 3), tmp_path)
    both = pa.concat_tables([expected, expected.slice(count // 3)])
    assert_same(lance.dataset(str(ours)).to_table(), both)
    assert_same(scan(ours, tmp_path), both)


def test_one_row_of_very_many_empty_lists(tmp_path):
    rows = pa.table({"v": pa.array([[[]] * 100000, [[1]], [[]] * 3000 + [[2, 3]], None] * 3,
                                   pa.list_(pa.list_(pa.int32())))})
    uri = tmp_path / "t.lance"
    create(uri, rows.schema, tmp_path)
    append(uri, rows, tmp_path)
    assert_same(lance.dataset(str(uri)).to_table(), rows)
    assert_same(scan(uri, tmp_path), rows)


def test_many_small_pages_read_in_order(tmp_path):
    expected = pa.table({"a": np.arange(20000), "s": [f"row-{i}" for i in range(20000)]})
    for version in VERSIONS:
        uri = tmp_path / f"{version}.lance"
        lance.write_dataset(expected, str(uri), data_storage_version=version, data_cache_bytes=32768,
                            max_page_bytes=16384)
        assert_same(scan(uri, tmp_path), expected)


def counts(uri, *options):
    """Rows that scan_tool finds."""
    done = subprocess.run([TOOL.parent / "scan_tool", uri, *map(str, options)], input="\n", capture_output=True,
                          text=True, timeout=120, check=True)
    return int(done.stdout.split()[0])


@pytest.mark.parametrize("ours", [False, True])
def test_filters_and_limits_count_like_pylance(ours, tmp_path):
    rng = np.random.default_rng(3)
    rows = pa.table({"k": rng.integers(0, 50, 200000), "t": [f"text {i % 977}" for i in range(200000)],
                     "x": pa.array(rng.integers(0, 1000, 200000), mask=rng.random(200000) < 0.2)})
    uri = tmp_path / "t.lance"
    if ours:
        create(uri, rows.schema, tmp_path)
        append(uri, rows, tmp_path, "--rows-per-file", 70000, rows_per_batch=10000)
    else:
        lance.write_dataset(rows, str(uri), data_storage_version="2.1", max_rows_per_file=70000)
    dataset = lance.dataset(str(uri))
    dataset.delete("k = 13")
    for column, value in ((0, 7), (0, 13), (2, 999), (2, 5000)):
        name = rows.column_names[column]
        for option, sign in (("--equals", "="), ("--less", "<")):
            expected = dataset.count_rows(f"{name} {sign} {value}")
            for threads in (0, 3):
                assert counts(uri, option, f"{column}={value}", "--threads", threads) == expected
            assert counts(uri, option, f"{column}={value}", "--count") == expected
            assert counts(uri, option, f"{column}={value}", "--limit", 100) == min(100, expected)
    assert counts(uri) == dataset.count_rows()
    assert counts(uri, "--budget", 24 << 20) == dataset.count_rows()
