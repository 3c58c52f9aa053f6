"""lake's checked casts: what pyarrow casts safely we cast to the same values, what it refuses we refuse; text,
nesting and nullability by rule."""
import decimal
import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from arrow_support import FULL, ToolError, read, tool, write

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
NAMES = {pa.float16(): "float16", pa.float32(): "float32", pa.float64(): "float64", pa.string(): "utf8",
         pa.large_string(): "large_utf8", pa.date32(): "date32", pa.date64(): "date64"}


def name(kind):
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit},{kind.tz}]" if kind.tz else f"timestamp[{kind.unit}]"
    if pa.types.is_decimal(kind):
        return f"decimal{kind.bit_width}({kind.precision},{kind.scale})"
    return NAMES.get(kind, str(kind))


def cast(path, values, target, column="x"):
    """values, a pyarrow array or table, cast by arrow_tool to the column texts in target."""
    table = values if isinstance(values, pa.Table) else pa.table({column: values})
    write(path / "in", table.to_batches(), table.schema)
    tool("cast", path / "in", path / "out", "stream", *([target] if isinstance(target, str) else target))
    return read(path / "out")


def agrees(path, values, kind):
    """As pyarrow's safe cast: the same values, or both refuse."""
    try:
        want = pc.cast(values, kind, safe=True)
    except pa.ArrowInvalid:
        want = None
    try:
        got = cast(path, values, f"x:{name(kind)}?")["x"].combine_chunks()
    except ToolError as error:
        assert "SCHEMA_MISMATCH" in str(error) and "'x'" in str(error) and want is None, (values, kind, error)
    else:
        assert want is not None, (values, kind, got)
        assert got.type == kind
        assert got.equals(want) or str(got.to_pylist()) == str(want.to_pylist())  # NaN is not equal to itself


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_numbers(tmp_path, source):
    bits, low = source.bit_width, 0 if pa.types.is_unsigned_integer(source) else -1
    edges = [v for b in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64) for v in (2 ** b - 1, 2 ** b, low * 2 ** b)]
    top = 2 ** (bits + low) - 1
    fitting = sorted({v for v in edges if low * (top + 1) <= v <= top})
    for value in fitting if FULL else random.Random(bits).sample(fitting, min(8, len(fitting))):
        values = pa.array([None, value, 0], source)
        for target in INTEGERS if FULL else random.Random(value).sample(INTEGERS, 3):
            agrees(tmp_path, values, target)
        for target in FLOATS[1:]:  # exactly, where pyarrow is content with the range that is always exact
            exact = int(pa.scalar(value, pa.uint64() if value > 0 else pa.int64()).cast(target, safe=False).as_py())
            if exact == value:
                assert cast(tmp_path, values, f"x:{name(target)}?")["x"].to_pylist() == [None, value, 0]
            else:
                with pytest.raises(ToolError, match="row 1: digits would be lost"):
                    cast(tmp_path, values, f"x:{name(target)}?")


def test_floats(tmp_path):
    for source in FLOATS:
        for value in (0.0, -0.0, 1.0, -127.0, 255.0, 0.5, float("nan"), float("inf"), 2.0 ** 15, 1e-5):
            values = pa.array([value, None], pa.float64()).cast(source, safe=False)
            for target in (pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float64()):
                agrees(tmp_path, values, target)
    assert cast(tmp_path, pa.array([1.0, -2.5, None, float("nan")]), "x:float16?")["x"].to_pylist()[:3] == [1, -2.5, None]
    with pytest.raises(ToolError, match="row 1: the value does not fit"):
        cast(tmp_path, pa.array([1.0, 1e300]), "x:float32")


