"""Every encoding that pylance chooses, in files of version 2.1 and 2.2, read by us: whole, and filtered."""
import decimal
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_encodings import COLUMNS, LISTS, MAPS, WORDS, table
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


def pages(uri):
    """The layouts and encodings of all pages of all files."""
    lines = []
    for file in (uri / "data").iterdir():
        done = subprocess.run([TOOL.parent / "page_tool", file], capture_output=True, text=True, timeout=60, check=True)
        lines += done.stdout.splitlines()
    return {line.split(" ", 2)[2] for line in lines}


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


CHOSEN = { # what must be seen in the pages of these columns, in files of 2.1 and of 2.2
    "flat_i8": ("miniblock flat8", "miniblock flat8"),
    "packed_i64": ("miniblock inline64", "miniblock inline64"),
    "packed_nulls": ("miniblock def=packed16(flat1) inline64", "miniblock def=packed16(flat1) inline64"),
    "dictionary_of_big": ("miniblock flat64", "miniblock inline32 of=flat64"),
    "runs": ("miniblock rle(flat32,flat8)", "miniblock rle(flat32,flat8)"),
    "sorted": ("miniblock rle(flat64,flat8)", "miniblock rle(flat64,flat8)"),
    "constant": ("miniblock rle(flat64,flat8)", "constant"),
    "constant_nulls": ("miniblock def=packed16(flat1) rle(flat64,flat8)",
                       "miniblock def=packed16(flat1) inline32 of=flat64"),
    "all_null": ("constant", "constant"),
    "null_type": ("constant", "constant"),
    "bool": ("miniblock def=packed16(flat1) flat1",) * 2,
    "decimal_few": ("miniblock inline32 of=flat128", "miniblock inline32 of=general-lz4(flat128)"),
    "text_few": ("miniblock inline32 of=variable(flat32)",) * 2,
    "text_few_long": ("miniblock inline32 of=variable(flat32)", "miniblock inline32 of=general-lz4(variable(flat32))"),
    "text_few_long_zstd": ("miniblock inline32 of=variable(flat32)",
                           "miniblock inline32 of=general-zstd(variable(flat32))"),
    "text_no_dictionary": ("miniblock variable(flat32)",) * 2,
    "text_constant": ("miniblock inline32 of=variable(flat32)", "constant"),
    "text_short": ("miniblock fsst(variable(flat32))",) * 2,
    "text_large": ("miniblock fsst(variable(flat64))",) * 2,
    "text_4k": ("fullzip fsst(variable(flat32))",) * 2,
    "text_60k": ("fullzip general-zstd(variable(flat32))",) * 2,
    "text_plain": ("miniblock variable(flat32)",) * 2,
    "text_zstd": ("miniblock general-zstd(variable(flat32))",) * 2,
    "text_lz4": ("miniblock general-lz4(variable(flat32))",) * 2,
    "binary": ("miniblock variable(flat32)",) * 2,
    "binary_10k": ("fullzip variable(flat64)",) * 2,
    "binary_60k": ("fullzip general-zstd(variable(flat32))",) * 2,
    "binary_random_60k": ("fullzip variable(flat32)",) * 2,
    "lz4_floats": ("miniblock general-lz4(split(flat64))", "miniblock inline32 of=general-lz4(flat64)"),
    "zstd_integers": ("miniblock flat64",) * 2, # random: it would not get smaller
    "split_floats": ("miniblock general-zstd(split(flat32))",) * 2,
    "fixed_binary_wide": ("fullzip flat2400",) * 2,
    "zip_integers": ("fullzip flat64", "miniblock def=packed16(flat1) inline32 of=general-lz4(flat64)"),
    "zip_text": ("fullzip variable(flat32)",) * 2,
    "vector_768": ("fullzip fsl768(flat32)",) * 2,
    "vector_768_mini": ("miniblock fsl768(flat32)",) * 2,
    "vector_8": ("miniblock def=flat16 fsl8(flat32)", "miniblock def=rle(flat16,flat8) fsl8(flat32)"),
    "vector_4_item_nulls": ("miniblock fsl4v(flat32)",) * 2,
    "list": ("miniblock rep=packed16(flat1) def=packed16(flat2) inline64",) * 2,
    "list_long": ("miniblock rep=packed16(flat1) def=packed16(flat1) flat32",
                  "miniblock rep=rle(flat16,flat8) def=rle(flat16,flat8) flat32"),
    "list_empty": ("constant", "constant rep=rle(flat16,flat8) def=rle(flat16,flat8)"),
    "list_of_pages": ("fullzip fsst(variable(flat32))",) * 2,
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CHOSEN)
def test_values_get_the_encoding_that_suits_them(name, version, tmp_path):
    uri, rows = tmp_path / "t.lance", table(name)
    create(uri, rows.schema, tmp_path, version)
    append(uri, rows, tmp_path)
    assert pages(uri) == {CHOSEN[name][VERSIONS.index(version)]}


