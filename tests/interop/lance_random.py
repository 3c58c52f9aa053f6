"""Tables by chance: columns of any type, nested up to four deep, with nulls, empties, runs and repeats."""
import random

import numpy as np
import pyarrow as pa

LEAVES = [pa.int8(), pa.uint32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.utf8(), pa.large_utf8(),
          pa.binary(), pa.date32(), pa.timestamp("us"), pa.decimal128(20, 3), pa.binary(5)]


def random_type(rng, depth=0):
    kind = rng.choice(["leaf"] * 5 + (["list", "large_list", "struct", "vector"] if depth < 3 else []))
    if kind == "list":
        return pa.list_(random_type(rng, depth + 1))
    if kind == "large_list":
        return pa.large_list(random_type(rng, depth + 1))
    if kind == "struct":
        return pa.struct([pa.field(name, random_type(rng, depth + 1)) for name in "abc"[:rng.randint(1, 3)]])
    if kind == "vector":
        return pa.list_(rng.choice([pa.float32(), pa.int16()]), rng.choice([3, 16, 300]))
    return rng.choice(LEAVES)


def random_vector_type(rng, depth=0):
    """A fixed-size list of structs of leaves, vectors and others of its kind."""
    def member():
        kind = rng.choice(["leaf"] * 4 + ["vector", "dictionary"] + (["struct", "nested"] if depth < 2 else []))
        if kind == "vector":
            return pa.list_(rng.choice([pa.float32(), pa.int16(), pa.bool_()]), rng.choice([1, 3, 100]))
        if kind == "struct":
            return pa.struct([pa.field(name, rng.choice(LEAVES)) for name in "xy"[:rng.randint(1, 2)]])
        if kind == "dictionary":
            return pa.dictionary(pa.int32(), pa.utf8())
        return random_vector_type(rng, depth + 1) if kind == "nested" else rng.choice(LEAVES)
    return pa.list_(pa.struct([pa.field(name, member()) for name in "abc"[:rng.randint(1, 3)]]), rng.choice([1, 2, 7]))


def random_array(rng, numbers, kind, count, nullable=True, null_structs=True):
    """Few and many distinct values, runs, nulls, empties; a null list owns no items."""
    nullable = nullable and (null_structs or not pa.types.is_struct(kind))
    nulls = numbers.random(count) < rng.choice([0, 0.1, 0.9]) if nullable else np.zeros(count, bool)
    mask = pa.array(nulls)
    if pa.types.is_fixed_size_list(kind):
        structs = pa.types.is_struct(kind.value_type)
        items = random_array(rng, numbers, kind.value_type, count * kind.list_size, nullable=structs)
        return pa.FixedSizeListArray.from_arrays(items, kind.list_size, mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes = np.where(nulls, 0, numbers.integers(0, rng.choice([1, 3, 12]), count))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        width = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
        items = random_array(rng, numbers, kind.value_type, int(offsets[-1]), null_structs=null_structs)
        return made.from_arrays(pa.array(offsets, width), items, type=kind, mask=mask)
    if pa.types.is_struct(kind):
        children = [random_array(rng, numbers, field.type, count, null_structs=null_structs) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_dictionary(kind):
        return random_array(rng, numbers, kind.value_type, count, nullable).dictionary_encode()
    few = rng.choice([1, 5, 100, 10**6])
    words = numbers.integers(0, few, count)
    words = np.sort(words) if rng.random() < 0.3 else words
    if pa.types.is_boolean(kind):
        values = pa.array(words % 2 == 0)
    elif pa.types.is_floating(kind):
        values = pa.array(words / 7).cast(kind)
    elif pa.types.is_decimal(kind):
        values = pa.array(words).cast(pa.decimal128(20, 0)).cast(kind)
    elif pa.types.is_date32(kind):
        values = pa.array(words.astype(np.int32)).cast(kind)
    elif pa.types.is_fixed_size_binary(kind):
        values = pa.array([b"%05d" % (word % 100000) for word in words], kind)
    elif pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        values = pa.array(words % 100 if kind in (pa.int8(), pa.int16()) else words).cast(kind)
    else:
        long = rng.choice([0, 0, 300])
        texts = [("x" * (word % (long + 1)) + f"text {word}").encode() for word in words.tolist()]
        values = pa.array(texts, pa.binary()).cast(kind)
    return pa.array([None] * count, kind) if count and nulls.all() else values.take(
        pa.array(np.arange(count), mask=nulls)) if nulls.any() else values


def random_table(seed, null_structs=True, count=None):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    chosen = rng.choice([0, 1, 50, 3000, 20_000])
    count = chosen if count is None else count
    columns = {"id": pa.array(np.arange(count))}
    for number in range(rng.randint(1, 4)):
        columns[f"c{number}"] = random_array(rng, numbers, random_type(rng), count, null_structs=null_structs)
    return pa.table(columns)
