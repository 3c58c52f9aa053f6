"""Every encoding that pylance chooses, in files of version 2.1 and 2.2, read by us: whole, and filtered."""
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_encodings import COLUMNS, LISTS, MAPS, table
from lance_support import TOOL, ToolError, append, assert_same, create, scan

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


@pytest.mark.parametrize("name", COLUMNS)
def test_what_we_encode_pylance_decodes(name, tmp_path):
    uri, expected = tmp_path / "t.lance", table(name)
    create(uri, expected.schema, tmp_path)
    append(uri, expected, tmp_path, rows_per_batch=777)
    dataset = lance.dataset(str(uri))
    assert_same(dataset.to_table(), expected)
    rows = sorted({0, expected.num_rows // 3, expected.num_rows - 1})
    assert_same(dataset.take(rows), expected.take(rows))
    assert_same(scan(uri, tmp_path), expected)


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


def test_what_we_do_not_read_yet_is_refused_by_name(tmp_path):
    uri = tmp_path / "t.lance"
    packed = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([0.5, 1.5])], ["a", "b"])
    field = pa.field("v", packed.type, metadata={"packed": "true", "lance-encoding:packed": "true"})
    lance.write_dataset(pa.table([packed], schema=pa.schema([field])), str(uri), data_storage_version="2.1")
    with pytest.raises(ToolError, match="UNSUPPORTED_FORMAT.*packed struct"):
        scan(uri, tmp_path)
