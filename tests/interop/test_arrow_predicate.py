"""lake's predicates against DuckDB: random trees over random columns select the same rows."""
import datetime
import decimal
import math
import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from arrow_support import FULL, read, tool, write

EPOCH = datetime.datetime(1970, 1, 1)
STRINGS = ["", "a", "ab", "abc", "b", "ß", "a\U0001F916", "abcdefghijklmnop", "abcdefghijklmnoq", "Zebra", "zebra"]
BINARIES = [b"", b"\x00", b"\x00\x01", b"\xff", b"\xff\xff", b"a", b"ab"]


def integers(kind):
    bits, signed = kind.bit_width, not pa.types.is_unsigned_integer(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return [low, low + 1, 0, 1, 2, 7, high - 1, high]


FLOATS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -1.5, 1e300, 5e-324, 0.1]


def pool(kind):
    """Values that meet each other often."""
    if pa.types.is_boolean(kind):
        return [False, True]
    if pa.types.is_integer(kind):
        return integers(kind)
    if pa.types.is_floating(kind):
        return [float(np.float32(x)) for x in FLOATS if not abs(x) > 1e38 or math.isinf(x)] if kind == pa.float32() \
            else FLOATS
    if pa.types.is_decimal(kind):
        return [decimal.Decimal(x).scaleb(-kind.scale) for x in (-10 ** 6, -1, 0, 1, 99, 100, 10 ** 6)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return STRINGS
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return BINARIES
    return [-1_000_000, -1, 0, 1, 86_399, 1_000_000] if not pa.types.is_time(kind) else [0, 1, 86_399, 1_000_000]


KINDS = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
         pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(30, 3), pa.string(),
         pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(), pa.time64("us"), pa.timestamp("us"),
         pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.timestamp("ns")]


def ours(kind, value):
    """A constant as arrow_tool reads it: the column's physical form."""
    if pa.types.is_floating(kind):
        return f"f:{value!r}"
    if pa.types.is_decimal(kind):
        return f"d:{int(value.scaleb(kind.scale))}"
    if isinstance(value, str):
        return "b:" + value.encode().hex()
    if isinstance(value, bytes):
        return "b:" + value.hex()
    return ("u:" if kind == pa.uint64() else "i:") + str(int(value))


def sql(kind, value):
    """The same constant for DuckDB."""
    if pa.types.is_floating(kind):
        return f"'{value!r}'::{'FLOAT' if kind == pa.float32() else 'DOUBLE'}"
    if pa.types.is_decimal(kind):
        return f"{value:f}::DECIMAL({kind.precision},{kind.scale})"
    if isinstance(value, str):
        return "'" + value + "'"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{b:02X}" for b in value) + "'::BLOB"
    if pa.types.is_date(kind):
        return f"(DATE '1970-01-01' + {value})"
    if pa.types.is_time(kind):
        return f"TIME '{(EPOCH + datetime.timedelta(microseconds=value)).time()}'"
    if pa.types.is_timestamp(kind):
        name = {"us": "make_timestamp({})", "s": "make_timestamp({}000000)::TIMESTAMP_S",
                "ns": "make_timestamp_ns({})"}[kind.unit].format(value)
        return f"to_timestamp({value} / 1000000.0)" if kind.tz else name
    return str(value).lower()


def leaf(rng):
    """(arrow_tool's text, DuckDB's text) of one comparison."""
    column = rng.randrange(len(KINDS))
    kind, name = KINDS[column], f"c{column}"
    values = pool(kind)
    choice = rng.random()
    if choice < 0.1:
        return f"(null {column})", f"{name} IS NULL"
    if choice < 0.2:
        return f"(valid {column})", f"{name} IS NOT NULL"
    if choice < 0.35:
        some = [rng.choice(values) for _ in range(rng.choice([1, 2, 5, 12, 30]))]
        return (f"(in {column} {' '.join(ours(kind, v) for v in some)})",
                f"{name} IN ({', '.join(sql(kind, v) for v in some)})")
    if choice < 0.45 and kind in (pa.string(), pa.large_string()):
        value = rng.choice(values)
        return f"(prefix {column} {ours(kind, value)})", f"starts_with({name}, {sql(kind, value)})"
    operator, value = rng.choice(["=", "!=", "<", "<=", ">", ">="]), rng.choice(values)
    return f"({operator} {column} {ours(kind, value)})", f"{name} {operator} {sql(kind, value)}"


def tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return leaf(rng)
    if rng.random() < 0.25:
        mine, theirs = tree(rng, depth - 1)
        return f"(not {mine})", f"(NOT {theirs})"
    word = rng.choice(["and", "or"])
    parts = [tree(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
    return f"({word} {' '.join(p[0] for p in parts)})", f"({f' {word.upper()} '.join(p[1] for p in parts)})"


@pytest.mark.parametrize("seed", range(60 if FULL else 4))
def test_random_trees_select_what_duckdb_selects(tmp_path, seed):
    rng = random.Random(seed)
    count = rng.choice([50, 5000])
    share = rng.choice([0, 0.2, 0.9])
    columns = [pa.array([None if rng.random() < share else rng.choice(pool(kind)) for _ in range(count)], kind)
               for kind in KINDS]
    names = [f"c{i}" for i in range(len(KINDS))]
    table = pa.table([*columns, pa.array(range(count))], [*names, "row"])
    write(tmp_path / "in", table.to_batches())
    skip = rng.choice([0, 3, 13])  # evaluated as a slice, so that offsets are not 0 only
    table = table.slice(skip)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", table)
    for _ in range(60):
        mine, theirs = tree(rng, rng.choice([0, 1, 2, 3]))
        tool("where", tmp_path / "in", tmp_path / "out", "stream", mine, skip)
        want = [r[0] for r in connection.execute(f"SELECT row FROM rows WHERE {theirs} ORDER BY row").fetchall()]
        assert read(tmp_path / "out")["row"].to_pylist() == want, (mine, theirs)
