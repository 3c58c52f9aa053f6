"""Columns that make pylance choose each of its encodings: name -> (rows, how to make them, field metadata)."""
import decimal

import numpy as np
import pyarrow as pa

WORDS = "the quick brown fox jumps over the lazy dog and runs away from a very angry bear in the forest".split()
COMPRESSION, STRUCTURE = "lance-encoding:compression", "lance-encoding:structural-encoding"


def tenth(rng, count):
    return rng.random(count) < 0.1


def integers(kind, low, high, nulls=False):
    def make(rng, count):
        found = rng.integers(low, high, count, dtype=kind, endpoint=True)
        return pa.array(found, mask=tenth(rng, count) if nulls else None)
    return make


def floats(kind="float64", nulls=False):
    return lambda rng, count: pa.array(rng.random(count).astype(kind), mask=tenth(rng, count) if nulls else None)


def cast(make, kind):
    return lambda rng, count: make(rng, count).cast(kind)


def texts(of, kind=pa.utf8()):
    return lambda rng, count: pa.array([of(rng, i) for i in range(count)], kind)


def sentence(words):
    return lambda rng, i: " ".join(WORDS[j] for j in rng.integers(0, len(WORDS), words))


def with_nulls_and_empties(rng, i):
    return None if i % 10 == 0 else "" if i % 10 == 1 else f"v{rng.integers(0, 2**20)}"


def runs(rng, count):
    return pa.array(np.repeat(rng.integers(0, 5, count // 100 + 1), 100)[:count].astype("int32"))


def vectors(size, kind="float32", nulls=False, item_nulls=False):
    def make(rng, count):
        found = rng.random(count * size).astype(kind) if kind.startswith("float") else \
            rng.random(count * size) < 0.5 if kind == "bool" else rng.integers(0, 100, count * size).astype(kind)
        items = pa.array(found, mask=tenth(rng, count * size) if item_nulls else None)
        return pa.FixedSizeListArray.from_arrays(items, size, mask=pa.array(tenth(rng, count)) if nulls else None)
    return make


def lists_of_lists(rng, count):
    return pa.FixedSizeListArray.from_arrays(vectors(3)(rng, count * 2), 2)


def struct(*makers, nulls=False):
    def make(rng, count):
        mask = pa.array(tenth(rng, count)) if nulls else None
        return pa.StructArray.from_arrays([m(rng, count) for m in makers], [f"f{i}" for i in range(len(makers))],
                                          mask=mask)
    return make


def choice(values, kind):
    return lambda rng, count: pa.array([values[i] for i in rng.integers(0, len(values), count)], kind)


def lists(make, longest=5, nulls=True, shortest=0, kind=pa.ListArray):
    def build(rng, count):
        sizes = rng.integers(shortest, longest, count)
        missing = tenth(rng, count)
        sizes[missing & nulls] = 0
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        offsets = pa.array(offsets, pa.int64() if kind is pa.LargeListArray else pa.int32())
        return kind.from_arrays(offsets, make(rng, offsets[-1].as_py()), mask=pa.array(missing) if nulls else None)
    return build


def maps(rng, count):
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))]).astype("int32")
    keys = [f"k{i}" for i in range(offsets[-1])]
    return pa.MapArray.from_arrays(pa.array(offsets), pa.array(keys), small(rng, len(keys)))


