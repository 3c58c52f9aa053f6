"""Rows that `lake lance update|merge` and pylance change in one table, columns that get values; for every release."""
import multiprocessing
import random

import lance
import pyarrow as pa
import pyarrow.compute
import pytest

from lance_cases import every_type, few_columns, uri # noqa: F401
from lance_change_cases import MAKERS, columns, delete, lake, ours, report, theirs # noqa: F401
from lance_support import FULL, ToolError, append, assert_reads_alike, assert_same, create, reference, write_ipc


def update(uri, where=None, **values): # noqa: F811
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    return report("update", uri, *words, *(["--where", where] if where else []))


def merge(uri, rows, scratch, *words, on=("id",)): # noqa: F811
    source = write_ipc(scratch / "source.arrow", rows)
    return report("merge", uri, source, *[word for key in on for word in ("--on", key)], *words)


def by_id(uri): # noqa: F811
    return reference(uri).sort_by("id")


def stable(uri, rows=300): # noqa: F811
    lance.write_dataset(few_columns(rows), str(uri), max_rows_per_file=100, enable_stable_row_ids=True,
                        data_storage_version="2.1")


def identities(uri): # noqa: F811
    """Who each row is: its row id, and the versions in which it was made and last changed."""
    names = ["_row_created_at_version", "_row_last_updated_at_version"]
    found = lance.dataset(str(uri)).scanner(columns=["id", *names], with_row_id=True).to_table()
    return {row["id"]: (row["_rowid"], *[row[name] for name in names]) for row in found.to_pylist()}


# -- update -------------------------------------------------------------------------------------------------

