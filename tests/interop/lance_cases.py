"""Tables of every type this cut stores, and the tests that hold for every release of pylance."""
import datetime
import decimal
import random

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_encodings import COLUMNS, LISTS, MAPS, table
from lance_support import FULL, append, assert_reads_alike, assert_same, create, reference, scan

TYPES = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(), "utf8": pa.utf8(),
    "large_utf8": pa.large_utf8(), "binary": pa.binary(), "large_binary": pa.large_binary(), "date32": pa.date32(),
    "date64": pa.date64(), "time32s": pa.time32("s"), "time32ms": pa.time32("ms"), "time64us": pa.time64("us"),
    "time64ns": pa.time64("ns"), "ts_s": pa.timestamp("s"), "ts_ms": pa.timestamp("ms", "UTC"),
    "ts_us": pa.timestamp("us", "Europe/Paris"), "ts_ns": pa.timestamp("ns"), "duration_s": pa.duration("s"),
    "duration_us": pa.duration("us"), "decimal": pa.decimal128(20, 4), "fixed_binary": pa.binary(7),
    "fsl_float": pa.list_(pa.float32(), 8), "fsl_wide": pa.list_(pa.float32(), 200),
    "fsl_uint8": pa.list_(pa.uint8(), 16),
    "struct": pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.utf8())]),
    "struct2": pa.struct([pa.field("x", pa.struct([pa.field("y", pa.float64()), pa.field("z", pa.int8())]))]),
}


def values(kind, count, seed):
    """count values of a type, among them its extremes; no nulls."""
    rng = random.Random(f"{kind} {seed}")
    numbers = np.random.default_rng(seed)
    if pa.types.is_boolean(kind):
        return [rng.random() < 0.5 for _ in range(count)]
    if pa.types.is_integer(kind):
        low, high = ((0, 2**kind.bit_width - 1) if str(kind).startswith("u")
                     else (-2**(kind.bit_width - 1), 2**(kind.bit_width - 1) - 1))
        small = [rng.randrange(0, 100) for _ in range(count)]
        return [low, high][:count] + small[2:] if seed % 2 else [rng.randint(low, high) for _ in range(count)]
    if pa.types.is_floating(kind):
        special = [0.0, -0.0, float("inf"), float("-inf"), float("nan")]
        found = numbers.normal(size=count).astype(f"float{kind.bit_width}").tolist()
        return (special + found)[:count]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ["", "ü", "x" * 300][: count] + [f"row {rng.randrange(10**rng.randrange(1, 9))}" for _ in range(count - 3)]
    if pa.types.is_fixed_size_binary(kind):
        return [rng.randbytes(kind.byte_width) for _ in range(count)]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [b"", b"\0", b"\xff" * 5000][: count] + [rng.randbytes(rng.randrange(20)) for _ in range(count - 3)]
    if pa.types.is_decimal(kind):
        return [decimal.Decimal(rng.randrange(-10**19, 10**19)).scaleb(-4) for _ in range(count)]
    if pa.types.is_date(kind):
        return [datetime.date(1970, 1, 1) + datetime.timedelta(rng.randrange(-20000, 20000)) for _ in range(count)]
    if pa.types.is_time(kind):
        per_day = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}[kind.unit]
        return pa.array([rng.randrange(per_day) for _ in range(count)],
                        pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array([rng.randrange(-10**9, 10**9) for _ in range(count)], pa.int64()).cast(kind)
    if pa.types.is_fixed_size_list(kind):
        flat = pa.array(values(kind.value_type, count * kind.list_size, seed), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, type=kind)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([column(field.type, count, seed + 1, nulls=field.nullable) for field in kind],
                                          fields=list(kind))
    raise AssertionError(kind)


def column(kind, count, seed, nulls):
    made = values(kind, count, seed)
    array = made if isinstance(made, (pa.Array, pa.ChunkedArray)) else pa.array(made, kind)
    if nulls and count:
        mask = np.random.default_rng(seed + 7).random(count) < 0.2
        keep = np.where(mask, None, np.arange(count))
        array = array.take(pa.array(keep.tolist(), pa.int64()))
    return array


def every_type(count, seed=0, nulls=True):
    columns = {"id": pa.array(range(seed * 10**6, seed * 10**6 + count), pa.int64())}
    columns |= {name: column(kind, count, seed, nulls) for name, kind in TYPES.items()}
    schema = pa.schema([pa.field("id", pa.int64(), False)]
                       + [pa.field(name, columns[name].type, nulls) for name in TYPES])
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def few_columns(count, first=0):
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array([None if i % 7 == 3 else f"row {i}" for i in ids], pa.utf8()),
                     "x": pa.array([i * 0.5 for i in ids], pa.float64())})


