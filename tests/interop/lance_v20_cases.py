"""Data files of version 2.0, by us and by pylance, each read by the other; for every release."""
import decimal
import json
import os
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_cases import every_type, few_columns, uri  # noqa: F401
from lance_support import FULL, ROOT, ToolError, append, assert_reads_alike, assert_same, create, read_ipc, reference, scan

LAKE = os.environ.get("LAKE_BIN", ROOT / "build/lake")
NAMED = {"enable_v2_manifest_paths": False}  # as release 1.0 names manifests


def lake(*arguments):
    done = subprocess.run([LAKE, "lance", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise ToolError(done.stderr.strip())
    return done.stdout


def without_null_structs(array):
    """2.0 files hold none."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_struct(array.type):
        fields = [without_null_structs(array.field(i)) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, [field.name for field in array.type])
    return array


def rows_of(count, seed=0, nulls=True):
    rows = every_type(count, seed=seed, nulls=nulls)
    return pa.table([without_null_structs(column) for column in rows.columns], names=rows.column_names)


def nested(seed, count):
    """Lists of all that 2.0 files know, so that pages end in the middle of everything."""
    rng = np.random.default_rng(seed)

    def lists(make, kind=pa.ListArray):
        def build(count):
            sizes = rng.integers(0, 4, count)
            missing = rng.random(count) < 0.1
            sizes[missing] = 0
            offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]),
                               pa.int64() if kind is pa.LargeListArray else pa.int32())
            return kind.from_arrays(offsets, make(offsets[-1].as_py()), mask=pa.array(missing))
        return build

    def struct(**members):
        return lambda count: pa.StructArray.from_arrays([make(count) for make in members.values()], list(members))

    def numbers(count):
        return pa.array(rng.integers(-9, 9, count), mask=rng.random(count) < 0.1)

    def texts(count):
        return pa.array([None if x % 9 == 0 else "" if x % 9 == 1 else f"text {x}"
                         for x in rng.integers(0, 10**6, count)], pa.utf8())

    def flags(count):
        return pa.array(rng.random(count) < 0.5, mask=rng.random(count) < 0.1)

    def points(count):
        return pa.FixedSizeListArray.from_arrays(
            pa.array(rng.random(count * 3).astype("float32"), mask=rng.random(count * 3) < 0.1), 3,
            mask=pa.array(rng.random(count) < 0.1))

    return pa.table({"id": np.arange(count), "numbers": lists(numbers)(count),
                     "deep": lists(lists(lists(texts)), pa.LargeListArray)(count),
                     "objects": lists(struct(name=texts, box=points, tags=lists(texts), seen=flags))(count),
                     "pair": struct(a=flags, b=struct(c=lists(points), d=texts))(count)})


@pytest.mark.parametrize("nulls", [True, False])
def test_it_reads_every_type_that_we_write_in_2_0(uri, tmp_path, nulls):  # noqa: F811
    rows = rows_of(3000, nulls=nulls)
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path, "--rows-per-file", 1100, rows_per_batch=700)
    dataset = lance.dataset(str(uri))
    assert dataset.data_storage_version == "2.0"
    assert_same(dataset.to_table(), rows)
    assert_same(scan(uri, tmp_path), rows)
    assert_same(dataset.to_table(filter="id % 500 = 7"), rows.take(list(range(7, 3000, 500))))
    wanted = [0, 1, 1099, 1100, 2999, 5]
    assert_same(dataset.take(wanted), rows.take(wanted))


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("count", [1, 7, 20000, *([400000] if FULL else [])])
def test_nested_lists_of_2_0_go_both_ways(uri, tmp_path, count, ours):  # noqa: F811
    rows = nested(count, count)
    if ours:
        create(uri, rows.schema, tmp_path, "2.0")
        append(uri, rows, tmp_path, rows_per_batch=997)
    else:
        lance.write_dataset(rows, str(uri), data_storage_version="2.0")
    dataset = lance.dataset(str(uri))
    assert_same(scan(uri, tmp_path), rows)
    assert_same(dataset.to_table(), rows)
    wanted = sorted({0, count // 3, count // 2, count - 1})
    assert_same(dataset.take(wanted), rows.take(wanted))
    assert_same(dataset.to_table(columns=["objects"], offset=count // 2, limit=5),
                rows.select(["objects"]).slice(count // 2, 5))


def test_lists_of_several_pages_go_both_ways(uri, tmp_path):  # noqa: F811
    """More ends than a page holds, and more items."""
    count = 1_200_000
    sizes = np.arange(count) % 4
    items = pa.array(np.arange(sizes.sum()))
    lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()), items)
    rows = pa.table({"id": np.arange(count), "v": lists})
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path, "--rows-per-file", count, rows_per_batch=50000)
    dataset = lance.dataset(str(uri))
    assert dataset.to_table().equals(rows)
    assert scan(uri, tmp_path).combine_chunks().equals(rows.combine_chunks())
    wanted = [0, 1, 499_999, 1_048_575, 1_048_576, 1_048_577, count - 1]
    assert_same(dataset.take(wanted), rows.take(wanted))


def test_a_table_of_2_0_stays_one_whoever_writes(uri, tmp_path):  # noqa: F811
    """With manifests named as the first releases name them."""
    lance.write_dataset(few_columns(100), str(uri), data_storage_version="2.0", max_rows_per_file=40, **NAMED)
    expected = few_columns(100)
    for i in range(3):
        append(uri, few_columns(50, 1000 + 100 * i), tmp_path)
        lance.write_dataset(few_columns(50, 1050 + 100 * i), str(uri), mode="append")
        expected = pa.concat_tables([expected, few_columns(100, 1000 + 100 * i)])
    assert_same(reference(uri), expected)
    assert_reads_alike(uri, tmp_path)
    lake("delete", uri, "--where", "id < 30 or id = 1049")
    lance.dataset(str(uri)).delete("id >= 1240")
    assert_reads_alike(uri, tmp_path)
    kept = [i for i in range(expected.num_rows) if not (
        expected["id"][i].as_py() < 30 or expected["id"][i].as_py() == 1049 or expected["id"][i].as_py() >= 1240)]
    assert_same(reference(uri), expected.take(kept))
    assert all(file.file_minor_version in (0, 3) for fragment in lance.dataset(str(uri)).get_fragments()
               for file in fragment.metadata.files)
    assert len(list((uri / "_versions").glob("[0-9]*.manifest"))) == 9
    assert (uri / "_versions" / "9.manifest").exists()


def test_a_table_of_2_0_is_compacted_by_us_and_read_by_it(uri, tmp_path):  # noqa: F811
    rows = nested(5, 3000)
    lance.write_dataset(rows, str(uri), data_storage_version="2.0", max_rows_per_file=250, **NAMED)
    lance.dataset(str(uri)).delete("id % 7 = 3")
    report = json.loads(lake("compact", uri, "--json"))
    assert (report["fragments_before"], report["fragments_after"]) == (12, 1)
    dataset = lance.dataset(str(uri))
    assert len(dataset.get_fragments()) == 1
    assert dataset.data_storage_version == "2.0"
    assert_reads_alike(uri, tmp_path)
    assert_same(dataset.to_table(), rows.take([i for i in range(3000) if i % 7 != 3]))
    dataset.optimize.compact_files()
    append(uri, rows.slice(0, 10), tmp_path)
    assert_reads_alike(uri, tmp_path)


def test_columns_of_a_2_0_table_come_and_go(uri, tmp_path):  # noqa: F811
    lance.write_dataset(few_columns(300), str(uri), data_storage_version="2.0", max_rows_per_file=100)
    lance.dataset(str(uri)).add_columns({"y": "id * 2"})
    lake("columns", "rename", uri, "--column", "s", "--to", "text")
    lake("columns", "add", uri, "--column", "z:list<utf8?>?")
    append(uri, pa.table({"id": [1], "text": ["a"], "x": [0.5], "y": [2], "z": [["p", None]]},
                         schema=lance.dataset(str(uri)).schema), tmp_path)
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri)).drop_columns(["x"])
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri)).alter_columns({"path": "y", "data_type": pa.int32()})
    assert_reads_alike(uri, tmp_path)


@pytest.mark.parametrize("kind,value", [
    (pa.struct([pa.field("a", pa.int64())]), None),
    (pa.list_(pa.struct([pa.field("a", pa.int64())])), [None]),
    (pa.map_(pa.utf8(), pa.int64()), [("k", 1)]),
])
def test_what_2_0_cannot_say_both_refuse(uri, tmp_path, kind, value):  # noqa: F811
    rows = pa.table({"v": pa.array([value], kind)})
    with pytest.raises(ToolError, match="column (v|item): .*version 2.0"):
        create(uri, rows.schema, tmp_path, "2.0")
        append(uri, rows, tmp_path)
    if lance.__version__.startswith("14."):  # earlier ones dropped the nulls
        with pytest.raises(Exception):
            lance.write_dataset(rows, str(tmp_path / "theirs.lance"), data_storage_version="2.0")


def test_compression_that_a_column_asks_for_is_used(uri, tmp_path):  # noqa: F811
    texts = [None if i % 9 == 4 else "many words that repeat themselves again and again, row %d" % (i % 500)
             for i in range(5000)]
    fields = [pa.field(name, pa.utf8(), metadata={"lance-encoding:compression": name})
              for name in ("zstd", "lz4", "fsst", "none")]
    rows = pa.table([pa.array(texts)] * 4, schema=pa.schema(fields))
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path)
    theirs = tmp_path / "theirs.lance"
    lance.write_dataset(rows, str(theirs), data_storage_version="2.0")
    sizes = [sum(file.stat().st_size for file in (of / "data").iterdir()) for of in (uri, theirs)]
    assert sizes[0] < 1.1 * sizes[1]
    assert_same(lance.dataset(str(uri)).to_table(), rows)
    assert_same(scan(theirs, tmp_path), rows)
    assert_same(lance.dataset(str(uri)).to_table(offset=17, limit=3), rows.slice(17, 3))
    assert_same(lance.dataset(str(uri)).take([4999]), rows.take([4999]))


def test_files_of_2_0_are_no_larger_than_its(uri, tmp_path):  # noqa: F811
    rng = np.random.default_rng(8)
    count = 100_000
    rows = pa.table({
        "seq": np.arange(count), "x": rng.random(count), "small": rng.integers(0, 100, count).astype("int32"),
        "text": [f"text {x}" for x in rng.integers(0, 10**6, count)],
        "few": [["red", "green", None][x] for x in rng.integers(0, 3, count)],
        "price": pa.array([decimal.Decimal(int(x)) for x in rng.integers(0, 10**6, count)], pa.decimal128(20, 2)),
        "list": pa.ListArray.from_arrays(pa.array(np.arange(count + 1), pa.int32()), pa.array(np.arange(count)))})
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path)
    theirs = tmp_path / "theirs.lance"
    lance.write_dataset(rows, str(theirs), data_storage_version="2.0")
    sizes = [sum(file.stat().st_size for file in (of / "data").iterdir()) for of in (uri, theirs)]
    assert sizes[0] < 1.02 * sizes[1]
    assert_same(reference(uri), rows)


def test_dictionaries_packed_structs_and_blobs_of_2_0_go_both_ways(uri, tmp_path):  # noqa: F811
    rng = np.random.default_rng(4)
    count = 700
    words = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 5, count).astype("int16"), mask=rng.random(count) < 0.1),
        pa.array(["one", "two", None, "three", ""]))
    numbers = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, count).astype("uint8")),
                                             pa.array([2**60, -1, 0]))
    packed = pa.StructArray.from_arrays([pa.array(np.arange(count, dtype="int32")), pa.array(rng.random(count)),
                                         pa.array([rng.bytes(3) for _ in range(count)], pa.binary(3))], ["a", "b", "c"])
    blobs = [None if i % 7 == 3 else b"" if i % 7 == 5 else rng.bytes(int(rng.integers(1, 3000))) for i in range(count)]
    fields = [pa.field("words", words.type), pa.field("numbers", numbers.type),
              pa.field("packed", packed.type, metadata={"packed": "true"}),
              pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    rows = pa.table([words, numbers, packed, pa.array(blobs, pa.large_binary())], schema=pa.schema(fields))
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path, "--rows-per-file", 400, rows_per_batch=77)
    dataset = lance.dataset(str(uri))
    few = ["words", "numbers", "packed"]
    assert dataset.to_table(columns=few).to_pylist() == rows.select(few).to_pylist()
    assert dataset.take([3, 399, 400, 699], columns=few).to_pylist() == rows.take([3, 399, 400, 699]).select(few).to_pylist()
    wanted = [i for i in range(count) if blobs[i]]
    found = [blob.readall() for blob in dataset.take_blobs("blob", indices=wanted)]
    assert found == [blobs[i] for i in wanted]
    assert scan(uri, tmp_path, options=["--bytes"]).to_pylist() == rows.to_pylist()
    lance.write_dataset(rows, str(uri), mode="append")
    assert scan(uri, tmp_path, options=["--bytes"]).to_pylist() == rows.to_pylist() * 2


def varint(number):
    parts = []
    while number >= 128:
        parts.append(number % 128 + 128)
        number //= 128
    return bytes(parts + [number])


def field(number, value):
    if isinstance(value, int):
        return varint(number * 8) + varint(value)
    value = b"".join(map(varint, value)) if isinstance(value, list) else value
    return varint(number * 8 + 2) + varint(len(value)) + value


def test_a_table_may_hold_files_of_several_versions(uri, tmp_path):  # noqa: F811
    """Which the flags say; no release writes such a table, so it is put together from three."""
    rows = nested(9, 500)
    additions = b""
    for number, version in enumerate(["2.0", "2.1"], 1):
        part = rows.take(list(range(number * 100, number * 100 + 100)))  # of slices it writes no 2.0 files
        made = tmp_path / f"{version}.lance"
        lance.write_dataset(part, str(made), data_storage_version=version)
        [file] = lance.dataset(str(made)).get_fragments()[0].metadata.files
        os.link(made / "data" / file.path, uri.parent / file.path)
        size = (made / "data" / file.path).stat().st_size
        data_file = field(1, file.path.encode()) + field(2, list(file.fields)) + \
            field(3, list(file.column_indices)) + field(4, 2) + field(5, number - 1) + field(6, size)
        additions += field(2, field(1, number) + field(2, data_file) + field(4, 100))
    lance.write_dataset(rows.take(list(range(100))), str(uri), data_storage_version="2.1")
    for file in uri.parent.glob("*.lance"):
        if file.is_file():
            file.rename(uri / "data" / file.name)
    [path] = (uri / "_versions").glob("*.manifest")
    old = path.read_bytes()
    position = int.from_bytes(old[-16:-8], "little")
    message = old[position + 4:-16] + additions + field(9, 256) + field(10, 256) + field(11, 2)
    path.write_bytes(old[:position] + len(message).to_bytes(4, "little") + message + old[-16:])
    assert_same(scan(uri, tmp_path), rows.slice(0, 300))
    append(uri, rows.slice(300), tmp_path)
    lake("delete", uri, "--where", "id = 150 or id = 299")
    kept = [i for i in range(500) if i not in (150, 299)]
    assert_same(scan(uri, tmp_path), rows.take(kept))
    lake("compact", uri)
    assert_same(scan(uri, tmp_path), rows.take(kept))
    if lance.__version__.startswith("14."):  # the others know no such flag
        assert_same(reference(uri), rows.take(kept))


def test_every_verb_works_on_a_2_0_table(uri, tmp_path):  # noqa: F811
    """Of columns that are more than values: through an update, a merge, a delete and a compaction."""
    rng = np.random.default_rng(6)
    count = 600
    blobs = [None if i % 7 == 3 else rng.bytes(int(rng.integers(1, 300))) for i in range(count)]
    words = pa.array([None if i % 5 == 2 else f"word {i % 9}" for i in range(count)]).dictionary_encode()
    fields = [pa.field("id", pa.int64()), pa.field("words", words.type), pa.field("list", pa.list_(pa.int64())),
              pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    rows = pa.table([pa.array(np.arange(count)), words, pa.array([[i, None][:i % 3] for i in range(count)]),
                     pa.array(blobs, pa.large_binary())], schema=pa.schema(fields))
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path, "--rows-per-file", 100)
    lake("delete", uri, "--where", "id % 10 = 3")
    lake("update", uri, "--set", "id = id + 10000", "--where", "id < 50")
    lake("compact", uri)
    dataset = lance.dataset(str(uri))
    assert dataset.data_storage_version == "2.0"
    found = {row["id"] % 10000: row for row in scan(uri, tmp_path, options=["--bytes"]).to_pylist()}
    expected = {row["id"]: row for row in rows.to_pylist() if row["id"] % 10 != 3}
    assert found.keys() == expected.keys()
    for number, row in expected.items():
        assert {**found[number], "id": number} == row
    few = ["id", "words", "list"]
    assert sorted(dataset.to_table(columns=few).to_pylist(), key=lambda row: row["id"]) == sorted(
        ({name: row[name] for name in few} for row in found.values()), key=lambda row: row["id"])
    lake("take", uri, "--rows", "1,5,9", "--columns", "id,list", "-o", tmp_path / "taken.arrow")
    assert_same(read_ipc(tmp_path / "taken.arrow"), dataset.take([1, 5, 9], columns=["id", "list"]))


def test_filters_on_2_0_tables_count_like_pylance(uri, tmp_path):  # noqa: F811
    rng = np.random.default_rng(3)
    rows = pa.table({"k": np.sort(rng.integers(0, 50, 200000)), "t": [f"text {i % 977}" for i in range(200000)],
                     "x": pa.array(rng.integers(0, 1000, 200000), mask=rng.random(200000) < 0.2)})
    create(uri, rows.schema, tmp_path, "2.0")
    append(uri, rows, tmp_path, "--rows-per-file", 70000, rows_per_batch=10000)
    lake("delete", uri, "--where", "k = 13")
    dataset = lance.dataset(str(uri))
    for condition in ("k = 7", "k = 13", "k < 3", "x = 999", "x > 990 and k > 40", "t = 'text 5'", "x is null"):
        lake("scan", uri, "--filter", condition, "-o", tmp_path / "found.arrow")
        assert read_ipc(tmp_path / "found.arrow").num_rows == dataset.count_rows(condition), condition