def test_decimals(tmp_path):
    D = decimal.Decimal
    values = [D("1.00"), D("-99.99"), D("0.10"), None]
    for target in (pa.decimal128(10, 3), pa.decimal128(38, 2), pa.decimal128(6, 1), pa.decimal128(3, 2),
                   pa.decimal256(50, 20), pa.decimal64(10, 2), pa.decimal32(9, 4)):
        for value in values:
            agrees(tmp_path, pa.array([value], pa.decimal128(5, 2)), target)
    agrees(tmp_path, pa.array([D(10 ** 37), None, D(-1)], pa.decimal256(60, 0)), pa.decimal128(38, 0))
    agrees(tmp_path, pa.array([D("5.00"), D("-7.00")], pa.decimal128(5, 2)), pa.int8())
    agrees(tmp_path, pa.array([D("5.01")], pa.decimal128(5, 2)), pa.int8())
    agrees(tmp_path, pa.array([5, None, -7]), pa.decimal128(21, 2))
    assert cast(tmp_path, pa.array([1.1, 0.1, -2.25, 3e3]), "x:decimal(10,2)")["x"].to_pylist() == [
        D("1.10"), D("0.10"), D("-2.25"), D("3000.00")]
    with pytest.raises(ToolError, match="digits would be lost"):
        cast(tmp_path, pa.array([1.125]), "x:decimal(10,2)")
    assert cast(tmp_path, pa.array([D("1.25"), None], pa.decimal128(5, 2)), "x:float64?")["x"].to_pylist() == [1.25, None]


def test_instants_and_dates(tmp_path):
    for value in (0, 1, -1, 1_000, -86_400_000, 86_400_000_000, 1_700_000_000_123_456, -999_999_999):
        for unit in ("s", "ms", "us", "ns"):
            for zone in (None, "UTC"):
                for target in (pa.timestamp("s", zone), pa.timestamp("ms", zone), pa.timestamp("us", zone),
                               pa.timestamp("ns", zone)):
                    if FULL or random.Random(f"{value}{unit}{zone}{target}").random() < 0.2:
                        agrees(tmp_path, pa.array([value, None], pa.timestamp(unit, zone)), target)
    noon = pa.array([43_200], pa.timestamp("s"))
    with pytest.raises(ToolError, match="digits would be lost"):
        cast(tmp_path, noon, "x:date32")
    midnight = pa.array([-86_400, 0, 86_400 * 365, None], pa.timestamp("s"))
    for kind in (pa.date32(), pa.date64()):
        agrees(tmp_path, midnight, kind)
        agrees(tmp_path, pc.cast(midnight, kind), pa.timestamp("us"))
    agrees(tmp_path, pc.cast(midnight, pa.date32()), pa.date64())
    for values in (pa.array([1_500, None], pa.time32("ms")), pa.array([1_000], pa.time32("ms"))):
        for kind in (pa.time64("us"), pa.time64("ns")):
            agrees(tmp_path, values, kind)
    with pytest.raises(ToolError):
        cast(tmp_path, pa.array([1_500], pa.time32("ms")), "x:time32[s]")
    zoned = cast(tmp_path, pa.array([5], pa.timestamp("us", "UTC")), "x:timestamp[us,Asia/Tokyo]")["x"]
    assert zoned.type.tz == "Asia/Tokyo" and zoned.cast(pa.int64()).to_pylist() == [5]


@pytest.mark.parametrize("kind,text,value", [
    ("int8", "127", 127), ("int8", "128", None), ("int8", " -128 ", -128), ("int64", "-9223372036854775808", -2 ** 63),
    ("uint64", "18446744073709551615", 2 ** 64 - 1), ("uint64", "-1", None), ("int32", "12.0", 12),
    ("int32", "1.5", None), ("int32", "1e3", 1000), ("int32", "1.50e2", 150), ("int32", "", None), ("int32", "+7", 7),
    ("int32", "0x10", None), ("int32", "1 2", None), ("int32", ".", None), ("int32", "1e", None), ("int32", "-", None),
    ("float64", "1.5", 1.5), ("float64", "-1e-3", -0.001), ("float64", "inf", float("inf")), ("float64", "x", None),
    ("float64", "0x1p3", None), ("float64", "", None), ("float32", "0.5", 0.5), ("float64", "1.5garbage", None),
    ("bool", "true", True), ("bool", "F", False), ("bool", "1", True), ("bool", "2", None), ("bool", "No", False),
    ("decimal(10,2)", "12.34", decimal.Decimal("12.34")), ("decimal(10,2)", "12.345", None),
    ("decimal(10,2)", "-0.5", decimal.Decimal("-0.50")), ("decimal(4,2)", "123.45", None),
    ("decimal(10,2)", "12.3400", decimal.Decimal("12.34")), ("decimal(38,0)", "9" * 38, decimal.Decimal("9" * 38)),
    ("decimal(38,0)", "9" * 39, None),
])
def test_numbers_from_text(tmp_path, kind, text, value):
    if value is None:
        with pytest.raises(ToolError, match="SCHEMA_MISMATCH.*'x', row 1"):
            cast(tmp_path, pa.array([None, text]), f"x:{kind}?")
    else:
        assert cast(tmp_path, pa.array([None, text]), f"x:{kind}?")["x"].to_pylist() == [None, value]


