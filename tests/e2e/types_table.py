"""types_table.py - a table with a column of every type lake stores, and values with nulls and extremes for it."""
import datetime
import decimal

import numpy as np
import pyarrow as pa

UTC = datetime.timezone.utc


def _column(type, values):
    return pa.array(values + [None] + values[::-1], type)


COLUMNS = {
    "bool": (pa.bool_(), [True, False, True]),
    "int8": (pa.int8(), [-128, 127, 0]),
    "int16": (pa.int16(), [-32768, 32767, 1]),
    "int32": (pa.int32(), [-2**31, 2**31 - 1, 2]),
    "int64": (pa.int64(), [-2**63, 2**63 - 1, 3]),
    "uint8": (pa.uint8(), [0, 255, 4]),
    "uint16": (pa.uint16(), [0, 65535, 5]),
    "uint32": (pa.uint32(), [0, 2**32 - 1, 6]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, 7]),
    "float16": (pa.float16(), [np.float16(0.5), np.float16(-65504), np.float16(6e-8)]),
    "float32": (pa.float32(), [1.5, -0.0, float("inf")]),
    "float64": (pa.float64(), [float("nan"), 1e308, -5e-324]),
    "utf8": (pa.utf8(), ["", "plain", "żółć 🤖 " * 20]),
    "large_utf8": (pa.large_utf8(), ["a", "", "b" * 300]),
    "binary": (pa.binary(), [b"", b"\x00\xff", b"x" * 1000]),
    "large_binary": (pa.large_binary(), [b"\x00", b"", b"y" * 70000]),
    "date32": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(9999, 12, 31), datetime.date(2024, 2, 29)]),
    "date64": (pa.date64(), [datetime.date(1969, 12, 31), datetime.date(2100, 1, 1), datetime.date(2024, 2, 29)]),
    "time32_s": (pa.time32("s"), [datetime.time(0), datetime.time(23, 59, 59), datetime.time(12)]),
    "time32_ms": (pa.time32("ms"), [datetime.time(0), datetime.time(23, 59, 59, 999000), datetime.time(12)]),
    "time64_us": (pa.time64("us"), [datetime.time(0), datetime.time(23, 59, 59, 999999), datetime.time(12)]),
    "time64_ns": (pa.time64("ns"), [datetime.time(0), datetime.time(23, 59, 59, 999999), datetime.time(12)]),
    "timestamp_s": (pa.timestamp("s"), [-1, 0, 2**36]),
    "timestamp_ms": (pa.timestamp("ms"), [-1, 0, 2**45]),
    "timestamp_us": (pa.timestamp("us"), [-1, 0, 2**54]),
    "timestamp_ns": (pa.timestamp("ns"), [-1000, 0, 2**61 // 1000 * 1000]),
    "timestamp_utc": (pa.timestamp("us", "UTC"), [-1, 0, 2**54]),
    "timestamp_zone": (pa.timestamp("ms", "Europe/Warsaw"), [-1, 0, 2**45]),
    "duration_s": (pa.duration("s"), [-1, 0, 86400]),
    "duration_us": (pa.duration("us"), [-1, 0, 2**55]),
    "duration_ns": (pa.duration("ns"), [-1000, 0, 2**61 // 1000 * 1000]),
    "decimal": (pa.decimal128(38, 10), [decimal.Decimal("-0.0000000001"), decimal.Decimal("1234567890.5"), decimal.Decimal(0)]),
    "decimal_small": (pa.decimal128(10, 2), [decimal.Decimal("-99999999.99"), decimal.Decimal("0.01"), decimal.Decimal(1)]),
    "fixed_binary": (pa.binary(16), [b"\x00" * 16, b"\xff" * 16, b"0123456789abcdef"]),
    "vector": (pa.list_(pa.float32(), 4), [[1.0, 2.0, 3.0, 4.0], [0.0] * 4, [-1.5, float("inf"), 0.25, -0.0]]),
    "matrix": (pa.list_(pa.int16(), 3), [[1, 2, 3], [-32768, 0, 32767], [4, 5, 6]]),
    "struct": (pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.utf8())]),
               [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": -1, "b": ""}]),
}


def table(names=None):
    """7 rows: three values, a null, the three reversed."""
    names = names or list(COLUMNS)
    arrays = [_column(*COLUMNS[name]) for name in names]
    fields = [pa.field(name, COLUMNS[name][0], nullable=True) for name in names]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def equal(left, right):
    """Equality in which NaN equals NaN and metadata does not count."""
    if len(left) != len(right) or left.schema.names != right.schema.names:
        return False
    for name in left.schema.names:
        a, b = left.column(name), right.column(name)
        if a.type != b.type:
            return False
        if [repr(v) for v in a.to_pylist()] != [repr(v) for v in b.to_pylist()]:
            return False
    return True
