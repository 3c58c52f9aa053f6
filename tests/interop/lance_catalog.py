"""Every kind of column that files of a version may hold: name -> (rows, how to make them, field metadata).

Beside lance_encodings.py, which lists encodings, this lists types: each in a table of a few rows, and in one of so many
that pylance chooses as it does for large ones.
"""
import decimal

import numpy as np
import pyarrow as pa

from lance_encodings import (COMPRESSION, STRUCTURE, cast, choice, floats, integers, lists, maps, runs, sentence, struct, tenth,
                             text, texts, vectors)
from lance_kinds import BLOB, PACKED, dictionary, number, packed

few = integers("int32", 0, 9)
small = integers("int64", 0, 1000, nulls=True)
words = sentence(40)


def sequence(rng, count):
    return pa.array(np.arange(count))


def whole(value, kind):
    return lambda rng, count: pa.array([value] * count, kind)


def missing(kind):
    return lambda rng, count: pa.nulls(count, kind)


def decimals(kind, scale=0, limit=10**9):
    return lambda rng, count: pa.array([decimal.Decimal(int(x)).scaleb(-scale) for x in rng.integers(-limit, limit, count)],
                                       kind)


def bytes_of(low, high, kind=pa.binary()):
    return texts(lambda rng, i: rng.bytes(int(rng.integers(low, high))), kind)


def times(kind, step, scale=1):
    return lambda rng, count: pa.array(1_700_000_000 * scale + np.cumsum(rng.integers(0, step, count))).cast(kind)


def smooth(rng, count):
    return pa.array(np.sin(np.arange(count) / 1000).astype("float32"))


def or_null(value, kind, share=0.3):
    return lambda rng, count: pa.array([None if rng.random() < share else value for _ in range(count)], kind)


def maps_with_nulls(rng, count):
    return pa.array([None if i % 11 == 0 else [] if i % 7 == 0 else [(f"k{i}", None if i % 3 else i)]
                     for i in range(count)], pa.map_(pa.utf8(), pa.int64()))


def blobs(rng, count):
    return pa.array([None if i % 7 == 3 else b"" if i % 7 == 5 else rng.bytes(int(rng.integers(1, 4000)))
                     for i in range(count)], pa.large_binary())


def one_long_list(rng, count):
    sizes = np.concatenate([np.full(count - 1, 3), [70_000]])
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, integers("int32", 0, 50)(rng, int(sizes.sum())))


def empty_or_null(rng, count):
    return pa.array([[] if x else None for x in rng.random(count) < 0.5], pa.list_(pa.int32()))