@MAKERS
def test_updated_rows_are_the_references(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    other = tmp_path / "other.lance"
    make(other, tmp_path)
    for where, values, theirs_ in [("id % 7 = 0", {"x": "x * 2", "s": "'a' || s"}, {"x": "x * 2", "s": "'a' || s"}),
                                   ("x > 100 and s is not null", {"s": "null"}, {"s": "null"}),
                                   (None, {"x": "x + id"}, {"x": "x + id"}), ("id >= 200", {"id": "id + 1000"}, None)]:
        done = update(uri, where, **values)
        told = lance.dataset(str(other)).update(theirs_ or values, where=where)
        assert done["rows_updated"] == told["num_rows_updated"] > 0
        assert_same(by_id(uri), by_id(other))
        assert_reads_alike(uri, tmp_path)
    assert update(uri, "id < 0", x="0")["rows_updated"] == 0
    lance.dataset(str(uri)).update({"s": "'theirs'"}, where="id = 5")
    update(uri, "s = 'theirs'", s="s || ' and ours'")
    assert lance.dataset(str(uri)).to_table(filter="id = 5")["s"].to_pylist() == ["theirs and ours"]


def test_numbers_booleans_and_days_set_a_text_to_theirs(uri, tmp_path): # noqa: F811
    rows = pa.table({"a": range(4), "s": list("wxyz"), "f": [0.5, -3.25, 100.0, 0.125]})
    for expression in ("a", "a * 2 - 5", "f", "a > 1", "7", "NULL", "s"):
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        for target in (ours, theirs):
            lance.write_dataset(rows, target, mode="overwrite" if target.exists() else "create", data_storage_version="2.1")
        report("update", ours, "--set", f"s={expression}", "--where", "a < 3")
        lance.dataset(theirs).update({"s": expression}, where="a < 3")
        assert_same(lance.dataset(ours).to_table().sort_by("a"), lance.dataset(theirs).to_table().sort_by("a"))
    report("update", ours, "--set", "s=DATE '2024-02-03'", "--where", "a = 0")
    assert lance.dataset(ours).to_table(filter="a = 0")["s"].to_pylist() == ["2024-02-03"]


def test_an_update_leaves_every_other_type_as_it_is(uri, tmp_path): # noqa: F811
    rows = every_type(200)
    create(uri, rows.schema, tmp_path)
    append(uri, rows, tmp_path, "--rows-per-file", 60)
    update(uri, "id % 3 = 1", int32="7", utf8="'set'")
    picked = pa.array([i % 3 == 1 for i in range(rows.num_rows)])
    expected = rows
    for name, value in [("int32", 7), ("utf8", "set")]:
        new = pa.compute.if_else(picked, pa.scalar(value, rows.schema.field(name).type), rows[name].combine_chunks())
        expected = expected.set_column(expected.column_names.index(name), rows.schema.field(name), new)
    assert_same(by_id(uri), expected)
    assert_reads_alike(uri, tmp_path)


def test_dictionary_columns_take_values_and_stay_dictionaries(uri, tmp_path): # noqa: F811
    words = pa.array(["a", "b", None, "c"] * 25)
    rows = pa.table({"id": list(range(100)), "d": words.dictionary_encode(), "n": pa.ListArray.from_arrays(
        list(range(101)), words.dictionary_encode())})
    lance.write_dataset(rows, str(uri), max_rows_per_file=40, data_storage_version="2.1")
    expected = rows.to_pylist()
    assert update(uri, "id % 9 = 0", d="'new' || id")["rows_updated"] == 12
    assert update(uri, "id = 4", n="['x', NULL]")["rows_updated"] == 1
    for row in expected:
        row["d"] = f"new{row['id']}" if row["id"] % 9 == 0 else row["d"]
    expected[4]["n"] = ["x", None]
    plain = pa.table({"id": [7, 100, 8], "d": ["m", None, "a"], "n": [["y"], [], None]})
    encoded = plain.set_column(1, "d", plain["d"].combine_chunks().dictionary_encode())
    for source in (plain, encoded): # the first inserts a row, which the second updates
        merge(uri, source, tmp_path)
    expected[7:9] = [plain.to_pylist()[0], plain.to_pylist()[2]]
    found = by_id(uri)
    assert found.to_pylist() == expected + [plain.to_pylist()[1]]
    assert found.schema.types == rows.schema.types
    assert_reads_alike(uri, tmp_path)


@pytest.mark.parametrize("words, said", [
    (["--set", "nothing=1"], "2: .*no column nothing"), (["--set", "x=1", "--set", "x=2"], "2: .*set twice"),
    (["--set", "x"], "2: .*COLUMN=EXPRESSION"), (["--set", "x=y_y"], "1: .*y_y"),
    (["--set", "x=1) FROM lake.lance.dataset --"], "1: "), (["--set", "x='a'"], "1: .*'x'.*not a number"),
    (["--set", "x=x, s=s"], "1: "), (["--set", "x=1, 2"], "1: "), (["--set", "x=1", "--where", " "], "2: ")])
def test_a_wrong_update_changes_nothing(words, said, uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    with pytest.raises(ToolError, match=f"(?s)^{said}"):
        lake("update", uri, *words)
    assert lance.dataset(str(uri)).version == 2 and len(list((uri / "data").iterdir())) == 3
    assert_same(reference(uri), few_columns(300))


# -- merge ---------------------------------------------------------------------------------------------------

@MAKERS
@pytest.mark.parametrize("matched, unmatched, missing", [
    ("update", "insert", "nothing"), ("nothing", "insert", "nothing"), ("update", "nothing", "nothing"),
    ("update", "insert", "delete"), ("nothing", "nothing", "delete")])
def test_merged_rows_are_the_references(make, matched, unmatched, missing, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    other = tmp_path / "other.lance"
    make(other, tmp_path)
    source = few_columns(60, 270).set_column(2, "x", pa.array([float(-i) for i in range(60)]))
    done = merge(uri, source, tmp_path, "--when-matched", matched, "--when-not-matched", unmatched,
                 "--when-not-matched-by-source", missing)
    told = lance.dataset(str(other)).merge_insert("id")
    told = told.when_matched_update_all() if matched == "update" else told
    told = told.when_not_matched_insert_all() if unmatched == "insert" else told
    told = told.when_not_matched_by_source_delete() if missing == "delete" else told
    told = told.execute(source)
    assert (done["rows_updated"], done["rows_inserted"], done["rows_deleted"]) == (
        told["num_updated_rows"], told["num_inserted_rows"], told["num_deleted_rows"])
    assert_same(by_id(uri), by_id(other))
    assert_reads_alike(uri, tmp_path)


def test_keys_of_several_columns_with_nulls_and_repetitions(uri, tmp_path): # noqa: F811
    schema = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.utf8()), pa.field("v", pa.int64())])
    create(uri, schema, tmp_path)
    rows = [(1, "x", 0), (1, "y", 1), (None, "x", 2), (2, None, 3), (1, "x", 4), (None, None, 5)]
    table = lambda rows: pa.table(list(zip(*rows)), schema=schema) # noqa: E731
    append(uri, table(rows), tmp_path)
    done = merge(uri, table([(1, "x", 100), (None, "x", 101), (2, "z", 102), (None, None, 103)]), tmp_path, on=("a", "b"))
    assert (done["rows_updated"], done["rows_inserted"]) == (2, 3) # both rows with the key; null is equal to nothing
    found = sorted((row["v"], row["a"], row["b"]) for row in reference(uri).to_pylist())
    assert found == [(1, 1, "y"), (2, None, "x"), (3, 2, None), (5, None, None), (100, 1, "x"), (100, 1, "x"),
                     (101, None, "x"), (102, 2, "z"), (103, None, None)]
    with pytest.raises(ToolError, match="(?s)^1: .*same key"):
        merge(uri, table([(7, "k", 1), (7, "k", 2)]), tmp_path, on=("a", "b"))
    with pytest.raises(ToolError, match="(?s)^2: .*no column c"):
        merge(uri, table([(7, "k", 1)]), tmp_path, on=("c",))
    with pytest.raises(ToolError, match="(?s)^1: .*no column .*v"):
        merge(uri, table([(7, "k", 1)]).select(["a", "b"]), tmp_path, on=("a",))
    assert lance.dataset(str(uri)).version == 3
    assert_reads_alike(uri, tmp_path)


