"""What `lake lance` changes in a table and what pylance changes in it, each read by the other; for every release."""
import json
import os
import subprocess

import lance
import pyarrow as pa
import pytest

from lance_cases import few_columns, uri # noqa: F401
from lance_support import ROOT, ToolError, append, assert_reads_alike, assert_same, create, reference, scan

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
    lake("tag", "create", uri, "a.1", "--version", 1)
    dataset = lance.dataset(str(uri))
    dataset.tags.create("b-2", 2)
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == {"a.1": 1, "b-2": 2}
    assert [(tag["name"], tag["version"]) for tag in report("tag", "list", uri)] == [("a.1", 1), ("b-2", 2)]
    assert lance.dataset(str(uri), version="a.1").count_rows() == 0
    lake("tag", "move", uri, "b-2", "--version", 1)
    dataset.tags.update("a.1", 2)
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == {"a.1": 2, "b-2": 1}
    assert [(tag["name"], tag["version"]) for tag in report("tag", "list", uri)] == [("a.1", 2), ("b-2", 1)]
    dataset.tags.delete("b-2")
    lake("tag", "delete", uri, "a.1")
    assert report("tag", "list", uri) == [] and dataset.tags.list() == {}


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