@pytest.mark.parametrize("kind,text,value", [
    ("date32", "2024-02-29", "2024-02-29"), ("date32", "2023-02-29", None), ("date32", "1969-12-31", "1969-12-31"),
    ("date32", "2024-13-01", None), ("date32", "2024-01-01x", None), ("date64", "0001-01-01", "0001-01-01"),
    ("time32[s]", "23:59:59", "23:59:59"), ("time32[s]", "24:00:00", None), ("time32[s]", "23:59:59.5", None),
    ("time64[us]", "01:02:03.004005", "01:02:03.004005"), ("time32[ms]", "1:02", "01:02:00"),
    ("timestamp[us]", "2013-01-01 05:00:00", "2013-01-01 05:00:00"),
    ("timestamp[us]", "2013-01-01T05:00:00Z", "2013-01-01 05:00:00"),
    ("timestamp[us,UTC]", "2013-01-01T05:00:00+02:00", "2013-01-01 03:00:00+00:00"),
    ("timestamp[us]", "2013-01-01 05:00:00-0330", "2013-01-01 08:30:00"),
    ("timestamp[ms]", "2013-01-01 05:00:00.123", "2013-01-01 05:00:00.123000"),
    ("timestamp[ms]", "2013-01-01 05:00:00.1234", None), ("timestamp[s]", "2013-01-01", "2013-01-01 00:00:00"),
    ("timestamp[s]", "yesterday", None), ("timestamp[s]", "2013-01-01 05:00:00 UTC", "2013-01-01 05:00:00"),
    ("timestamp[us]", "1900-03-01 00:00:00", "1900-03-01 00:00:00"), ("timestamp[ns]", "9999-01-01 00:00:00", None),
])
def test_times_from_text(tmp_path, kind, text, value):
    if value is None:
        with pytest.raises(ToolError, match="SCHEMA_MISMATCH.*'x', row 0"):
            cast(tmp_path, pa.array([text]), f"x:{kind}")
    else:
        assert str(cast(tmp_path, pa.array([text]), f"x:{kind}")["x"][0].as_py()) == value


def test_text_and_bytes(tmp_path):
    values = pa.array(["a", None, "ß", ""])
    for kind in (pa.large_string(), pa.binary(), pa.large_binary()):
        agrees(tmp_path, values, kind)
        agrees(tmp_path, values.cast(kind), pa.string())
    with pytest.raises(ToolError, match="row 1: the bytes are not UTF-8"):
        cast(tmp_path, pa.array([b"a", b"\xff"]), "x:utf8")
    assert cast(tmp_path, pa.array([b"ab", None]), "x:fixed_size_binary(2)?")["x"].to_pylist() == [b"ab", None]
    with pytest.raises(ToolError, match="row 0: the value has another size"):
        cast(tmp_path, pa.array([b"a"]), "x:fixed_size_binary(2)")