def test_a_source_of_another_kind_of_file_and_other_types_is_merged(uri, tmp_path): # noqa: F811
    import pyarrow.parquet
    ours(uri, tmp_path)
    source = few_columns(20, 290)
    narrow = source.select(["x", "id", "s"]).cast(pa.schema([("x", pa.float32()), ("id", pa.int32()), ("s", pa.large_utf8())]))
    pyarrow.parquet.write_table(narrow, tmp_path / "in.parquet")
    done = report("merge", uri, tmp_path / "in.parquet", "--on", "id")
    assert (done["rows_updated"], done["rows_inserted"]) == (10, 10)
    assert_same(by_id(uri), few_columns(310))


# -- row ids --------------------------------------------------------------------------------------------------

def test_rows_with_stable_ids_are_who_the_reference_says(uri, tmp_path): # noqa: F811
    """The same steps in two tables; every row has the same id and the same versions in both."""
    other = tmp_path / "other.lance"
    stable(uri)
    stable(other)
    source = few_columns(40, 280)
    steps = [(lambda: update(uri, "id % 7 = 0", x="x * 2"), lambda d: d.update({"x": "x * 2"}, where="id % 7 = 0")),
             (lambda: merge(uri, source, tmp_path),
              lambda d: d.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)),
             (lambda: delete(uri, "id % 9 = 1"), lambda d: d.delete("id % 9 = 1")),
             (lambda: report("compact", uri), lambda d: d.optimize.compact_files()),
             (lambda: append(uri, few_columns(10, 500), tmp_path),
              lambda d: lance.write_dataset(few_columns(10, 500), str(other), mode="append")),
             (lambda: update(uri, "id = 505 or id = 4", s="'again'"),
              lambda d: d.update({"s": "'again'"}, where="id = 505 or id = 4"))]
    for mine, his in steps:
        mine()
        his(lance.dataset(str(other)))
        assert identities(uri) == identities(other)
        assert_same(by_id(uri), by_id(other))
        assert_reads_alike(uri, tmp_path)


# -- columns with values ----------------------------------------------------------------------------------------