SIGNED = {f"i{bits}": (3000, integers(f"int{bits}", -2**(bits - 1), 2**(bits - 1) - 1), None) for bits in (8, 16, 32, 64)}
UNSIGNED = {f"u{bits}": (3000, integers(f"uint{bits}", 0, 2**bits - 1), None) for bits in (8, 16, 32, 64)}
PLAIN = SIGNED | UNSIGNED | {
    "i64_sequence": (3000, sequence, None),
    "i64_sorted": (6000, lambda rng, count: pa.array(np.sort(rng.integers(0, count // 50 + 1, count))), None),
    "i32_runs": (3000, runs, None),
    "i32_few": (3000, few, None),
    "i64_nulls": (3000, small, None),
    "i64_around_zero": (3000, integers("int64", -100, 99), None),
    "i64_constant": (3000, whole(42, pa.int64()), None),
    "i64_constant_nulls": (3000, or_null(42, pa.int64(), 0.1), None),
    "i64_all_null": (3000, missing(pa.int64()), None),
    "i64_few_large": (3000, choice([(-1)**i * 7**(20 + i // 8) for i in range(16)], pa.int64()), None),
    "u8_few": (3000, integers("uint8", 0, 5), None),
    "i16_few": (3000, integers("int16", 0, 299), None),
    "bool": (3000, lambda rng, count: pa.array(rng.random(count) < 0.5), None),
    "bool_nulls": (3000, lambda rng, count: pa.array(rng.random(count) < 0.5, mask=tenth(rng, count)), None),
    "bool_constant": (3000, whole(True, pa.bool_()), None),
    "bool_constant_nulls": (3000, or_null(True, pa.bool_()), None),
    "f16": (3000, floats("float16"), None),
    "f32_nulls": (3000, floats("float32", nulls=True), None),
    "f64": (1200, floats(), None),
    "f64_integers": (3000, cast(integers("int64", 0, 99), pa.float64()), None),
    "f32_smooth": (3000, smooth, None),
    "decimal128": (700, decimals(pa.decimal128(18, 2), 2), None),
    "decimal256": (400, decimals(pa.decimal256(50, 2), 2), None),
    "decimal128_few": (1500, decimals(pa.decimal128(20, 0), limit=9), None),
    "date32": (3000, cast(integers("int32", 0, 20000), pa.date32()), None),
    "date64": (3000, lambda rng, count: pa.array(rng.integers(0, 20000, count) * 86400000).cast(pa.date64()), None),
    "time32": (3000, cast(integers("int32", 0, 86399999), pa.time32("ms")), None),
    "time64": (3000, cast(integers("int64", 0, 86399999999), pa.time64("us")), None),
    "timestamp": (3000, times(pa.timestamp("us"), 2_000_000, 10**6), None),
    "timestamp_utc": (3000, times(pa.timestamp("ns", "UTC"), 2_000_000, 10**9), None),
    "timestamp_offset": (3000, times(pa.timestamp("s", "+02:00"), 3), None),
    "duration": (3000, cast(integers("int64", 0, 10**6), pa.duration("ms")), None),
    "null": (3000, missing(pa.null()), None),
    "fixed_binary": (600, bytes_of(16, 17, pa.binary(16)), None),
    "fixed_binary_wide": (60, bytes_of(300, 301, pa.binary(300)), None),
    "fixed_binary_few": (1500, texts(lambda rng, i: bytes([rng.integers(0, 9)]) * 16, pa.binary(16)), None),
    "interval": (20, lambda rng, count: pa.array([pa.MonthDayNano([1, 2, 3])] * count), None),
}
TEXTS = {
    "text": (4000, texts(lambda rng, i: f"id-{rng.integers(0, 2**32):08x}"), None),
    "text_nulls": (8000, text, None),
    "text_few": (3000, choice(["red", "green", "blue", "a longer colour name"], pa.utf8()), None),
    "text_constant": (3000, whole("constant string", pa.utf8()), None),
    "text_constant_nulls": (3000, or_null("one value", pa.utf8()), None),
    "text_200": (220, texts(words), None),
    "text_4k": (10, texts(sentence(900)), None),
    "text_60k": (3, texts(sentence(13000)), None),
    "text_all_null": (3000, missing(pa.utf8()), None),
    "text_unicode": (1200, texts(lambda rng, i: f"žluťoučký kůň {rng.integers(0, 10**6)} 日本 😀"), None),
    "text_large": (3500, texts(lambda rng, i: f"large-{rng.integers(0, 2**32)}", pa.large_utf8()), None),
    "binary": (1200, bytes_of(0, 32), None),
    "binary_large": (600, bytes_of(0, 32, pa.large_binary()), None),
    "binary_10k": (7, bytes_of(10000, 10001), None),
    "binary_60k": (5, texts(lambda rng, i: b"%d " % i * (12000 + i), pa.binary()), None),
}
ASKED = { # by the column's metadata
    "zstd_text": (260, texts(words), {COMPRESSION: "zstd"}),
    "zstd_integers": (1200, integers("int64", -2**62, 2**62), {COMPRESSION: "zstd"}),
    "lz4_floats": (3000, cast(integers("int64", 0, 99), pa.float64()), {COMPRESSION: "lz4"}),
    "fsst_text": (4000, texts(lambda rng, i: f"id-{rng.integers(0, 2**32):08x}"), {COMPRESSION: "fsst"}),
    "plain_text": (60, texts(words), {COMPRESSION: "none"}),
    "split_floats": (3000, smooth, {"lance-encoding:bss": "on", COMPRESSION: "zstd"}),
    "split_doubles": (1200, floats(), {"lance-encoding:bss": "auto", COMPRESSION: "lz4"}),
    "runs": (3000, runs, {"lance-encoding:rle-threshold": "0.9"}),
    "no_runs": (3000, runs, {"lance-encoding:rle-threshold": "0.0"}),
    "zip_integers": (3000, small, {STRUCTURE: "fullzip"}),
    "zip_text": (3000, text, {STRUCTURE: "fullzip"}),
    "zip_bool": (3000, lambda rng, count: pa.array(rng.random(count) < 0.5, mask=tenth(rng, count)), {STRUCTURE: "fullzip"}),
    "zip_list_of_text": (3000, lists(text), {STRUCTURE: "fullzip"}),
    "zip_list": (3000, lists(integers("int32", 0, 99, nulls=True)), {STRUCTURE: "fullzip"}),
    "mini_vectors": (8, vectors(768), {STRUCTURE: "miniblock"}),
    "no_dictionary": (3000, choice(["red", "green"], pa.utf8()), {"lance-encoding:dict-divisor": "100000"}),
    "dictionary_zstd": (3000, choice(["red", "green"], pa.utf8()), {"lance-encoding:dict-values-compression": "zstd"}),
}
VECTORS = {
    "vector_768": (12, vectors(768), None),
    "vector_768_nulls": (12, vectors(768, nulls=True), None),
    "vector_768_item_nulls": (10, vectors(768, item_nulls=True), None),
    "vector_8": (500, vectors(8), None),
    "vector_8_nulls": (500, vectors(8, nulls=True), None),
    "vector_8_both_nulls": (400, vectors(8, nulls=True, item_nulls=True), None),
    "vector_4_item_nulls": (700, vectors(4, item_nulls=True), None),
    "vector_half": (8, vectors(1536, "float16"), None),
    "vector_bytes": (200, vectors(128, "uint8"), None),
    "vector_bits": (3000, vectors(16, "bool"), None),
    "vector_of_vectors": (400, lambda rng, count: pa.FixedSizeListArray.from_arrays(vectors(3)(rng, count * 2), 2), None),
}
record = struct(small, text)
NESTED = {
    "list": (3000, lists(few, nulls=False), None),
    "list_never_empty": (3000, lists(few, nulls=False, shortest=1), None),
    "list_nulls": (3000, lists(integers("int32", 0, 99, nulls=True)), None),
    "list_large": (3000, lists(floats(), nulls=False, kind=pa.LargeListArray), None),
    "list_of_text": (3000, lists(text), None),
    "list_large_of_text": (800, lists(text, kind=pa.LargeListArray), None),
    "list_of_lists": (1500, lists(lists(small)), None),
    "list_of_vectors": (900, lists(vectors(4)), None),
    "list_long": (6, lists(floats("float32", nulls=True), longest=3000, nulls=False), None),
    "list_of_constants": (1500, lists(whole(7, pa.int64())), None),
    "list_of_one_text": (1500, lists(whole("same text", pa.utf8())), None),
    "list_of_nulls": (1500, lists(missing(pa.int32())), None),
    "list_empty": (3000, whole([], pa.list_(pa.int32())), None),
    "list_null": (3000, missing(pa.list_(pa.int32())), None),
    "list_empty_or_null": (3000, empty_or_null, None),
    "list_very_long": (20, one_long_list, None),
    "struct": (3000, record, None),
    "struct_nulls": (3000, struct(small, text, nulls=True), None),
    "struct_in_struct": (1500, struct(struct(small, text, nulls=True), floats(), nulls=True), None),
    "struct_of_lists": (1500, struct(lists(few), lists(text), nulls=True), None),
    "struct_of_plain_lists": (1500, struct(lists(few), lists(text)), None),
    "struct_of_vector": (800, struct(vectors(4), small, nulls=True), None),
    "list_of_structs": (1500, lists(struct(small, text, nulls=True)), None),
    "list_of_plain_structs": (1500, lists(record), None),
    "list_of_structs_of_lists": (800, lists(struct(lists(few), nulls=True)), None),
    "map": (1500, maps, None),
    "map_nulls": (1500, maps_with_nulls, None),
}
SHAPED = {
    "dictionary": (3000, dictionary(["a", "bb", "ccc", "dddd"], pa.utf8(), nulls=True), None),
    "dictionary_small": (3000, dictionary(["a", "bb", "ccc", "dddd"], pa.utf8(), "int8"), None),
    "packed": (700, packed([few, smooth, sequence]), PACKED),
    "packed_text": (1500, packed([number("int32"), texts(lambda rng, i: f"id-{i}")]), PACKED),
    "blob": (12, blobs, BLOB),
}
CATALOG = PLAIN | TEXTS | ASKED | VECTORS | NESTED | SHAPED


def column(name, count):
    """The field, named like the column, and so many values."""
    _, make, metadata = CATALOG[name]
    values = make(np.random.default_rng(sum(map(ord, name))), count)
    return pa.field(name, values.type, metadata=metadata), values


def table(names, count):
    made = [column(name, count) for name in names]
    return pa.table([values for _, values in made], schema=pa.schema([field for field, _ in made]))