@pytest.mark.parametrize("version", VERSIONS)
def test_files_are_hardly_larger_than_those_of_pylance(version, tmp_path):
    """Of every column, and of all of them together; statistics and footers of small files aside."""
    sizes = {}
    for name in COLUMNS | LISTS | (MAPS if version == "2.2" else {}):
        ours, theirs, rows = tmp_path / f"{name}.ours", tmp_path / f"{name}.theirs", table(name)
        create(ours, rows.schema, tmp_path, version)
        append(ours, rows, tmp_path)
        lance.write_dataset(rows, str(theirs), data_storage_version=version)
        sizes[name] = [sum(file.stat().st_size for file in uri.glob("data/*")) for uri in (ours, theirs)]
    larger = {name: size for name, size in sizes.items() if size[0] > 1.15 * size[1] + 1024}
    assert not larger
    assert sum(ours for ours, _ in sizes.values()) <= 1.15 * sum(theirs for _, theirs in sizes.values())


def test_metadata_that_asks_for_what_there_is_not_is_refused(tmp_path):
    for key, value in (("compression", "snappy"), ("structural-encoding", "sparse"), ("dict-size-ratio", "7")):
        field = pa.field("v", pa.utf8(), metadata={f"lance-encoding:{key}": value})
        with pytest.raises(ToolError, match=f"INVALID_SCHEMA.*{key}.*{value}"):
            create(tmp_path / f"{key}.lance", pa.schema([field]), tmp_path)


def test_maps_need_files_of_version_2_2_and_unsorted_keys(tmp_path):
    kind = pa.map_(pa.utf8(), pa.int64())
    with pytest.raises(ToolError, match="INVALID_SCHEMA.*file version 2.2"):
        create(tmp_path / "old.lance", pa.schema([("m", pa.list_(kind))]), tmp_path, "2.1")
    with pytest.raises(ToolError, match="INVALID_SCHEMA.*sorted"):
        create(tmp_path / "sorted.lance", pa.schema([("m", pa.map_(pa.utf8(), pa.int64(), keys_sorted=True))]),
               tmp_path, "2.2")


def random_type(rng, depth):
    leaves = [pa.int64(), pa.utf8(), pa.float32(), pa.bool_(), pa.int8(), pa.large_binary(), pa.decimal128(9, 2),
              pa.list_(pa.float32(), 3), pa.binary(4), pa.list_(pa.bool_(), 3), pa.list_(pa.list_(pa.bool_(), 5), 2),
              pa.list_(pa.null(), 2), pa.list_(pa.list_(pa.null(), 2), 3)]
    kind = rng.integers(0, 4 if depth < 4 else 1)
    if kind < 2:
        return leaves[rng.integers(0, len(leaves))]
    if kind == 2:
        return pa.struct([pa.field(f"m{i}", random_type(rng, depth + 1)) for i in range(rng.integers(1, 4))])
    return pa.list_(random_type(rng, depth + 1)) if rng.random() < 0.7 else pa.large_list(random_type(rng, depth + 1))


