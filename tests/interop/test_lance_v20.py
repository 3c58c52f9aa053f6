"""pylance 14 and data files of version 2.0, both ways; what early releases wrote, and it still reads."""
import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_support import assert_same, scan
from lance_v20_cases import *  # noqa: F401,F403
from lance_v20_cases import field

FAST_LANES = [0, 4, 2, 6, 1, 5, 3, 7]


def pack_blocks(values, width, bits):
    """FastLanes: blocks of 1,024 values."""
    lanes, packed = 1024 // bits, b""
    for start in range(0, len(values), 1024):
        block = np.zeros(1024, dtype=np.uint64)
        block[:len(values[start:start + 1024])] = values[start:start + 1024]
        words = np.zeros(1024 * width // bits, dtype=np.uint64)
        for row in range(bits):
            first = FAST_LANES[row // 8] * 16 + row % 8 * 128
            at, shift = row * width // bits * lanes, row * width % bits
            kept = block[first:first + lanes]
            words[at:at + lanes] |= kept << np.uint64(shift)
            if shift + width > bits:
                words[at + lanes:at + 2 * lanes] |= kept >> np.uint64(bits - shift)
        packed += words.astype(f"<u{bits // 8}").tobytes()
    return packed


def pack_side_by_side(values, width):
    bits = [int(value) >> bit & 1 for value in values for bit in range(width)]
    return np.packbits(np.array(bits, dtype=np.uint8), bitorder="little").tobytes()


def nullable(encoding):
    return field(2, field(1, field(1, encoding)))


def flat(bits, buffer=0):
    return field(1, field(1, bits) + field(2, field(1, buffer)))


def one_column_table(uri, kind, encoding, buffers, rows):
    """A table of one file with one page, put together by hand, which pylance takes as its own."""
    body, offsets = b"", []
    for buffer in buffers:
        offsets.append(len(body))
        body += buffer + bytes(-len(buffer) % 64)
    schema_at = len(body)
    schema = field(1, field(1, field(2, b"v") + field(4, 2**64 - 1) + field(5, kind.encode()) + field(6, 1))) + field(2, rows)
    body += schema
    page = field(1, offsets) + field(2, [len(buffer) for buffer in buffers]) + field(3, rows) + \
        field(4, field(2, field(1, field(1, b"/lance.encodings.ArrayEncoding") + field(2, encoding))))
    column_at = len(body)
    column = field(1, field(2, field(1, field(1, b"/lance.encodings.ColumnEncoding") + field(2, b"\x0a\x00")))) + field(2, page)
    tables_at = len(body) + len(column)
    body += column + b"".join(number.to_bytes(8, "little") for number in (column_at, len(column), schema_at, len(schema)))
    body += b"".join(number.to_bytes(8, "little") for number in (column_at, tables_at, tables_at + 16))
    body += (1).to_bytes(4, "little") * 2 + (0).to_bytes(2, "little") + (3).to_bytes(2, "little") + b"LANC"
    (uri / "data").mkdir(parents=True)
    (uri / "data" / "hand.lance").write_bytes(body)
    arrow = {"int32": pa.int32(), "int16": pa.int16(), "uint8": pa.uint8(), "int64": pa.int64(), "string": pa.utf8()}[kind]
    file = lance.fragment.DataFile("hand.lance", [0], [0], 2, 0, len(body))
    fragment = lance.fragment.FragmentMetadata(0, [file], rows)
    lance.LanceDataset.commit(str(uri), lance.LanceOperation.Overwrite(pa.schema([pa.field("v", arrow)]), [fragment]))


@pytest.mark.parametrize("kind,bits,width,count", [
    ("int32", 32, 5, 3000), ("int64", 64, 33, 2048), ("uint8", 8, 3, 1000), ("int16", 16, 16, 5), ("int32", 32, 32, 1500)])
def test_blocks_of_packed_integers_are_read(uri, tmp_path, kind, bits, width, count):  # noqa: F811
    values = np.random.default_rng(width).integers(0, 2**(width - 1), count)
    encoding = nullable(field(12, field(1, width) + field(2, bits) + field(3, field(1, 0))))
    one_column_table(uri, kind, encoding, [pack_blocks(values.astype(np.uint64), width, bits)], count)
    expected = pa.table({"v": values.astype(kind)})
    assert_same(lance.dataset(str(uri)).to_table(), expected)
    assert_same(scan(uri, tmp_path), expected)


@pytest.mark.parametrize("kind,width,signed", [("int32", 5, True), ("int64", 33, True), ("uint8", 3, False), ("int16", 9, True)])
def test_integers_packed_side_by_side_are_read(uri, tmp_path, kind, width, signed):  # noqa: F811
    half = 2**(width - 1)
    values = np.random.default_rng(width).integers(-half if signed else 0, half, 999)
    encoding = nullable(field(10, field(1, width) + field(2, np.dtype(kind).itemsize * 8) + field(3, field(1, 0)) +
                              field(4, int(signed))))
    one_column_table(uri, kind, encoding, [pack_side_by_side(values, width)], len(values))
    expected = pa.table({"v": values.astype(kind)})
    assert_same(lance.dataset(str(uri)).to_table(), expected)
    assert_same(scan(uri, tmp_path), expected)


def test_what_nobody_reads_is_refused_by_name(uri, tmp_path):  # noqa: F811
    one_column_table(uri, "int32", nullable(field(13, field(1, bytes(4)))), [b"x"], 5)  # a constant
    with pytest.raises(ToolError, match="UNSUPPORTED_FORMAT.*2.0 encoding.*data/hand.lance"):  # noqa: F405
        scan(uri, tmp_path)
    with pytest.raises(BaseException):
        lance.dataset(str(uri)).to_table()
