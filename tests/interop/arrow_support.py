"""Runs tests/arrow_tool (the arrow room alone) and makes random Arrow data of every type it carries."""
import decimal
import os
import pathlib
import random
import subprocess

import numpy as np
import pyarrow as pa

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake")).parent / "tests/arrow_tool"
FULL = bool(os.environ.get("LAKE_TEST_FULL"))


class ToolError(Exception):
    """arrow_tool refused; the text is "NAME: message"."""


def tool(verb, source, out, container="stream", *arguments):
    done = subprocess.run([TOOL, verb, source, out, container, *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)
    if done.returncode != 0:
        assert done.returncode == 1, f"arrow_tool died ({done.returncode}): {done.stderr}"
        raise ToolError(done.stderr.strip())


def write(path, batches, schema=None, container="stream", **options):
    """Writes batches with pyarrow."""
    schema = schema or batches[0].schema
    make = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
    with make(path, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path


def read(path, container="stream"):
    """All batches as one table, fully validated by pyarrow."""
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file) if container == "file" else pa.ipc.open_stream(file)
        table = reader.read_all()
    table.validate(full=True)
    return table


def text(rng):
    return "".join(rng.choice("abcdefgh €ß\U0001F916") for _ in range(rng.choice([0, 1, 3, 8, 20, 60])))


def values(kind, rng, count):
    """count python or numpy values for a primitive type."""
    bits = np.random.default_rng(rng.getrandbits(32))
    if pa.types.is_boolean(kind):
        return [rng.random() < 0.5 for _ in range(count)]
    if pa.types.is_integer(kind):
        low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << (kind.bit_width - 1))
        high = (1 << (kind.bit_width - (0 if low == 0 else 1))) - 1
        return [rng.choice([low, high, 0, 1, rng.randint(low, high)]) for _ in range(count)]
    if pa.types.is_floating(kind):
        choice = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
        numbers = [rng.choice(choice + [rng.gauss(0, 100)] * 5) for _ in range(count)]
        return np.array(numbers, kind.to_pandas_dtype()) if count else []
    if pa.types.is_decimal(kind):
        limit = 10 ** kind.precision - 1
        with decimal.localcontext(prec=80):
            return [decimal.Decimal(rng.randint(-limit, limit)).scaleb(-kind.scale) for _ in range(count)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [text(rng) for _ in range(count)]
    if pa.types.is_fixed_size_binary(kind):
        return [bits.bytes(kind.byte_width) for _ in range(count)]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [bits.bytes(rng.choice([0, 1, 7, 33])) for _ in range(count)]
    if pa.types.is_date64(kind):
        return [rng.randint(-10 ** 5, 10 ** 5) * 86_400_000 for _ in range(count)]
    if pa.types.is_time(kind):
        limit = {"s": 86_400, "ms": 86_400_000, "us": 86_400 * 10 ** 6, "ns": 86_400 * 10 ** 9}[kind.unit]
        return [rng.randrange(limit) for _ in range(count)]
    if kind == pa.month_day_nano_interval():
        return [pa.MonthDayNano([rng.randint(-9, 9), rng.randint(-99, 99), rng.randint(-10 ** 9, 10 ** 9)])
                for _ in range(count)]
    limit = 700_000 if pa.types.is_date(kind) else 2 ** 30  # days, so that Python can show them
    return [rng.randint(-limit, limit) for _ in range(count)]


PRIMITIVES = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal32(7, 2), pa.decimal64(15, 3), pa.decimal128(10, 2),
    pa.decimal128(38, 9), pa.decimal256(60, 5), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
    pa.binary(16), pa.binary(3), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
    pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Berlin"), pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns"),
    pa.month_day_nano_interval(),
]
NESTED = [
    pa.list_(pa.int32()), pa.large_list(pa.string()), pa.list_(pa.float32(), 4), pa.list_(pa.bool_(), 3),
    pa.struct([("a", pa.int64()), ("b", pa.string())]), pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.struct([("x", pa.list_(pa.int8())), ("y", pa.float64())])),
    pa.struct([("p", pa.struct([("q", pa.binary(2)), ("r", pa.list_(pa.bool_()))])), ("s", pa.bool_())]),
    pa.list_(pa.list_(pa.list_(pa.string(), 2))), pa.list_(pa.list_(pa.float16(), 2), 2),
]


def array(kind, rng, count, nulls=0.2):
    """A random array of any type above; nulls is their share."""
    mask = np.array([rng.random() < nulls for _ in range(count)], bool)
    if pa.types.is_null(kind):
        return pa.nulls(count)
    if pa.types.is_struct(kind):
        children = [array(field.type, rng, count, nulls) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(mask))
    if pa.types.is_fixed_size_list(kind):
        items = array(kind.value_type, rng, count * kind.list_size, nulls)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=pa.array(mask))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes = [0 if mask[i] else rng.choice([0, 0, 1, 2, 5]) for i in range(count)]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        width = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
        offsets = pa.array(offsets, width, mask=np.append(mask, False) if nulls else None)
        total = int(sum(sizes))
        if pa.types.is_map(kind):
            keys = array(kind.key_type, rng, total, 0)
            return pa.MapArray.from_arrays(offsets, keys, array(kind.item_type, rng, total, nulls)).cast(kind)
        items = array(kind.value_type, rng, total, nulls)
        make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        return make.from_arrays(offsets, items, type=kind)
    if pa.types.is_dictionary(kind):
        size = rng.randint(1, 9)
        return pa.DictionaryArray.from_arrays(
            pa.array([rng.randrange(size) for _ in range(count)], kind.index_type, mask=mask),
            array(kind.value_type, rng, size, nulls / 2))
    return pa.array(values(kind, rng, count), kind, mask=mask)


def batch(kinds, rng, count, nulls=0.2):
    """A record batch with one column of each type."""
    return pa.record_batch([array(kind, rng, count, nulls) for kind in kinds],
                           names=[f"c{i}" for i in range(len(kinds))])


EVERYTHING = [pa.null(), *PRIMITIVES, *NESTED]
DICTIONARIES = [
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.int64()),
    pa.dictionary(pa.int32(), pa.binary(4)), pa.list_(pa.dictionary(pa.int16(), pa.string())),
    pa.struct([("d", pa.dictionary(pa.int64(), pa.large_string())), ("e", pa.int8())]),
    pa.dictionary(pa.int8(), pa.list_(pa.int16())),
]
