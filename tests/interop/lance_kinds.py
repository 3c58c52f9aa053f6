"""Columns that are stored as something else than their rows: dictionaries, packed structs, blobs."""
import numpy as np
import pyarrow as pa

PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}


def some(rng, count, share=0.1):
    return rng.random(count) < share


def dictionary(values, kind, index="int32", nulls=False, null_values=False):
    def make(rng, count):
        found = [None if null_values and i % 3 == 1 else value for i, value in enumerate(values)]
        indices = rng.integers(0, len(values), count).astype(index)
        return pa.DictionaryArray.from_arrays(pa.array(indices, mask=some(rng, count) if nulls else None),
                                              pa.array(found, kind))
    return make


def many_words(rng, count):
    return dictionary([f"word {i}" * (i % 9) for i in range(20000)], pa.utf8(), nulls=True)(rng, count)


def packed(members, nulls=False):
    def make(rng, count):
        made = [member(rng, count) for member in members]
        return pa.StructArray.from_arrays(made, [f"m{i}" for i in range(len(made))],
                                          mask=pa.array(some(rng, count)) if nulls else None)
    return make


def number(kind):
    return lambda rng, count: pa.array(rng.integers(0, 100, count).astype(kind))


def text(longest, kind=pa.utf8()):
    return lambda rng, count: pa.array(["héllo wörld " * int(n) for n in rng.integers(0, longest, count)], kind)


def vector(size):
    return lambda rng, count: pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * size)), size)


def inside_list(make, metadata=None):
    def build(rng, count):
        sizes = rng.integers(0, 4, count)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype("int32"))
        items = make(rng, int(sizes.sum()))
        return pa.ListArray.from_arrays(offsets, items, type=pa.list_(pa.field("item", items.type, metadata=metadata)),
                                        mask=pa.array(some(rng, count)))
    return build


def inside_struct(make, metadata=None):
    def build(rng, count):
        found = make(rng, count)
        fields = [pa.field("inner", found.type, metadata=metadata), pa.field("n", pa.int64())]
        return pa.StructArray.from_arrays([found, number("int64")(rng, count)], fields=fields,
                                          mask=pa.array(some(rng, count)))
    return build


def blobs(sizes):
    """Nulls and empty ones among blobs of these sizes."""
    def make(rng, count):
        def one(i):
            kind = rng.random()
            return None if kind < 0.1 else b"" if kind < 0.2 else rng.bytes(int(sizes[i % len(sizes)]))
        return pa.array([one(i) for i in range(count)], pa.large_binary())
    return make


