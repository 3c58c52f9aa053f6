"""What `lake lance` changes in a table and what pylance changes in it, each read by the other; for every release."""
import datetime
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import time

import lance
import pyarrow as pa
import pytest

from lance_cases import few_columns, uri # noqa: F401
from lance_support import FULL, ROOT, ToolError, append, assert_reads_alike, assert_same, create, reference, scan

LAKE = os.environ.get("LAKE_BIN", ROOT / "build/lake")


def lake(*arguments):
    """Runs `lake lance ...` and returns what it printed; ToolError with stderr when it fails."""
    done = subprocess.run([LAKE, "lance", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise ToolError(f"{done.returncode}: {done.stderr.strip()}")
    return done.stdout


def report(*arguments):
    return json.loads(lake(*arguments, "--json"))


def ours(uri, tmp_path, rows=300, per_file=100):
    create(uri, few_columns(0).schema, tmp_path)
    append(uri, few_columns(rows), tmp_path, "--rows-per-file", per_file)


def theirs(uri, tmp_path, rows=300, per_file=100):
    lance.write_dataset(few_columns(0), str(uri), data_storage_version="2.1")
    lance.write_dataset(few_columns(rows), str(uri), mode="append", max_rows_per_file=per_file)


MAKERS = pytest.mark.parametrize("make", [ours, theirs])


# -- tags -------------------------------------------------------------------------------------------------

@MAKERS
def test_tags_of_both_are_read_moved_and_deleted_by_both(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    assert lake("tag", "create", uri, "a.1", "--version", 1) == "created tag a.1: version 1\n"
    dataset = lance.dataset(str(uri))
    dataset.tags.create("b-2", 2)
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == {"a.1": 1, "b-2": 2}
    assert [(tag["name"], tag["version"]) for tag in report("tag", "list", uri)] == [("a.1", 1), ("b-2", 2)]
    assert lance.dataset(str(uri), version="a.1").count_rows() == 0
    assert report("tag", "move", uri, "b-2", "--version", 1) == {"tag": "b-2", "version": 1}
    dataset.tags.update("a.1", 2)
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == {"a.1": 2, "b-2": 1}
    assert [(tag["name"], tag["version"]) for tag in report("tag", "list", uri)] == [("a.1", 2), ("b-2", 1)]
    dataset.tags.delete("b-2")
    lake("tag", "delete", uri, "a.1")
    assert report("tag", "list", uri) == [] and dataset.tags.list() == {}


@MAKERS
def test_versions_say_when_they_were_made(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    theirs = {v["version"]: v["timestamp"] for v in lance.dataset(str(uri)).versions()}
    ours = {v["version"]: datetime.datetime.fromisoformat(v["timestamp"].removesuffix("Z"))
            for v in report("versions", uri, "--times")}
    assert ours.keys() == theirs.keys() and report("versions", uri) == sorted(theirs)
    for version, made in ours.items():
        at = theirs[version].astimezone(datetime.timezone.utc).replace(tzinfo=None)
        assert abs(made - at) < datetime.timedelta(milliseconds=2)


@MAKERS
def test_a_tag_is_made_once(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    lance.dataset(str(uri)).tags.create("t", 1)
    with pytest.raises(ToolError, match="^1: .*a tag t exists already"):
        lake("tag", "create", uri, "t")
    with pytest.raises(ToolError, match="^4: .*there is no tag u"):
        lake("tag", "delete", uri, "u")
    with pytest.raises(ToolError, match="^4: .*no such version"):
        lake("tag", "create", uri, "u", "--version", 9)
    with pytest.raises(ToolError, match="^1: .*a tag's name"):
        lake("tag", "create", uri, "../u")
    lake("tag", "create", uri, "v")
    with pytest.raises(Exception):
        lance.dataset(str(uri)).tags.create("v", 1)


# -- restore ------------------------------------------------------------------------------------------------

@MAKERS
def test_restored_versions_read_alike_and_are_extended_by_both(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    lance.dataset(str(uri)).delete("id % 10 = 3")
    lance.dataset(str(uri)).add_columns({"y": "id * 2"})
    assert report("restore", uri, "--version", 2) == {"version": 5}
    assert_reads_alike(uri, tmp_path)
    assert_same(reference(uri), few_columns(300))
    lance.write_dataset(few_columns(10, 300), str(uri), mode="append")
    append(uri, few_columns(10, 310), tmp_path)
    assert_same(scan(uri, tmp_path), few_columns(320))
    assert_reads_alike(uri, tmp_path)
    ids = [fragment.fragment_id for fragment in lance.dataset(str(uri)).get_fragments()]
    assert len(ids) == len(set(ids))
    lance.dataset(str(uri), version=3).restore()
    assert_reads_alike(uri, tmp_path)
    lake("restore", uri, "--version", 4)
    assert_reads_alike(uri, tmp_path)
    for version in range(1, 10):
        assert_reads_alike(uri, tmp_path, version)


def test_a_restored_version_has_its_index_again(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    lance.dataset(str(uri)).create_scalar_index("id", "BTREE")
    lance.write_dataset(few_columns(5), str(uri), mode="overwrite")
    assert not lance.dataset(str(uri)).list_indices()
    lake("restore", uri, "--version", 3)
    dataset = lance.dataset(str(uri))
    assert len(dataset.list_indices()) == 1
    assert "ScalarIndexQuery" in dataset.scanner(filter="id = 5").explain_plan(True)
    assert_same(dataset.to_table(filter="id = 205"), few_columns(1, 205))


# -- delete -------------------------------------------------------------------------------------------------

def delete(uri, where): # noqa: F811
    return report("delete", uri, "--where", where)


def without(rows, condition):
    """The rows for which a Python condition over a dict does not hold (True); unknown counts as kept."""
    return rows.take(pa.array([i for i, row in enumerate(rows.to_pylist()) if not condition(row)], pa.int64()))


@MAKERS
def test_rows_we_delete_are_gone_for_both(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path, rows=12000, per_file=11000)
    all_rows = few_columns(12000)
    done = delete(uri, "id % 10 = 3") # few of a fragment: an Arrow file
    assert done == {"version": 3, "rows": 1200, "fragments_changed": 2, "fragments_removed": 0}
    left = without(all_rows, lambda row: row["id"] % 10 == 3)
    assert_same(reference(uri), left)
    assert_reads_alike(uri, tmp_path)
    assert delete(uri, "id < 10000 and id % 2 = 0")["rows"] == 5000 # many: a bitmap
    left = without(left, lambda row: row["id"] < 10000 and row["id"] % 2 == 0)
    assert_same(reference(uri), left)
    assert_reads_alike(uri, tmp_path)
    assert {path.suffix for path in (uri / "_deletions").iterdir()} == {".arrow", ".bin"}
    done = delete(uri, "id >= 11000") # the whole second fragment
    assert (done["rows"], done["fragments_changed"], done["fragments_removed"]) == (900, 0, 1)
    assert lance.dataset(str(uri)).count_rows() == left.num_rows - 900
    assert_reads_alike(uri, tmp_path)
    for version in range(1, 6):
        assert_reads_alike(uri, tmp_path, version)
    lance.write_dataset(few_columns(10, 20000), str(uri), mode="append")
    append(uri, few_columns(10, 30000), tmp_path)
    assert_reads_alike(uri, tmp_path)


@MAKERS
def test_deletes_of_both_add_up(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path)
    left = few_columns(300)
    for digit in range(6):
        if digit % 2:
            delete(uri, f"id % 10 = {digit}")
        else:
            lance.dataset(str(uri)).delete(f"id % 10 = {digit}")
        left = without(left, lambda row, digit=digit: row["id"] % 10 == digit)
        assert_same(reference(uri), left)
        assert_reads_alike(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.update({"s": "'new'"}, where="id = 47")
    delete(uri, "s = 'new' or id = 57")
    assert_same(reference(uri), without(left, lambda row: row["id"] in (47, 57)))
    dataset = lance.dataset(str(uri))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(few_columns(20, 290))
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri)).optimize.compact_files()
    delete(uri, "id > 305")
    assert_reads_alike(uri, tmp_path)
    assert sorted(reference(uri)["id"].to_pylist()) == sorted(
        {row for row in left["id"].to_pylist() if row not in (47, 57)} | set(range(290, 306)))


@pytest.mark.parametrize("where,python", [
    ("s IS NULL", lambda row: row["s"] is None),
    ("s LIKE 'row 1%' AND x > 60.5", lambda row: (row["s"] or "").startswith("row 1") and row["x"] > 60.5),
    ("length(s) = 5 OR id IN (1, 2, 3)", lambda row: len(row["s"] or "") == 5 or row["id"] in (1, 2, 3)),
    ("id BETWEEN 90 AND 110 -- a comment", lambda row: 90 <= row["id"] <= 110),
    ("NOT (x < 100 OR s = 'row 299')", lambda row: row["s"] is not None and row["x"] >= 100 and row["s"] != "row 299"),
    ("x = (SELECT max(x) FROM lake.lance.dataset)", lambda row: row["id"] == 299),
    ("s > 'row 2' AND false", lambda row: False),
])
def test_any_condition_may_choose_the_rows(where, python, uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    wanted = without(few_columns(300), python)
    assert delete(uri, where)["rows"] == 300 - wanted.num_rows
    assert_same(reference(uri), wanted)


@pytest.mark.parametrize("where,reason", [
    ("", "^2: .*empty"),
    ("nope = 1", "nope"),
    ("id =", "syntax"),
    ("true) UNION ALL (SELECT 1", "more than a condition|syntax"),
    ("id IN (SELECT id FROM lake.lance.other)", "more than a condition"),
    ("_rowid = 5", "_rowid is not supported"),
    ("1/0", "not boolean"),
    ("id", "not boolean"),
    ("NULL", "not boolean"),
])
def test_what_is_no_condition_deletes_nothing(where, reason, uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    with pytest.raises(ToolError, match=reason):
        lake("delete", uri, "--where", where)
    assert lance.dataset(str(uri)).version == 2


def test_an_index_answers_right_after_our_delete(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    lance.dataset(str(uri)).create_scalar_index("id", "BTREE")
    delete(uri, "id < 100 or id = 205")
    dataset = lance.dataset(str(uri))
    assert dataset.to_table(filter="id in (5, 205, 206)").to_pylist() == few_columns(1, 206).to_pylist()
    assert "ScalarIndexQuery" in dataset.scanner(filter="id = 206").explain_plan(True)


@pytest.mark.parametrize("how", [{"data_storage_version": "2.1", "enable_v2_manifest_paths": False},
                                 {"data_storage_version": "2.2"}])
def test_old_names_and_newer_files_stay_what_they_are(how, uri, tmp_path): # noqa: F811
    lance.write_dataset(few_columns(200), str(uri), max_rows_per_file=100, **how)
    lance.dataset(str(uri)).delete("id % 20 = 5")
    delete(uri, "id % 20 = 6")
    lance.dataset(str(uri)).delete("id % 20 = 7")
    assert_same(reference(uri), without(few_columns(200), lambda row: row["id"] % 20 in (5, 6, 7)))
    lake("restore", uri, "--version", 2)
    assert_same(reference(uri), without(few_columns(200), lambda row: row["id"] % 20 == 5))
    names = sorted(path.name for path in (uri / "_versions").glob("*.manifest"))
    assert len(names) == 5 and ("1.manifest" in names) == (not how.get("enable_v2_manifest_paths", True))
    assert lance.dataset(str(uri)).data_storage_version == how["data_storage_version"]


def test_a_shallow_clone_deletes_without_touching_its_source(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    source = lance.dataset(str(uri))
    source.delete("id % 10 = 3")
    source.tags.create("t", 3)
    clone = tmp_path / "clone.lance"
    source.shallow_clone(str(clone), "t")
    before = sorted(str(path) for path in uri.rglob("*"))
    delete(clone, "id % 10 = 4")
    assert_same(reference(clone), without(few_columns(300), lambda row: row["id"] % 10 in (3, 4)))
    assert_reads_alike(clone, tmp_path)
    assert sorted(str(path) for path in uri.rglob("*")) == before
    delete(clone, "id < 100") # a fragment of the source's that goes
    assert_reads_alike(clone, tmp_path)


def pylance_deletes(uri, digits): # noqa: F811
    for digit in digits:
        lance.dataset(uri).delete(f"id % 20 = {digit}")


def pylance_grows(uri, first, times): # noqa: F811
    for i in range(times):
        lance.write_dataset(few_columns(5, first + i * 5), uri, mode="append")


def test_deletes_and_appends_of_both_at_the_same_time_are_all_done(uri, tmp_path): # noqa: F811
    """Every writer takes rows of the same fragments away; rows of other writers come meanwhile."""
    ours(uri, tmp_path, rows=2000, per_file=500)
    context = multiprocessing.get_context("spawn")
    peers = [context.Process(target=pylance_deletes, args=(str(uri), range(0, 5))),
             context.Process(target=pylance_grows, args=(str(uri), 10**6, 10))]
    for peer in peers:
        peer.start()
    for digit in range(10, 16):
        delete(uri, f"id < 5000 and id % 20 = {digit}")
    for peer in peers:
        peer.join(300)
        assert peer.exitcode == 0
    gone = set(range(0, 5))
    ids = ([i for i in range(2000) if i % 20 not in gone | set(range(10, 16))])
    mine = sorted(i for i in reference(uri)["id"].to_pylist() if i < 5000)
    assert mine == ids
    assert_reads_alike(uri, tmp_path)
    grown = [i for i in reference(uri)["id"].to_pylist() if i >= 10**6]
    assert {i for i in range(10**6, 10**6 + 50) if i % 20 not in gone} <= set(grown)
    versions = sorted(v["version"] for v in lance.dataset(str(uri)).versions())
    assert versions == list(range(1, versions[-1] + 1))


# -- columns ------------------------------------------------------------------------------------------------

NESTED = pa.schema([pa.field("id", pa.int64(), False, {"k": "v"}), pa.field("b", pa.utf8()),
                    pa.field("s", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.utf8())]))],
                   metadata={"m": "n"})


def nested(count, first=0):
    return pa.table({"id": range(first, first + count), "b": [f"b{i}" for i in range(count)],
                     "s": [{"x": i, "y": f"y{i}"} if i % 5 else None for i in range(count)]}, schema=NESTED)


def columns(verb, uri, **options): # noqa: F811
    words = [word for name, value in options.items() for one in (value if isinstance(value, list) else [value])
             for word in (f"--{name}", one)]
    return report("columns", verb, uri, *words)["version"]


@pytest.mark.parametrize("made_by_pylance", [True, False])
def test_columns_we_drop_rename_and_add_read_alike(made_by_pylance, uri, tmp_path): # noqa: F811
    if made_by_pylance:
        lance.write_dataset(nested(100), str(uri), data_storage_version="2.1", max_rows_per_file=40)
    else:
        create(uri, NESTED, tmp_path)
        append(uri, nested(100), tmp_path, "--rows-per-file", 40)
    columns("rename", uri, column="b", to="label")
    columns("rename", uri, column="s.x", to="xx")
    assert_reads_alike(uri, tmp_path)
    assert lance.dataset(str(uri)).schema.names == ["id", "label", "s"]
    assert reference(uri)["label"].to_pylist() == nested(100)["b"].to_pylist()
    assert lance.dataset(str(uri)).schema.field("id").metadata == {b"k": b"v"}
    assert lance.dataset(str(uri)).schema.metadata == {b"m": b"n"}
    columns("drop", uri, column=["s.y", "label"])
    assert_reads_alike(uri, tmp_path)
    columns("add", uri, column=["n:float32", "t:utf8"])
    assert_reads_alike(uri, tmp_path)
    assert reference(uri)["n"].null_count == 100 and lance.dataset(str(uri)).schema.field("n").type == pa.float32()
    dataset = lance.dataset(str(uri))
    rows = dataset.to_table().slice(0, 7)
    lance.write_dataset(rows, str(uri), mode="append")
    append(uri, rows, tmp_path)
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri)).add_columns({"w": "id * 2"})
    assert_reads_alike(uri, tmp_path)
    columns("drop", uri, column=["n", "id"])
    lance.dataset(str(uri)).alter_columns({"path": "w", "data_type": pa.int32()})
    columns("rename", uri, column="w", to="double")
    lance.dataset(str(uri)).drop_columns(["t"])
    assert lance.dataset(str(uri)).schema.names == ["s", "double"]
    for version in range(1, lance.dataset(str(uri)).version + 1):
        assert_reads_alike(uri, tmp_path, version)
    lance.dataset(str(uri)).optimize.compact_files()
    assert_reads_alike(uri, tmp_path)


def test_an_index_goes_with_its_column_and_stays_with_a_new_name(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("x", "BTREE")
    columns("rename", uri, column="id", to="key")
    columns("drop", uri, column="x")
    dataset = lance.dataset(str(uri))
    assert [index["fields"] for index in dataset.list_indices()] == [["key"]]
    assert "ScalarIndexQuery" in dataset.scanner(filter="key = 205").explain_plan(True)
    assert dataset.to_table(filter="key = 205").num_rows == 1


def test_rows_are_read_when_every_file_of_a_fragment_is_dropped(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    columns("add", uri, column="extra:int64")
    columns("drop", uri, column=["id", "s", "x"])
    assert reference(uri)["extra"].to_pylist() == [None] * 300
    assert_reads_alike(uri, tmp_path)


@pytest.mark.parametrize("words,reason", [
    (["drop", "--column", "nope"], "^4: .*there is no column nope"),
    (["drop", "--column", "s.x", "--column", "s.y"], "would be left without fields"),
    (["drop", "--column", "id", "--column", "b", "--column", "s"], "at least one column"),
    (["rename", "--column", "b", "--to", "id"], "there is a column id already"),
    (["rename", "--column", "s.", "--to", "z"], "there is no column s[.]"),
    (["rename", "--column", "b.c", "--to", "z"], "there is no column b.c"),
    (["add", "--column", "b:int8"], "there is a column b already"),
    (["add", "--column", "c:nonsense"], "nonsense"),
])
def test_an_edit_that_makes_no_sense_is_refused(words, reason, uri, tmp_path): # noqa: F811
    create(uri, NESTED, tmp_path)
    with pytest.raises(ToolError, match=reason):
        lake("columns", words[0], uri, *words[1:])
    assert lance.dataset(str(uri)).version == 1


def pylance_renames(uri, times): # noqa: F811
    for i in range(times):
        lance.dataset(uri).alter_columns({"path": "s" if i == 0 else f"s{i - 1}", "name": f"s{i}"})


def test_edits_of_both_at_the_same_time_are_all_done(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    context = multiprocessing.get_context("spawn")
    peers = [context.Process(target=pylance_renames, args=(str(uri), 5)),
             context.Process(target=pylance_grows, args=(str(uri), 10**6, 8))]
    for peer in peers:
        peer.start()
    for i in range(5):
        columns("rename", uri, column="x" if i == 0 else f"x{i - 1}", to=f"x{i}")
    for peer in peers:
        peer.join(300)
    assert lance.dataset(str(uri)).schema.names[2] == "x4"
    assert_reads_alike(uri, tmp_path)
    versions = sorted(v["version"] for v in lance.dataset(str(uri)).versions())
    assert versions == list(range(1, versions[-1] + 1))


# -- cleanup ------------------------------------------------------------------------------------------------

def files(uri): # noqa: F811
    return {str(path.relative_to(uri)) for path in uri.rglob("*")
            if path.is_file() and path.name != "latest_version_hint.json"}


def many_changes(uri, tmp_path): # noqa: F811
    """Versions of ours and of pylance's, with an index, deletes of both, a cast and a compaction."""
    ours(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id % 10 = 3")
    delete(uri, "id % 10 = 4")
    lance.dataset(str(uri)).add_columns({"y": "id * 2"})
    lance.dataset(str(uri)).alter_columns({"path": "y", "data_type": pa.int32()})
    append(uri, lance.dataset(str(uri)).to_table().slice(0, 5), tmp_path)
    lance.dataset(str(uri)).update({"s": "'changed'"}, where="id = 150")
    columns("drop", uri, column="x")
    lance.dataset(str(uri)).optimize.compact_files()


def test_a_cleanup_leaves_what_the_reference_would(uri, tmp_path): # noqa: F811
    many_changes(uri, tmp_path)
    rows = reference(uri)
    before = files(uri)
    other = tmp_path / "other.lance"
    shutil.copytree(uri, other)
    lance.dataset(str(other)).cleanup_old_versions(datetime.timedelta(0), delete_unverified=False)
    done = report("cleanup", uri, "--retain", 1)
    assert done["versions"] == lance.dataset(str(uri)).version and done["versions_removed"] == done["versions"] - 1
    assert done["versions_named"] == 0
    assert files(uri) == files(other)
    assert done["files_removed"] > 10 and len(before) > len(files(uri))
    assert_same(reference(uri), rows)
    assert_reads_alike(uri, tmp_path)
    assert lance.dataset(str(uri)).to_table(filter="id = 5").num_rows == 2
    lance.write_dataset(rows.slice(0, 3), str(uri), mode="append")
    append(uri, rows.slice(0, 3), tmp_path)
    assert_reads_alike(uri, tmp_path)


def test_tags_and_branches_keep_their_versions_whole(uri, tmp_path): # noqa: F811
    many_changes(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.tags.create("t", 3)
    lake("tag", "create", uri, "u", "--version", 5)
    branch = dataset.create_branch("feat/x", 4)
    lance.write_dataset(branch.to_table().slice(0, 3), branch, mode="append")
    expected = {version: reference(uri, version) for version in (3, 4, 5)}
    on_branch = scan(uri / "tree/feat/x", tmp_path)
    would = report("cleanup", uri, "--retain", 2, "--dry-run")
    done = report("cleanup", uri, "--retain", 2)
    assert would == done and done["versions_named"] == 3
    for version, rows in expected.items():
        assert_same(reference(uri, version), rows)
        assert_reads_alike(uri, tmp_path, version)
    assert_same(lance.dataset(str(uri)).checkout_version(("feat/x", None)).to_table(), on_branch)
    with pytest.raises(ToolError, match="branch feat/x"):
        lake("cleanup", uri / "tree/feat/x", "--retain", 1)
    kept = sorted(v["version"] for v in lance.dataset(str(uri)).versions())
    assert kept[:3] == [3, 4, 5] and len(kept) == 5
    lance.dataset(str(uri)).cleanup_old_versions(datetime.timedelta(0), error_if_tagged_old_versions=False)
    assert_reads_alike(uri, tmp_path)


def test_young_versions_and_files_stay(uri, tmp_path): # noqa: F811
    many_changes(uri, tmp_path)
    (uri / "data/young.lance").write_bytes(b"somebody is writing")
    before = files(uri)
    assert report("cleanup", uri)["versions_removed"] == 0
    assert report("cleanup", uri, "--older-than", "1h", "--retain", 1)["versions_removed"] == 0
    assert files(uri) == before
    report("cleanup", uri, "--retain", 1)
    assert "data/young.lance" in files(uri)
    week_ago = time.time() - 7 * 24 * 3600 - 60
    os.utime(uri / "data/young.lance", (week_ago, week_ago))
    assert report("cleanup", uri, "--retain", 1)["files_removed"] == 1
    with pytest.raises(ToolError, match="^2: .*a duration"):
        lake("cleanup", uri, "--older-than", "1y")


def test_a_clone_is_cleaned_without_its_source(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    lance.dataset(str(uri)).delete("id % 10 = 3")
    lance.dataset(str(uri)).tags.create("t", 3)
    clone = tmp_path / "clone.lance"
    lance.dataset(str(uri)).shallow_clone(str(clone), "t")
    before = files(uri)
    delete(clone, "id % 10 = 4")
    delete(clone, "id % 10 = 5")
    report("cleanup", clone, "--retain", 1, "--delete-unverified")
    assert files(uri) == before
    assert_same(reference(clone), without(few_columns(300), lambda row: row["id"] % 10 in (3, 4, 5)))
    assert_reads_alike(clone, tmp_path)


def test_a_killed_cleanup_leaves_whole_versions_and_the_next_one_ends_it(uri, tmp_path): # noqa: F811
    for number in range(100 if FULL else 8):
        place = uri / str(number)
        create(place, few_columns(0).schema, tmp_path)
        for i in range(60):
            lance.write_dataset(few_columns(3, i * 3), str(place), mode="append")
        delete(place, "id < 30")
        process = subprocess.Popen([LAKE, "lance", "cleanup", place, "--retain", "3"], stdout=subprocess.DEVNULL)
        time.sleep(random.Random(number).uniform(0.0, 0.15))
        process.kill()
        process.wait()
        for version in lance.dataset(str(place)).versions()[::7]:
            assert_reads_alike(place, tmp_path, version["version"])
        report("cleanup", place, "--retain", 3)
        assert len(lance.dataset(str(place)).versions()) == 3
        left = [name for name in files(place) if ".tmp" in name]
        assert len(left) <= 1 and not [name for name in left if "removed" in name or "cleanup" in name]
        report("cleanup", place, "--retain", 3, "--delete-unverified")
        assert not [name for name in files(place) if ".tmp" in name]
        assert len([name for name in files(place) if name.startswith("data/")]) == 60
        assert_reads_alike(place, tmp_path)


# -- compaction ---------------------------------------------------------------------------------------------

def fragment_rows(uri): # noqa: F811
    return [fragment.count_rows() for fragment in lance.dataset(str(uri)).get_fragments()]


@MAKERS
def test_compacted_rows_are_the_same_for_both(make, uri, tmp_path): # noqa: F811
    make(uri, tmp_path, rows=1000, per_file=100)
    delete(uri, "id % 10 = 3")
    lance.dataset(str(uri)).delete("id >= 500 and id < 560")
    lance.write_dataset(few_columns(7, 5000), str(uri), mode="append")
    append(uri, few_columns(7, 6000), tmp_path)
    before = reference(uri)
    done = report("compact", uri, "--target-rows", 400)
    assert (done["fragments_before"], done["rows"]) == (12, before.num_rows)
    assert done["deleted_rows_dropped"] == 100 + 54
    assert fragment_rows(uri) == [360, 396, 104] and done["fragments_after"] == 3
    assert_same(reference(uri), before)
    assert_reads_alike(uri, tmp_path)
    assert report("compact", uri, "--target-rows", 400)["versions"] == 0
    lance.dataset(str(uri)).optimize.compact_files(target_rows_per_fragment=1000)
    assert_same(reference(uri), before)
    delete(uri, "id = 5001")
    lance.dataset(str(uri)).update({"s": "'x'"}, where="id = 5002")
    report("compact", uri)
    assert reference(uri).num_rows == before.num_rows - 1
    assert_reads_alike(uri, tmp_path)
    for version in range(2, lance.dataset(str(uri)).version + 1):
        assert_reads_alike(uri, tmp_path, version)


def test_indices_answer_right_after_our_compaction(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path, rows=900, per_file=100)
    dataset = lance.dataset(str(uri))
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    delete(uri, "id < 50")
    report("compact", uri, "--target-rows", 500)
    append(uri, few_columns(10, 900), tmp_path)
    for condition, count in [("id = 5", 0), ("id = 55", 1), ("id in (120, 450, 905)", 3), ("s = 'row 57'", 1),
                             ("id >= 440 and id < 460", 20), ("s = 'row 856'", 1)]:
        assert lance.dataset(str(uri)).to_table(filter=condition).num_rows == count, condition
    lance.dataset(str(uri)).optimize.optimize_indices()
    for condition, count in [("id = 55", 1), ("id in (120, 450, 905)", 3), ("id >= 440 and id < 460", 20)]:
        assert lance.dataset(str(uri)).to_table(filter=condition).num_rows == count, condition


def test_changed_columns_are_compacted(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.add_columns({"y": "id * 2"})
    dataset.alter_columns({"path": "y", "data_type": pa.int32()})
    columns("add", uri, column="n:float32")
    columns("drop", uri, column="s")
    columns("rename", uri, column="x", to="half")
    before = reference(uri)
    assert report("compact", uri)["fragments_after"] == 1
    assert_same(reference(uri), before)
    assert_reads_alike(uri, tmp_path)
    assert len(lance.dataset(str(uri)).get_fragments()[0].data_files()) == 1


def test_a_clone_is_compacted_into_files_of_its_own(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path)
    lance.dataset(str(uri)).tags.create("t", 2)
    clone = tmp_path / "clone.lance"
    lance.dataset(str(uri)).shallow_clone(str(clone), "t")
    before = files(uri)
    assert report("compact", clone)["fragments_after"] == 1
    assert files(uri) == before and len(list((clone / "data").iterdir())) == 1
    assert_same(reference(clone), few_columns(300))
    assert_reads_alike(clone, tmp_path)


def test_compaction_beside_writers_loses_nothing(uri, tmp_path): # noqa: F811
    ours(uri, tmp_path, rows=400, per_file=20)
    context = multiprocessing.get_context("spawn")
    peers = [context.Process(target=pylance_grows, args=(str(uri), 10**6, 15)),
             context.Process(target=pylance_deletes, args=(str(uri), range(0, 4)))]
    for peer in peers:
        peer.start()
    while any(peer.is_alive() for peer in peers):
        try:
            report("compact", uri, "--target-rows", 100)
        except ToolError as error: # a fragment that was deleted from meanwhile: the next try takes it
            assert "changed meanwhile" in str(error)
    for peer in peers:
        peer.join()
        assert peer.exitcode == 0
    report("compact", uri, "--target-rows", 100)
    ids = reference(uri)["id"].to_pylist()
    assert [i for i in ids if i < 400] == [i for i in range(400) if i % 20 > 3]
    assert {i for i in range(10**6, 10**6 + 75) if i % 20 > 3} <= set(ids) and len(ids) == len(set(ids))
    assert_reads_alike(uri, tmp_path)
    versions = sorted(v["version"] for v in lance.dataset(str(uri)).versions())
    assert versions == list(range(1, versions[-1] + 1))
