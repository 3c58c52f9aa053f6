#!/usr/bin/env python3
"""make_corpus.py DIRECTORY - seeds for the Lance fuzz targets, written by pylance (third_party/venv-main/bin/python).

DIRECTORY/file: data files of versions 2.0, 2.1 and 2.2, a few hundred rows of every type and encoding, each small;
DIRECTORY/manifest, deletion, index: what a table with a history has.
"""
import pathlib
import shutil
import sys
import tempfile

import lance
import numpy as np
import pyarrow as pa

ROWS = 400


def columns(rng):
    """Name and array: one file each."""
    ints = np.arange(ROWS)
    words = np.array(["robot", "arm", "gripper joint", ""] * (ROWS // 4))
    mask = rng.random(ROWS) < 0.2
    struct = pa.StructArray.from_arrays([pa.array(ints.astype("int32")), pa.array(words, mask=mask)], ["x", "y"])
    lists = pa.array([[i, None, i + 2][: i % 4] if i % 7 else None for i in range(ROWS)], pa.list_(pa.int64()))
    yield "i64", pa.array(ints)
    yield "i8", pa.array((ints % 100).astype("int8"), mask=mask)
    yield "u32-small", pa.array((ints % 5).astype("uint32"))
    yield "i32-runs", pa.array(np.repeat(ints[: ROWS // 50], 50).astype("int32"))
    yield "f64", pa.array(rng.random(ROWS), mask=mask)
    yield "f32-runs", pa.array(np.repeat(rng.random(8).astype("float32"), ROWS // 8))
    yield "f16", pa.array(rng.random(ROWS).astype("float16"))
    yield "bool", pa.array(rng.random(ROWS) < 0.5, mask=mask)
    yield "constant", pa.array([7] * ROWS)
    yield "null", pa.nulls(ROWS)
    yield "all-null", pa.nulls(ROWS, pa.int32())
    yield "text", pa.array(words, mask=mask)
    yield "text-long", pa.array(["x" * int(n) for n in rng.integers(0, 300, ROWS)])
    yield "text-fsst", pa.array([f"https://example.com/episodes/{i}/frames/{i * 7}.png" for i in range(ROWS)])
    yield "large-text", pa.array(words, pa.large_utf8())
    yield "binary-wide", pa.array([rng.bytes(int(n)) for n in rng.integers(2000, 6000, 30)])
    yield "decimal", pa.array(ints, pa.int64()).cast(pa.decimal128(20, 0))
    yield "timestamp", pa.array(ints, pa.timestamp("us", "UTC"))
    yield "fixed", pa.array([b"%08d" % i for i in range(ROWS)], pa.binary(8))
    yield "fsl", pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 4).astype("float32")), 4)
    yield "fsl-wide", pa.FixedSizeListArray.from_arrays(pa.array(rng.random(20 * 768).astype("float32")), 768)
    yield "dictionary", pa.array(words, mask=mask).dictionary_encode()
    yield "struct", pa.StructArray.from_arrays([struct, pa.array(ints)], ["inner", "n"], mask=pa.array(mask))
    yield "list", lists
    yield "list-text", pa.array([["a", "bc", None][: i % 4] for i in range(ROWS)])
    yield "list-list", pa.array([[[i], [], None][: i % 4] if i % 5 else None for i in range(ROWS)])
    yield "fsl-struct", pa.FixedSizeListArray.from_arrays(struct, 2, mask=pa.array(mask[: ROWS // 2]))
    yield "list-struct", pa.array([[{"x": i, "y": "s"}] * (i % 3) for i in range(ROWS)])


def marked(rng):
    """The same with instructions to the writer: field metadata."""
    ints, struct = pa.array(np.arange(ROWS)), None
    blob = pa.array([rng.bytes(int(n)) for n in rng.integers(0, 400, 60)], pa.large_binary())
    struct = pa.StructArray.from_arrays([ints, pa.array(np.arange(ROWS).astype("float32"))], ["a", "b"])
    texts = pa.StructArray.from_arrays([ints, pa.array([f"t{i}" for i in range(ROWS)])], ["a", "b"])
    for name in ("lz4", "zstd"):
        yield name, pa.array(["the same words again and again"] * ROWS), {"lance-encoding:compression": name}
    yield "bss", pa.array(rng.random(ROWS)), {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"}
    yield "rle", pa.array(np.repeat(np.arange(8), ROWS // 8)), {"lance-encoding:rle-threshold": "0.9"}
    yield "packed", struct, {"lance-encoding:packed": "true", "packed": "true"}
    yield "packed-text", texts, {"lance-encoding:packed": "true", "packed": "true"}
    yield "blob", blob, {"lance-encoding:blob": "true"}


def one_file(array, field, version, target):
    with tempfile.TemporaryDirectory() as directory:
        try:
            lance.write_dataset(pa.table([array], schema=pa.schema([field])), directory, data_storage_version=version)
        except (OSError, ValueError, BaseException) as error: # what this version does not write
            print(f"{target.name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            return
        shutil.copy(next((pathlib.Path(directory) / "data").glob("*.lance")), target)


def history(directory, root, version):
    """A table with deletions of both kinds, indices, a dropped column, stable row ids."""
    table = pa.table({"a": range(3000), "s": [f"row {i}" for i in range(3000)]})
    lance.write_dataset(table, directory, data_storage_version=version, max_rows_per_file=1000, enable_stable_row_ids=True)
    dataset = lance.dataset(directory)
    dataset.delete("a < 20")
    dataset.delete("a % 2 = 0")
    for kind, column in (("BTREE", "a"), ("BITMAP", "s"), ("ZONEMAP", "a")):
        dataset.create_scalar_index(column, kind, name=f"{column}_{kind}")
    dataset.add_columns({"b": "a + 1"})
    dataset.drop_columns(["s"])
    dataset.optimize.compact_files()
    for kind, pattern in (("manifest", "_versions/*.manifest"), ("deletion", "_deletions/*"), ("index", "_indices/*/*")):
        (root / kind).mkdir(exist_ok=True)
        for number, path in enumerate(sorted(pathlib.Path(directory).glob(pattern))):
            shutil.copy(path, root / kind / f"{version}-{number}-{path.name}")


def main():
    root = pathlib.Path(sys.argv[1])
    (root / "file").mkdir(parents=True, exist_ok=True)
    for version in ("2.0", "2.1", "2.2"):
        rng = np.random.default_rng(5)
        for name, array in columns(rng):
            one_file(array, pa.field("c", array.type), version, root / "file" / f"{version}-{name}")
        for name, array, metadata in marked(rng):
            one_file(array, pa.field("c", array.type, metadata=metadata), version, root / "file" / f"{version}-{name}")
        with tempfile.TemporaryDirectory() as directory:
            history(directory, root, version)


if __name__ == "__main__":
    main()
