"""Parquet files become datasets with the types that Arrow's writers noted in them."""
import datetime
import decimal

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lance_change_cases import lake
from lance_support import ToolError


def table():
    rows = 1000
    numbers = np.arange(rows)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(7).random(rows * 3), pa.float32()), 3)
    schema = pa.schema([
        pa.field("id", pa.int64(), nullable=False),
        pa.field("vector", pa.list_(pa.float32(), 3)),
        pa.field("text", pa.large_string()),
        pa.field("bytes", pa.binary(4)),
        pa.field("small", pa.int8()),
        pa.field("when", pa.timestamp("us", "Europe/Berlin")),
        pa.field("day", pa.date32()),
        pa.field("amount", pa.decimal128(20, 3)),
        pa.field("joints", pa.list_(pa.struct([("name", pa.string()), ("angle", pa.float32())]))),
        pa.field("tag", pa.string(), metadata={"unit": "rad"}),
    ])
    return pa.table({
        "id": numbers,
        "vector": vectors,
        "text": [None if i % 5 == 0 else f"row {i}" for i in numbers],
        "bytes": [i.to_bytes(4, "little") for i in map(int, numbers)],
        "small": [int(i % 200) - 100 for i in numbers],
        "when": [datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=int(i))
                 for i in numbers],
        "day": [datetime.date(2026, 1, 1 + int(i) % 28) for i in numbers],
        "amount": [None if i % 3 else decimal.Decimal(int(i)) / 8 for i in numbers],
        "joints": [[{"name": f"j{k}", "angle": k / 2} for k in range(int(i) % 3)] for i in numbers],
        "tag": ["a"] * rows,
    }, schema=schema)


def test_a_file_of_arrow_comes_with_its_types(tmp_path):
    rows, file = table(), tmp_path / "rows.parquet"
    pq.write_table(rows, file)
    lake("write", tmp_path / "rows.lance", file)
    got = lance.dataset(str(tmp_path / "rows.lance")).to_table()
    assert got.schema == rows.schema
    assert got.schema.field("tag").metadata == {b"unit": b"rad"}
    assert got.equals(rows)


def test_dictionaries_come_as_their_values(tmp_path):
    rows = pa.table({"d": pa.array(["a", "b", "a", None]).dictionary_encode()})
    pq.write_table(rows, tmp_path / "rows.parquet")
    lake("write", tmp_path / "rows.lance", tmp_path / "rows.parquet")
    assert lance.dataset(str(tmp_path / "rows.lance")).to_table().column("d").to_pylist() == ["a", "b", "a", None]


@pytest.mark.parametrize("note", [b"not base64!", b"bm90IGFuIElQQyBtZXNzYWdl"])
def test_a_note_that_is_none_does_no_harm(note, tmp_path):
    rows = pa.table({"n": [1, 2, 3]})
    pq.write_table(rows.replace_schema_metadata({"ARROW:schema": note}), tmp_path / "rows.parquet", store_schema=False)
    lake("write", tmp_path / "rows.lance", tmp_path / "rows.parquet")
    assert lance.dataset(str(tmp_path / "rows.lance")).to_table().equals(rows)


def test_a_note_about_other_columns_is_not_believed(tmp_path):
    other = pa.table({"n": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))})
    pq.write_table(other, tmp_path / "other.parquet")
    note = pq.read_metadata(tmp_path / "other.parquet").metadata[b"ARROW:schema"]
    rows = pa.table({"n": [1, 2, 3]})
    pq.write_table(rows.replace_schema_metadata({"ARROW:schema": note}), tmp_path / "rows.parquet", store_schema=False)
    lake("write", tmp_path / "rows.lance", tmp_path / "rows.parquet")
    assert lance.dataset(str(tmp_path / "rows.lance")).to_table().equals(rows)


@pytest.mark.parametrize("nested", [False, True])
def test_decimals_that_would_lose_digits_are_refused(nested, tmp_path):
    value, kind = decimal.Decimal("123456789012345678901234567890.12345"), pa.decimal256(60, 5)
    rows = pa.table({"c": pa.array([[value]], pa.list_(kind)) if nested else pa.array([value], kind)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(ToolError, match="decimals of more than 38 digits"):
        lake("write", tmp_path / "rows.lance", tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.lance").exists()