def test_nested_values_and_the_row_of_their_faults(tmp_path):
    values = pa.array([[1, 2], None, [], [None, 3]], pa.list_(pa.int64()))
    want = values.to_pylist()
    for kind in ("large_list<int8?>", "list<utf8?>", "list<decimal(5,1)?>"):
        if "utf8" in kind:
            with pytest.raises(ToolError, match="'x': int64 cannot become utf8"):
                cast(tmp_path, values, f"x:{kind}?")
        else:
            assert cast(tmp_path, values, f"x:{kind}?")["x"].to_pylist() == want
    deep = pa.array([[[1]], None, [[2, 300], []]], pa.list_(pa.list_(pa.int32())))
    with pytest.raises(ToolError, match="row 2: the value does not fit"):
        cast(tmp_path, deep, "x:list<list<uint8?>?>?")
    fixed = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64()))
    assert cast(tmp_path, fixed, "x:fixed_size_list<float32?>(2)?")["x"].to_pylist() == fixed.to_pylist()
    back = cast(tmp_path, fixed, "x:fixed_size_list<float32?>(2)?")["x"].combine_chunks()
    assert cast(tmp_path, back, "x:list<float64?>?")["x"].to_pylist() == fixed.to_pylist()
    with pytest.raises(ToolError, match="row 0: the list has another number of items"):
        cast(tmp_path, fixed, "x:fixed_size_list<float32?>(3)?")
    members = pa.array([{"b": 1, "a": "7"}, None], pa.struct([("b", pa.int8()), ("a", pa.string())]))
    out = cast(tmp_path, members, "x:struct<a:int16?,b:int64?,c:bool?>?")["x"].to_pylist()
    assert out == [{"a": 7, "b": 1, "c": None}, None]
    pairs = pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8()))
    assert cast(tmp_path, pairs, "x:map<large_utf8,int64?>?")["x"].to_pylist() == pairs.to_pylist()


def test_what_lies_under_nulls_or_outside_a_slice_is_not_looked_at(tmp_path):
    items = pa.array(["1", "bad", "2", "bad"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), items, mask=pa.array([False, True, False]))
    assert cast(tmp_path, lists, "x:list<int8?>?")["x"].to_pylist() == [[1], None, [2]]
    structs = pa.StructArray.from_arrays([pa.array(["1", "bad"])], ["a"], mask=pa.array([False, True]))
    assert cast(tmp_path, structs, "x:struct<a:int8?>?")["x"].to_pylist() == [{"a": 1}, None]


def test_dictionaries_become_their_values(tmp_path):
    values = pa.array(["5", None, "7", "5"]).dictionary_encode()
    assert cast(tmp_path, values, "x:int32?")["x"].to_pylist() == [5, None, 7, 5]
    lists = pa.array([["5"], None], pa.list_(pa.dictionary(pa.int8(), pa.string())))
    assert cast(tmp_path, lists, "x:list<utf8?>?")["x"].to_pylist() == [["5"], None]


def test_columns_go_by_name(tmp_path):
    table = pa.table({"b": [1, 2], "a": ["x", "y"]})
    out = cast(tmp_path, table, ["a:utf8", "b:int32", "c:float64?"])
    assert out.to_pylist() == [{"a": "x", "b": 1, "c": None}, {"a": "y", "b": 2, "c": None}]
    with pytest.raises(ToolError, match="'c' is missing and not nullable"):
        cast(tmp_path, table, ["a:utf8", "b:int32", "c:float64"])
    with pytest.raises(ToolError, match="'a' is not in the table"):
        cast(tmp_path, table, ["b:int32"])


def test_nulls_where_none_may_be(tmp_path):
    with pytest.raises(ToolError, match="'x', row 2: null, but"):
        cast(tmp_path, pa.array([1, 2, None]), "x:int64")
    with pytest.raises(ToolError, match="'x', row 1: null inside it"):
        cast(tmp_path, pa.array([[1], [2, None], None]), "x:list<int64>?")
    inside = pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int64())]))
    with pytest.raises(ToolError, match="'x', row 2: null inside it"):
        cast(tmp_path, inside, "x:struct<a:int64>?")
    assert cast(tmp_path, inside.slice(0, 2), "x:struct<a:int64>?")["x"].to_pylist() == [{"a": 1}, None]
    with pytest.raises(ToolError, match="'x', row 0: null"):
        cast(tmp_path, pa.nulls(1), "x:int8")
    two = pa.table({"x": pa.chunked_array([[1], [2, None]])})
    with pytest.raises(ToolError, match="row 2"):  # counted over the whole input
        cast(tmp_path, two, "x:int64")
