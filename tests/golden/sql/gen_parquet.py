"""gen_parquet.py - writes types.parquet with pyarrow; file_source_test.c knows its values.

    third_party/venv-main/bin/python tests/golden/sql/gen_parquet.py
"""
import datetime
import decimal
import pathlib

import pyarrow as pa
import pyarrow.parquet as parquet

ROWS = pa.table({
    "i": pa.array([1, None, -(2**63)], pa.int64()),
    "u": pa.array([0, 2**32 - 1, None], pa.uint32()),
    "x": pa.array([0.5, None, -1e300], pa.float64()),
    "s": pa.array(["", "grün", None], pa.utf8()),
    "b": pa.array([b"\x00\xff", None, b""], pa.binary()),
    "t": pa.array([datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc), None, None], pa.timestamp("us", "UTC")),
    "d": pa.array([None, datetime.date(1969, 12, 31), None], pa.date32()),
    "m": pa.array([decimal.Decimal("12.34"), None, decimal.Decimal("-0.01")], pa.decimal128(10, 2)),
    "l": pa.array([[1.0, 2.0], [], None], pa.list_(pa.float32())),
})

if __name__ == "__main__":
    parquet.write_table(ROWS, pathlib.Path(__file__).with_name("types.parquet"))