small = integers("int64", 0, 1000, nulls=True)
text = texts(with_nulls_and_empties)
COLUMNS = {
    "flat_i8": (3000, integers("int8", -128, 127), None),
    "flat_u64": (1200, integers("uint64", 0, 2**64 - 1), None),
    "packed_i64": (5000, lambda rng, count: pa.array(np.arange(count)), None),
    "packed_u8": (3000, integers("uint8", 0, 3), None),
    "packed_i16": (3000, integers("int16", 0, 100), None),
    "packed_nulls": (3000, small, None),
    "packed_floats": (3000, floats("float32", nulls=True), None),
    "dictionary_of_big": (3000, choice([int(x) for x in np.random.default_rng(5).integers(-2**62, 2**62, 20)],
                                       pa.int64()), None),
    "runs": (3000, runs, None),
    "runs_forced": (3000, runs, {"lance-encoding:rle-threshold": "0.9"}),
    "sorted": (6000, lambda rng, count: pa.array(np.sort(rng.integers(0, count // 50 + 1, count))), None),
    "constant": (3000, lambda rng, count: pa.array(np.full(count, 42)), None),
    "constant_nulls": (3000, lambda rng, count: pa.array(np.full(count, 42), mask=tenth(rng, count)), None),
    "all_null": (3000, lambda rng, count: pa.nulls(count, pa.int64()), None),
    "null_type": (3000, lambda rng, count: pa.nulls(count), None),
    "bool": (3000, lambda rng, count: pa.array(rng.random(count) < 0.5, mask=tenth(rng, count)), None),
    "bool_constant": (3000, lambda rng, count: pa.array(np.ones(count, bool), mask=tenth(rng, count)), None),
    "float16": (3000, floats("float16"), None),
    "float64": (1200, floats(), None),
    "decimal128": (700, lambda rng, count: pa.array(
        [decimal.Decimal(int(x)).scaleb(-2) for x in rng.integers(-10**9, 10**9, count)], pa.decimal128(18, 2)), None),
    "decimal_few": (1500, choice([decimal.Decimal(7), decimal.Decimal(-(10**19))], pa.decimal128(20, 0)), None),
    "timestamp": (3000, cast(integers("int64", 0, 2**50), pa.timestamp("us", "UTC")), None),
    "date": (3000, cast(integers("int32", 0, 20000), pa.date32()), None),
    "duration": (3000, cast(integers("int64", 0, 10**6), pa.duration("ms")), None),
    "text": (8000, text, None),
    "text_short": (4000, texts(lambda rng, i: f"id-{rng.integers(0, 2**32):08x}"), None),
    "text_large": (3500, texts(lambda rng, i: f"large-{rng.integers(0, 2**32)}", pa.large_utf8()), None),
    "text_unicode": (1200, texts(lambda rng, i: f"žluťoučký kůň {i} 日本 😀"), None),
    "text_few": (3000, choice(["red", "green", "blue", "a longer colour name"], pa.utf8()), None),
    "text_few_zstd": (3000, choice(["red", "green", "blue"], pa.utf8()),
                      {"lance-encoding:dict-values-compression": "zstd"}),
    "text_few_long": (3000, choice([f"{word} " * 12 for word in WORDS], pa.utf8()), None),
    "text_few_long_zstd": (3000, choice([f"{word} " * 12 for word in WORDS], pa.utf8()),
                           {"lance-encoding:dict-values-compression": "zstd"}),
    "text_no_dictionary": (3000, choice(["red", "green"], pa.utf8()), {"lance-encoding:dict-divisor": "100000"}),
    "text_constant": (3000, lambda rng, count: pa.array(["constant text, longer than 32 bytes it is"] * count), None),
    "text_constant_nulls": (3000, choice(["one value", None], pa.utf8()), None),
    "text_all_null": (3000, lambda rng, count: pa.nulls(count, pa.utf8()), None),
    "text_200": (220, texts(sentence(40)), None),
    "text_4k": (10, texts(sentence(900)), None),
    "text_60k": (3, texts(sentence(13000)), None),
    "text_fsst": (4000, texts(lambda rng, i: f"id-{rng.integers(0, 2**32):08x}"), {COMPRESSION: "fsst"}),
    "text_plain": (60, texts(sentence(40)), {COMPRESSION: "none"}),
    "text_zstd": (260, texts(sentence(40)), {COMPRESSION: "zstd"}),
    "text_lz4": (260, texts(sentence(5)), {COMPRESSION: "lz4"}),
    "binary": (1200, texts(lambda rng, i: rng.bytes(int(rng.integers(0, 32))), pa.binary()), None),
    "binary_10k": (7, texts(lambda rng, i: rng.bytes(10000), pa.large_binary()), None),
    "binary_60k": (5, texts(lambda rng, i: b"%d " % i * (20000 + i), pa.binary()), None),
    "binary_random_60k": (5, texts(lambda rng, i: rng.bytes(60000), pa.binary()), None),
    "lz4_floats": (3000, cast(integers("int64", 0, 100), pa.float64()), {COMPRESSION: "lz4"}),
    "zstd_integers": (1200, integers("int64", -2**60, 2**60), {COMPRESSION: "zstd"}),
    "split_floats": (3000, lambda rng, count: pa.array(np.sin(np.arange(count) / 1000).astype("float32")),
                     {"lance-encoding:bss": "on", COMPRESSION: "zstd"}),
    "split_doubles": (1200, floats(), {"lance-encoding:bss": "on", COMPRESSION: "lz4"}),
    "fixed_binary": (600, texts(lambda rng, i: rng.bytes(16), pa.binary(16)), None),
    "fixed_binary_few": (1500, texts(lambda rng, i: bytes([i % 9]) * 16, pa.binary(16)), None),
    "fixed_binary_wide": (60, texts(lambda rng, i: rng.bytes(300), pa.binary(300)), None),
    "zip_integers": (3000, small, {STRUCTURE: "fullzip"}),
    "zip_bool": (3000, lambda rng, count: pa.array(rng.random(count) < 0.5, mask=tenth(rng, count)),
                 {STRUCTURE: "fullzip"}),
    "zip_text": (3000, text, {STRUCTURE: "fullzip"}),
    "vector_768": (12, vectors(768), None),
    "vector_768_nulls": (12, vectors(768, nulls=True), None),
    "vector_768_item_nulls": (10, vectors(768, item_nulls=True), None),
    "vector_768_mini": (8, vectors(768), {STRUCTURE: "miniblock"}),
    "vector_8": (500, vectors(8, nulls=True), None),
    "vector_4_item_nulls": (700, vectors(4, item_nulls=True), None),
    "vector_8_both_nulls": (400, vectors(8, nulls=True, item_nulls=True), None),
    "vector_half": (8, vectors(1536, "float16"), None),
    "vector_bytes": (200, vectors(128, "uint8"), None),
    "vector_bits": (3000, vectors(16, "bool"), None),
    "vector_of_vectors": (400, lists_of_lists, None),
    "struct": (3000, struct(small, text), None),
    "struct_nulls": (3000, struct(small, text, nulls=True), None),
    "struct_in_struct": (1500, struct(struct(small, text, nulls=True), floats(), nulls=True), None),
    "struct_of_vector": (800, struct(vectors(4), lambda rng, count: pa.array(rng.random(count) < 0.5)), None),
}

LISTS = {
    "list": (3000, lists(small), None),
    "list_plain": (3000, lists(integers("int32", 0, 9), nulls=False), None),
    "list_never_empty": (3000, lists(integers("int32", 0, 9), nulls=False, shortest=1), None),
    "list_of_constants": (1500, lists(lambda rng, count: pa.array(np.full(count, 7))), None),
    "list_of_text": (3000, lists(text), None),
    "list_of_one_text": (1500, lists(lambda rng, count: pa.array(["same text"] * count)), None),
    "list_of_nulls": (1500, lists(lambda rng, count: pa.nulls(count, pa.int32())), None),
    "list_large": (1500, lists(floats(), kind=pa.LargeListArray), None),
    "list_long": (6, lists(floats("float32"), longest=3000), None),
    "list_very_long": (20, lists(integers("int32", 0, 1000), longest=9000), None),
    "list_empty": (3000, lambda rng, count: pa.array([[]] * count, pa.list_(pa.int32())), None),
    "list_null": (3000, lambda rng, count: pa.nulls(count, pa.list_(pa.int32())), None),
    "list_empty_or_null": (3000, choice([[], None], pa.list_(pa.int32())), None),
    "list_of_lists": (1500, lists(lists(small)), None),
    "list_of_vectors": (900, lists(vectors(4)), None),
    "list_of_bit_vectors": (900, lists(vectors(16, "bool")), None),
    "list_of_structs": (1500, lists(struct(small, text, nulls=True)), None),
    "list_of_structs_of_lists": (800, lists(struct(lists(small), text)), None),
    "struct_of_lists": (1500, struct(lists(small), lists(text), text, nulls=True), None),
    "zip_list": (3000, lists(small), {STRUCTURE: "fullzip"}),
    "zip_list_of_text": (3000, lists(text), {STRUCTURE: "fullzip"}),
    "list_of_pages": (400, lists(texts(sentence(80))), None),
}
MAPS = {"map": (1500, maps, None), "list_of_maps": (500, lists(maps), None)} # files of version 2.2 only


def table(name):
    rows, make, metadata = (COLUMNS | LISTS | MAPS)[name]
    values = make(np.random.default_rng(len(name) * 1000 + rows), rows)
    return pa.table([values], schema=pa.schema([pa.field("v", values.type, metadata=metadata)]))