@MAKERS
def test_a_column_gets_another_type(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id % 10 = 3 or id >= 295")
    before = reference(uri)
    columns("cast", uri, column="x", to="float32")
    expected = before.cast(before.schema.set(2, pa.field("x", pa.float32())))
    assert_same(reference(uri), expected)
    assert lance.dataset(str(uri)).to_table(filter="id = 55").num_rows == 1
    columns("cast", uri, column="id", to="int32")
    expected = expected.cast(expected.schema.set(0, pa.field("id", pa.int32(), before.schema.field("id").nullable)))
    assert_same(reference(uri), expected)
    assert lance.dataset(str(uri)).to_table(filter="id = 55").num_rows == 1
    lance.dataset(str(uri)).alter_columns({"path": "x", "data_type": pa.float64()})
    columns("cast", uri, column="x", to="float32")
    append(uri, reference(uri).slice(0, 7), tmp_path)
    report("compact", uri)
    assert_reads_alike(uri, tmp_path)
    for version in range(2, lance.dataset(str(uri)).version + 1):
        assert_reads_alike(uri, tmp_path, version)
    with pytest.raises(ToolError, match="(?s)^1: .*column 's'"):
        columns("cast", uri, column="s", to="int64")
    with pytest.raises(ToolError, match="(?s)^4: .*no column y"):
        columns("cast", uri, column="y", to="int64")


def test_a_cast_goes_with_rows_that_come_meanwhile(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path, rows=2000, per_file=100)
    peer = multiprocessing.get_context("spawn").Process(target=pylance_changes, args=(str(uri), 12))
    peer.start()
    kinds = ["float32", "float64"]
    casts = 0
    while peer.is_alive():
        columns("cast", uri, column="x", to=kinds[casts % 2])
        casts += 1
    peer.join()
    assert peer.exitcode == 0 and casts > 1
    found = by_id(uri)
    left = list(range(2000))
    for i in range(12):
        left = [k for k in left + list(range(10**6 + i * 5, 10**6 + i * 5 + 5)) if k % 50 != i]
    assert found["id"].to_pylist() == sorted(left)
    assert all(row["x"] == few_columns(1, row["id"])["x"][0].as_py() for row in found.to_pylist())
    assert_reads_alike(uri, tmp_path)


def pylance_changes(uri, times): # noqa: F811
    for i in range(times):
        for attempt in range(50): # a reference that gave up its race tries again
            try:
                dataset = lance.dataset(uri)
                rows = few_columns(5, 10**6 + i * 5)
                lance.write_dataset(rows.cast(dataset.schema), dataset, mode="append")
                break
            except OSError as error:
                assert "onflict" in str(error) or "preempted" in str(error), error
        for attempt in range(50):
            try:
                lance.dataset(uri).delete(f"id % 50 = {i}")
                break
            except OSError as error:
                assert "onflict" in str(error) or "preempted" in str(error), error


def test_new_columns_are_computed(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    delete(uri, "id % 10 = 3")
    before = reference(uri)
    lake("columns", "add", uri, "--column", "y:int64", "--value", "id * 2 -- twice", "--column", "z:utf8", "--value",
         "'<' || s || '>'")
    ids, texts = before["id"].to_pylist(), before["s"].to_pylist()
    expected = (before.append_column("y", pa.array([i * 2 for i in ids], pa.int64()))
                .append_column("z", pa.array([None if s is None else f"<{s}>" for s in texts])))
    assert_same(reference(uri), expected)
    assert_reads_alike(uri, tmp_path)
    with pytest.raises(ToolError, match="(?s)^2: .*one --value"):
        lake("columns", "add", uri, "--column", "p:int64", "--column", "q:int64", "--value", "1")
    with pytest.raises(ToolError, match="(?s)^1: "):
        lake("columns", "add", uri, "--column", "p:int64", "--value", "count(*)")
    assert_same(reference(uri), expected)


# -- at the same time ---------------------------------------------------------------------------------------------

def pylance_counts(uri, times): # noqa: F811
    for _ in range(times):
        for attempt in range(50):
            try:
                lance.dataset(uri).update({"x": "x + 1"}, where="id < 40")
                break
            except OSError as error:
                assert "onflict" in str(error) or "preempted" in str(error), error


def test_no_update_of_either_is_lost(uri, tmp_path): # noqa: F811
    """Both add one to the same rows, again and again."""
    create(uri, few_columns(0).schema, tmp_path)
    append(uri, few_columns(100).set_column(2, "x", pa.array([0.0] * 100)), tmp_path, "--rows-per-file", 30)
    peer = multiprocessing.get_context("spawn").Process(target=pylance_counts, args=(str(uri), 8))
    peer.start()
    mine = 0
    while peer.is_alive():
        mine += update(uri, "id < 60", x="x + 1")["rows_updated"] == 60
    peer.join()
    assert peer.exitcode == 0 and mine > 0
    assert by_id(uri)["x"].to_pylist() == [mine + 8.0] * 40 + [mine + 0.0] * 20 + [0.0] * 40
    assert_reads_alike(uri, tmp_path)


def lake_merges(uri, scratch, seed): # noqa: F811
    rng = random.Random(seed)
    for i in range(8):
        keys = sorted(rng.sample(range(40), 12))
        rows = pa.table({"id": keys, "s": [f"{seed} {i}"] * len(keys), "x": [float(seed)] * len(keys)},
                        schema=few_columns(0).schema)
        source = write_ipc(scratch / f"source{seed}.arrow", rows)
        report("merge", uri, source, "--on", "id")


def test_a_key_that_two_insert_at_once_is_there_once(uri, tmp_path): # noqa: F811
    create(uri, few_columns(0).schema, tmp_path)
    context = multiprocessing.get_context("spawn")
    peers = [context.Process(target=lake_merges, args=(uri, tmp_path, seed)) for seed in range(3)]
    for peer in peers:
        peer.start()
    for peer in peers:
        peer.join()
        assert peer.exitcode == 0
    ids = reference(uri)["id"].to_pylist()
    assert len(ids) == len(set(ids)) > 30
    assert_reads_alike(uri, tmp_path)