@pytest.fixture
def uri(tmp_path):
    return tmp_path / "t.lance"


# -- what every release must read of ours ---------------------------------------------------------

@pytest.mark.parametrize("nulls", [True, False])
def test_it_reads_every_type_we_write(uri, tmp_path, nulls):
    rows = every_type(3000, nulls=nulls)
    create(uri, rows.schema, tmp_path)
    assert append(uri, rows, tmp_path, "--rows-per-file", 1100, rows_per_batch=700) == 2
    assert_same(scan(uri, tmp_path), rows)
    assert_same(reference(uri), rows)
    dataset = lance.dataset(str(uri))
    assert dataset.count_rows() == 3000
    assert len(dataset.get_fragments()) == 3
    assert_same(dataset.to_table(filter="id % 500 = 7"), rows.take(list(range(7, 3000, 500))))
    wanted = [0, 1, 1099, 1100, 2999, 5]
    assert_same(dataset.take(wanted), rows.take(wanted))


@pytest.mark.parametrize("count", [1, 3000])
def test_it_reads_members_that_are_null_in_every_row(uri, tmp_path, count):
    inner = pa.StructArray.from_arrays([pa.nulls(count, pa.int64()), pa.array(["x"] * count)], ["a", "b"])
    rows = pa.table({"s": pa.StructArray.from_arrays([inner, pa.nulls(count, pa.list_(pa.float32(), 4))], ["i", "v"])})
    create(uri, rows.schema, tmp_path)
    append(uri, rows, tmp_path)
    assert_same(scan(uri, tmp_path), rows)
    assert_same(reference(uri), rows)


READS_2_2 = int(lance.__version__.split(".")[0]) >= 7 # older releases open such files and misread them


ENCODED = [(name, "2.1") for name in COLUMNS | LISTS] + \
    [(name, "2.2") for name in COLUMNS | LISTS | MAPS if READS_2_2]


@pytest.mark.parametrize("name,version", ENCODED[::1 if FULL else 4])
def test_it_reads_every_encoding_we_write_and_skips_our_statistics(uri, tmp_path, name, version):
    rows = table(name)
    create(uri, rows.schema, tmp_path, version)
    append(uri, rows, tmp_path)
    assert b"LAKESTAT" in next((uri / "data").iterdir()).read_bytes()
    assert_same(reference(uri), rows)
    some = sorted({0, rows.num_rows // 2, rows.num_rows - 1})
    assert_same(lance.dataset(str(uri)).take(some), rows.take(some))


def test_it_sees_the_same_rows_at_every_version(uri, tmp_path):
    create(uri, few_columns(0).schema, tmp_path)
    for i in range(6):
        append(uri, few_columns(100, i * 100), tmp_path)
    for version in range(1, 8):
        assert_reads_alike(uri, tmp_path, version)
        assert reference(uri, version).num_rows == (version - 1) * 100


def test_writers_take_turns(uri, tmp_path):
    create(uri, few_columns(0).schema, tmp_path)
    for i in range(4):
        append(uri, few_columns(10, i * 20), tmp_path)
        lance.write_dataset(few_columns(10, i * 20 + 10), str(uri), mode="append")
    assert_same(scan(uri, tmp_path), few_columns(80))
    for version in range(1, 10):
        assert_reads_alike(uri, tmp_path, version)


def test_we_read_and_append_to_its_2_1_table(uri, tmp_path):
    rows = every_type(2500, seed=1)
    lance.write_dataset(rows, str(uri), data_storage_version="2.1", max_rows_per_file=1000)
    assert_same(scan(uri, tmp_path), rows)
    more = every_type(500, seed=2)
    append(uri, more, tmp_path)
    assert_same(reference(uri), pa.concat_tables([rows, more]))
    assert_reads_alike(uri, tmp_path)


def test_what_it_deletes_of_ours_is_gone_for_us(uri, tmp_path):
    create(uri, few_columns(0).schema, tmp_path)
    append(uri, few_columns(12000), tmp_path, "--rows-per-file", 11000)
    lance.dataset(str(uri)).delete("id % 10 = 3") # few: an Arrow file
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri)).delete("id % 2 = 0")  # many: a bitmap
    assert_reads_alike(uri, tmp_path)
    append(uri, few_columns(10, 20000), tmp_path)
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri)).delete("id >= 0 and id < 11000")
    assert_reads_alike(uri, tmp_path)
    assert_reads_alike(uri, tmp_path, 2)