WORDS = [f"word {i}" for i in range(7)]
DICTIONARIES = {
    "dictionary": (3000, dictionary(WORDS, pa.utf8()), None),
    "dictionary_nulls": (3000, dictionary(WORDS, pa.utf8(), nulls=True, null_values=True), None),
    "dictionary_bytes": (900, dictionary([b"a", b"", b"\xff"], pa.large_binary(), "uint16", nulls=True), None),
    "dictionary_one": (900, dictionary(["alone"], pa.large_utf8(), "int8"), None),
    "dictionary_all_null": (300, lambda rng, count: pa.nulls(count, pa.dictionary(pa.int32(), pa.utf8())), None),
    "dictionary_of_integers": (3000, dictionary(list(range(40)), pa.int64(), "int16", nulls=True), None),
    "dictionary_of_floats": (3000, dictionary([0.5, 1.5, -3.0], pa.float32(), "uint8"), None),
    "dictionary_of_bytes": (3000, dictionary([3, 4, 5], pa.uint8(), "int64"), None),
    "dictionary_of_booleans": (900, dictionary([True, False], pa.bool_(), nulls=True), None),
    "dictionary_many": (5000, many_words, None),
    "dictionary_in_list": (900, inside_list(dictionary(WORDS, pa.utf8(), nulls=True)), None),
    "dictionary_in_struct": (900, inside_struct(dictionary(WORDS, pa.utf8(), nulls=True)), None),
}
PACKED_FIXED = {
    "packed": (3000, packed([number("int32"), number("float32"), number("int8"), number("int64")]), PACKED),
    "packed_nulls": (3000, packed([number("int32"), number("float16")], nulls=True), PACKED),
    "packed_all_null": (300, lambda rng, count: pa.nulls(count, packed([number("int8")])(rng, 0).type), PACKED),
    "packed_wide": (300, packed([lambda rng, count: pa.array([rng.bytes(200) for _ in range(count)], pa.binary(200)),
                                 lambda rng, count: pa.array([rng.bytes(49) for _ in range(count)], pa.binary(49))]),
                    PACKED),
    "packed_in_list": (900, inside_list(packed([number("int32"), number("int64")]), PACKED), None),
    "packed_in_struct": (900, inside_struct(packed([number("int16"), number("int64")], nulls=True), PACKED), None),
}
PACKED_VARIABLE = { # files of version 2.2 only
    "packed_text": (3000, packed([number("int32"), text(3), text(2, pa.large_utf8())]), PACKED),
    "packed_text_nulls": (3000, packed([text(2, pa.binary()), number("int64")], nulls=True), PACKED),
    "packed_long_text": (60, packed([text(400), text(4000)]), PACKED),
    "packed_vectors": (300, packed([number("int32"), vector(4)]), PACKED),
    "packed_nested": (900, packed([number("int32"), packed([text(3), number("int16")])]), PACKED),
    "packed_text_in_list": (900, inside_list(packed([number("int32"), text(3)]), PACKED), None),
}
BLOBS = {
    "blob": (300, blobs([1, 3000, 10]), BLOB),
    "blob_large": (12, blobs([70000, 10, 5 << 20]), BLOB),
    "blob_all_null": (50, lambda rng, count: pa.nulls(count, pa.large_binary()), BLOB),
    "blob_all_empty": (50, lambda rng, count: pa.array([b""] * count, pa.large_binary()), BLOB),
    "blob_in_struct": (200, inside_struct(blobs([1, 70000, 10]), BLOB), None),
}
BLOBS_IN_LISTS = {"blob_in_list": (100, inside_list(blobs([1, 70000, 10]), BLOB), None)} # 2.2 only
COLUMNS_2_1 = DICTIONARIES | PACKED_FIXED | BLOBS
COLUMNS_2_2 = COLUMNS_2_1 | PACKED_VARIABLE | BLOBS_IN_LISTS


def table(name):
    rows, make, metadata = COLUMNS_2_2[name]
    values = make(np.random.default_rng(len(name) * 1000 + rows), rows)
    return pa.table([values], schema=pa.schema([pa.field("v", values.type, metadata=metadata)]))


def without_dictionaries(kind):
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_dictionaries(field.type)) for field in kind])
    return pa.list_(kind.value_field.with_type(without_dictionaries(kind.value_type))) if pa.types.is_list(kind) else kind


def is_blob(field):
    return (field.metadata or {}).get(b"lance-encoding:blob") == b"true"


def logical(values, field):
    """Bytes of blobs inside structs and lists as the structs that tables of file version 2.2 hold."""
    if is_blob(field):
        nulls = pa.nulls(len(values), pa.utf8())
        made = pa.StructArray.from_arrays([values, nulls], ["data", "uri"], mask=values.is_null())
        return made, pa.field(field.name, made.type, metadata={"ARROW:extension:name": "lance.blob.v2"})
    if pa.types.is_struct(field.type):
        members = [logical(values.field(i), field.type.field(i)) for i in range(field.type.num_fields)]
        made = pa.StructArray.from_arrays([m[0] for m in members], fields=[m[1] for m in members], mask=values.is_null())
        return made, pa.field(field.name, made.type)
    if pa.types.is_list(field.type):
        items, inner = logical(values.values, field.type.value_field)
        made = pa.ListArray.from_arrays(values.offsets, items, type=pa.list_(inner), mask=values.is_null())
        return made, pa.field(field.name, made.type)
    return values, field


def for_2_2(rows):
    """The same rows for a table of file version 2.2: blobs below the top are structs."""
    values, field = rows.column(0).combine_chunks(), rows.schema.field(0)
    if is_blob(field):
        return rows
    values, field = logical(values, field)
    return pa.table([values], schema=pa.schema([field.with_metadata(rows.schema.field(0).metadata)]))


def as_values(rows):
    """Dictionary columns, at any depth, as plain ones."""
    schema = pa.schema([field.with_type(without_dictionaries(field.type)) for field in rows.schema])
    return pa.table([column if column.type == field.type else pa.array(column.to_pylist(), field.type)
                     for column, field in zip(rows.columns, schema)], schema=schema)