def random_value(rng, kind, null_structs=True):
    if rng.random() < 0.08 and (null_structs or not pa.types.is_struct(kind)):
        return None
    if is_list(kind):
        return [random_value(rng, kind.value_type, null_structs) for _ in range(rng.integers(0, 5))]
    if pa.types.is_struct(kind):
        return {field.name: random_value(rng, field.type, null_structs) for field in kind}
    if pa.types.is_null(kind):
        return None
    if pa.types.is_fixed_size_list(kind):
        return [random_value(rng, kind.value_type, null_structs) for _ in range(kind.list_size)]
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
    version = ["2.0", *VERSIONS][seed % 3]
    kinds = [random_type(rng, 0) for _ in range(3)]
    count = int(rng.choice([1, 2, 50, 1500]))
    expected = pa.table([pa.array([random_value(rng, kind, version != "2.0") for _ in range(count)], kind)
                         for kind in kinds], names=["a", "b", "c"])
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    lance.write_dataset(expected, str(theirs), data_storage_version=version)
    assert_same(scan(theirs, tmp_path), expected)
    create(ours, expected.schema, tmp_path, version)
    append(ours, expected, tmp_path, rows_per_batch=400)
    append(ours, expected.slice(count // 3), tmp_path)
    both = pa.concat_tables([expected, expected.slice(count // 3)])
    assert_same(lance.dataset(str(ours)).to_table(), both)
    assert_same(scan(ours, tmp_path), both)


EMPTY = pa.struct([])


@pytest.mark.parametrize("version", ["2.0", *VERSIONS])
@pytest.mark.parametrize("kind", [EMPTY, pa.struct([("a", pa.int32()), ("e", EMPTY)]), pa.struct([("e", EMPTY)]),
                                  pa.struct([("l", pa.list_(pa.int8())), ("e", EMPTY), ("f", EMPTY)])], ids=str)
def test_empty_structs_survive_both_ways(kind, version, tmp_path):
    rng = np.random.default_rng(1)
    value = lambda of: {field.name: value(field.type) if pa.types.is_struct(field.type) else random_value(rng, field.type)
                        for field in of}
    expected = pa.table({"n": np.arange(3000), "s": pa.array([value(kind) for _ in range(3000)], kind)})
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    lance.write_dataset(expected, str(theirs), data_storage_version=version)
    assert_same(scan(theirs, tmp_path), expected)
    for uri in (ours, theirs):
        if uri == ours:
            create(ours, expected.schema, tmp_path, version)
            append(ours, expected, tmp_path, rows_per_batch=700)
        append(uri, expected, tmp_path)
        assert_same(lance.dataset(str(uri)).to_table(), pa.concat_tables([expected] * 2))
        assert lance.dataset(str(uri)).take([0, 4000]).to_pylist() == expected.take([0, 1000]).to_pylist()
        assert_same(scan(uri, tmp_path), pa.concat_tables([expected] * 2))


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_structs_that_files_cannot_hold_are_refused(version, tmp_path):
    within = pa.struct([("a", pa.int8()), ("e", EMPTY)])
    for kind, rows in ((EMPTY, [{}, None]), (within, [{"a": 1, "e": None}]), (within, [None])):
        uri = tmp_path / f"{len(list(tmp_path.iterdir()))}.lance"
        create(uri, pa.schema([("s", kind)]), tmp_path, version)
        with pytest.raises(ToolError, match="SCHEMA_MISMATCH.*empty struct is null"):
            append(uri, pa.table({"s": pa.array(rows, kind)}), tmp_path)
    with pytest.raises(ToolError, match="INVALID_SCHEMA.*in lists"):
        create(tmp_path / "list.lance", pa.schema([("s", pa.list_(EMPTY))]), tmp_path, version)
    with pytest.raises(ToolError, match="INVALID_SCHEMA.*column n.*go last"): # pylance reads its own as nulls
        create(tmp_path / "first.lance", pa.schema([("s", EMPTY), ("n", pa.int64())]), tmp_path, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_crowded_rows_of_booleans_survive(version, tmp_path):
    bits = [True, None, False]
    for kind, item, many in ((pa.list_(pa.bool_(), 3), bits, 2000), (pa.bool_(), True, 70000),
                             (pa.list_(pa.null(), 3), [None] * 3, 70000)):
        uri = tmp_path / f"{len(list(tmp_path.iterdir()))}.lance"
        rows = pa.table({"v": pa.array([[[]] * many, [[item]], [[]] * 1900 + [[item, None, item]], None] * 30,
                                       pa.list_(pa.list_(kind)))})
        create(uri, rows.schema, tmp_path, version)
        append(uri, rows, tmp_path)
        assert_same(scan(uri, tmp_path), rows)
        assert_same(lance.dataset(str(uri)).to_table(), rows)


def test_a_row_too_crowded_to_be_read_by_pylance_is_refused(tmp_path):
    rows = pa.table({"v": pa.array([[[]] * 2100], pa.list_(pa.list_(pa.list_(pa.bool_(), 3))))})
    create(tmp_path / "t.lance", rows.schema, tmp_path)
    with pytest.raises(ToolError, match="LIMIT.*column item.*2048"):
        append(tmp_path / "t.lance", rows, tmp_path)


def awkward(rng, count):
    """Columns of one table that together have what values can be: extremes, NaN, -0.0, runs, repeats, long text."""
    big = np.iinfo("int64")
    extremes = np.array([big.min, big.max, 0, -1, 1], "int64")[rng.integers(0, 5, count)]
    floats = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324, 1.5])[rng.integers(0, 7, count)]
    words = [" ".join(WORDS[j] for j in rng.integers(0, len(WORDS), rng.integers(0, 30))) for _ in range(50)]
    words += ["", "\0", "x" * 300, "\U0001f600"]
    repeated = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, len(words), count).astype("int32"),
                                                       mask=rng.random(count) < 0.05), words).cast(pa.utf8())
    unique = pa.array(rng.integers(0, 2**62, count)).cast(pa.utf8())
    sizes = rng.integers(0, 4, count)
    lists_of = pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(sizes)]).astype("int32"),
                                        pa.array(rng.integers(0, 1000, sizes.sum())))
    nested = pa.StructArray.from_arrays([repeated, pa.array(extremes)], ["t", "n"],
                                        mask=pa.array(rng.random(count) < 0.1))
    return pa.table({"extremes": pa.array(extremes, mask=rng.random(count) < 0.1), "floats": floats,
                     "runs": pa.array(np.repeat(rng.integers(-3, 3, count // 700 + 1), 700)[:count]),
                     "repeated": repeated, "unique": unique, "lists": lists_of, "nested": nested,
                     "sparse": pa.array(np.arange(count), mask=rng.random(count) < 0.999),
                     "bits": pa.array(rng.random(count) < 0.001)})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 1023, 1025, 70_000] + ([300_000] if FULL else []))
def test_awkward_values_of_any_number_are_read_filtered_taken_and_counted(count, version, tmp_path):
    rng = np.random.default_rng(count)
    uri, rows = tmp_path / "t.lance", awkward(rng, count)
    create(uri, rows.schema, tmp_path, version)
    append(uri, rows, tmp_path, rows_per_batch=9999)
    dataset = lance.dataset(str(uri))
    assert_same(dataset.to_table(), rows)
    assert_same(scan(uri, tmp_path), rows)
    for where in ("extremes = 1", "floats > 1", "repeated = ''", "bits", "runs < -2", "sparse IS NOT NULL"):
        mask = dataset.to_table(filter=where)
        assert mask.num_rows == dataset.count_rows(where)
        expected = {"extremes = 1": lambda: pc.equal(rows["extremes"], 1), "floats > 1": lambda: pc.greater(
            rows["floats"], 1), "repeated = ''": lambda: pc.equal(rows["repeated"], ""), "bits": lambda: rows["bits"],
            "runs < -2": lambda: pc.less(rows["runs"], -2),
            "sparse IS NOT NULL": lambda: pc.is_valid(rows["sparse"])}[where]()
        if "floats" not in where: # DataFusion orders NaN above all numbers, pyarrow nowhere
            assert_same(mask, rows.filter(expected))
    taken = sorted(set(rng.integers(0, count, 50).tolist())) if count else []
    if taken:
        assert_same(dataset.take(taken), rows.take(taken))


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


@pytest.mark.parametrize("ours", [None, "2.1", "2.2"])
def test_filters_and_limits_count_like_pylance(ours, tmp_path):
    rng = np.random.default_rng(3)
    rows = pa.table({"k": rng.integers(0, 50, 200000), "t": [f"text {i % 977}" for i in range(200000)],
                     "x": pa.array(rng.integers(0, 1000, 200000), mask=rng.random(200000) < 0.2)})
    uri = tmp_path / "t.lance"
    if ours:
        create(uri, rows.schema, tmp_path, ours)
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
