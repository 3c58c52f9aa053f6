"""pylance 14 and our tables, both ways: every type, schema changes, deletes, indices, commits at the same time."""
import datetime
import multiprocessing
import random
import subprocess
import time

import lance
import pyarrow as pa
import pytest

from lance_cases import *  # noqa: F401,F403
from lance_cases import few_columns
from lance_kinds import as_values
from lance_support import (FULL, ROOT, TOOL, ToolError, append, assert_reads_alike, assert_same, create, read_ipc,
                           reference, scan, tool, write_ipc)


def table_of_ours(uri, tmp_path, rows=300, per_file=100):
    create(uri, few_columns(0).schema, tmp_path)
    append(uri, few_columns(rows), tmp_path, "--rows-per-file", per_file)
    return lance.dataset(str(uri))


# -- what pylance can do to our tables --------------------------------------------------------------

def test_columns_added_dropped_renamed_and_cast_read_alike(uri, tmp_path):
    dataset = table_of_ours(uri, tmp_path)
    dataset.add_columns({"y": "id * 2"})
    assert_reads_alike(uri, tmp_path)
    dataset.add_columns(pa.field("z", pa.float32()))
    assert_reads_alike(uri, tmp_path)
    dataset.drop_columns(["x"])
    assert_reads_alike(uri, tmp_path)
    dataset.alter_columns({"path": "s", "name": "str"})
    assert_reads_alike(uri, tmp_path)
    dataset.alter_columns({"path": "y", "data_type": pa.int32()})
    assert_reads_alike(uri, tmp_path)
    rows = reference(uri).slice(0, 20)
    append(uri, rows, tmp_path)
    assert_reads_alike(uri, tmp_path)
    for version in range(1, 8):
        assert_reads_alike(uri, tmp_path, version)


def test_update_merge_compaction_and_restore_read_alike(uri, tmp_path):
    dataset = table_of_ours(uri, tmp_path)
    dataset.update({"s": "'changed'"}, where="id % 50 = 1")
    assert_reads_alike(uri, tmp_path)
    new = few_columns(20, 290)
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)
    assert_reads_alike(uri, tmp_path)
    dataset = lance.dataset(str(uri))
    dataset.optimize.compact_files()
    assert_reads_alike(uri, tmp_path)
    lance.dataset(str(uri), version=2).restore()
    assert_reads_alike(uri, tmp_path)
    append(uri, few_columns(5, 1000), tmp_path)
    assert_reads_alike(uri, tmp_path)


def test_an_index_survives_our_append_and_answers_right(uri, tmp_path):
    dataset = table_of_ours(uri, tmp_path)
    dataset.create_scalar_index("id", "BTREE")
    append(uri, few_columns(50, 300), tmp_path)
    dataset = lance.dataset(str(uri))
    assert [index.name for index in dataset.describe_indices()] == ["id_idx"]
    assert dataset.to_table(filter="id = 320").to_pylist() == few_columns(1, 320).to_pylist()
    assert dataset.to_table(filter="id >= 290 and id < 310").num_rows == 20
    assert "ScalarIndexQuery" in dataset.scanner(filter="id = 5").explain_plan(True)
    dataset.optimize.optimize_indices()
    append(uri, few_columns(50, 350), tmp_path)
    assert lance.dataset(str(uri)).to_table(filter="id in (5, 320, 399)").num_rows == 3


def test_cleanup_by_pylance_leaves_our_latest_version_whole(uri, tmp_path):
    table_of_ours(uri, tmp_path)
    for i in range(5):
        append(uri, few_columns(10, 1000 + i * 10), tmp_path)
    lance.dataset(str(uri)).cleanup_old_versions(datetime.timedelta(0), delete_unverified=True)
    assert tool("versions", uri).split() == ["7"]
    assert_reads_alike(uri, tmp_path)
    append(uri, few_columns(10, 2000), tmp_path)
    assert_reads_alike(uri, tmp_path)


def test_overwrite_config_tags_and_metadata_survive_our_append(uri, tmp_path):
    dataset = table_of_ours(uri, tmp_path)
    lance.write_dataset(few_columns(7), str(uri), mode="overwrite")
    dataset = lance.dataset(str(uri))
    dataset.update_config({"my.key": "my value"})
    dataset.update_metadata({"tbl": "meta"})
    dataset.tags.create("keep", 2)
    append(uri, few_columns(3, 7), tmp_path)
    dataset = lance.dataset(str(uri))
    assert dataset.config()["my.key"] == "my value"
    assert dataset.metadata["tbl"] == "meta"
    assert_same(dataset.to_table(), few_columns(10))
    assert lance.dataset(str(uri), version="keep").count_rows() == 300
    assert_reads_alike(uri, tmp_path)


# -- what we do to pylance's tables -----------------------------------------------------------------

def test_old_manifest_names_are_kept(uri, tmp_path):
    lance.write_dataset(few_columns(10), str(uri), data_storage_version="2.1", enable_v2_manifest_paths=False)
    append(uri, few_columns(10, 10), tmp_path)
    assert sorted(p.name for p in (uri / "_versions").glob("*.manifest")) == ["1.manifest", "2.manifest"]
    lance.write_dataset(few_columns(10, 20), str(uri), mode="append")
    assert_reads_alike(uri, tmp_path)


def test_schema_and_field_metadata_are_read_and_kept(uri, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), False, {"k": "fieldmeta"}), pa.field("s", pa.utf8())],
                       metadata={"schema_key": "schema_val"})
    rows = pa.table({"id": [1, 2], "s": ["a", "b"]}, schema=schema)
    lance.write_dataset(rows, str(uri), data_storage_version="2.1")
    append(uri, rows, tmp_path)
    ours, theirs = scan(uri, tmp_path), reference(uri)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    create(tmp_path / "ours.lance", schema, tmp_path)
    assert lance.dataset(str(tmp_path / "ours.lance")).schema.equals(schema, check_metadata=True)


@pytest.mark.parametrize("how", [
    {"data_storage_version": "2.0"},
    {"data_storage_version": "2.1", "enable_stable_row_ids": True},
    {"data_storage_version": "2.2"},
])
def test_tables_keep_what_they_were_made_with(uri, tmp_path, how):
    lance.write_dataset(few_columns(10), str(uri), **how)
    append(uri, few_columns(10, 10), tmp_path)
    dataset = lance.dataset(str(uri))
    assert dataset.data_storage_version == how["data_storage_version"]
    assert dataset.has_stable_row_ids == how.get("enable_stable_row_ids", False)
    lance.write_dataset(few_columns(10, 20), str(uri), mode="append")
    assert_reads_alike(uri, tmp_path)


def test_transaction_properties_are_seen_both_ways(uri, tmp_path):
    table_of_ours(uri, tmp_path, rows=10)
    append(uri, few_columns(1, 10), tmp_path, "--property", "lake.operation_id=0198")
    assert lance.dataset(str(uri)).read_transaction(3).transaction_properties == {"lake.operation_id": "0198"}
    lance.write_dataset(few_columns(1, 11), str(uri), mode="append", transaction_properties={"who": "them"})
    assert tool("property", uri, "who") == "them"
    assert tool("property", uri, "lake.operation_id", "--version", 3) == "0198"
    assert tool("property", uri, "lake.operation_id") == ""


def test_a_concurrent_overwrite_is_a_conflict_and_a_delete_is_not(uri, tmp_path):
    dataset = table_of_ours(uri, tmp_path)
    dataset.delete("id < 10")
    assert append(uri, few_columns(10, 1000), tmp_path, "--at", 2) == 4
    assert_reads_alike(uri, tmp_path)
    lance.write_dataset(few_columns(5), str(uri), mode="overwrite")
    files = sorted((uri / "data").iterdir())
    with pytest.raises(ToolError, match="CONFLICT.*overwrite"):
        append(uri, few_columns(10, 2000), tmp_path, "--at", 4)
    assert sorted((uri / "data").iterdir()) == files
    assert_same(scan(uri, tmp_path), few_columns(5))


def test_shallow_clones_and_branches_read_alike(uri, tmp_path):
    table_of_ours(uri, tmp_path)
    source = lance.dataset(str(uri))
    source.delete("id % 10 = 3")
    source.tags.create("t", 3)
    clone = tmp_path / "clone.lance"
    source.shallow_clone(str(clone), "t")
    assert_reads_alike(clone, tmp_path)
    append(clone, few_columns(4, 5000), tmp_path)
    assert_reads_alike(clone, tmp_path)
    branch = lance.dataset(str(uri)).create_branch("feat/x", 2)
    lance.write_dataset(few_columns(3, 9000), branch, mode="append")
    ours = scan(uri / "tree/feat/x", tmp_path)
    assert_same(ours, pa.concat_tables([few_columns(300), few_columns(3, 9000)]))
    append(uri / "tree/feat/x", few_columns(2, 9100), tmp_path)
    theirs = lance.dataset(str(uri)).checkout_version(("feat/x", None))
    assert_same(theirs.to_table(), scan(uri / "tree/feat/x", tmp_path))
    assert tool("refs", uri).splitlines() == ["tag t 3", "branch feat/x 2"]


# -- at the same time ---------------------------------------------------------------------------------

def pylance_appends(uri, first, times):
    """pylance gives up a commit that lost its race twenty times and says so; nothing was committed, so it tries again."""
    for i in range(times):
        while True:
            try:
                lance.write_dataset(few_columns(1, first + i), uri, mode="append")
                break
            except OSError as error:
                assert "Commit conflict" in str(error)


def test_appends_of_both_at_the_same_time_are_all_there(uri, tmp_path):
    times = 200 if FULL else 20
    table_of_ours(uri, tmp_path, rows=10)
    workers = []
    for w in range(2):
        rows = write_ipc(tmp_path / f"rows{w}.arrow", few_columns(1, 10**6 * (w + 1)))
        workers.append(subprocess.Popen([TOOL, "append", uri, rows, "--times", str(times)]))
    context = multiprocessing.get_context("spawn")
    peers = [context.Process(target=pylance_appends, args=(str(uri), 10**7 * (w + 1), times)) for w in range(2)]
    for peer in peers:
        peer.start()
    assert [worker.wait(300) for worker in workers] == [0, 0]
    for peer in peers:
        peer.join(300)
        assert peer.exitcode == 0
    ids = sorted(reference(uri)["id"].to_pylist())
    expected = (list(range(10)) + [10**6] * times + [2 * 10**6] * times
                + [10**7 + i for i in range(times)] + [2 * 10**7 + i for i in range(times)])
    assert ids == sorted(expected)
    assert [int(v) for v in tool("versions", uri).split()] == list(range(1, 3 + 4 * times))
    assert_reads_alike(uri, tmp_path)
    fragments = [fragment.fragment_id for fragment in lance.dataset(str(uri)).get_fragments()]
    assert len(fragments) == len(set(fragments))


def test_a_killed_writer_leaves_a_whole_table(uri, tmp_path):
    """kill -9 at any moment: every version is whole, and one more append goes through."""
    table_of_ours(uri, tmp_path, rows=10)
    rows = write_ipc(tmp_path / "one.arrow", few_columns(1, 10**6))
    rng = random.Random(42)
    for _ in range(100 if FULL else 10):
        writer = subprocess.Popen([TOOL, "append", uri, rows, "--times", "1000000"])
        time.sleep(rng.uniform(0.01, 0.2))
        writer.kill()
        writer.wait()
        versions = [int(v) for v in tool("versions", uri).split()]
        assert versions == list(range(1, len(versions) + 1))
        assert lance.dataset(str(uri)).count_rows() == 10 + len(versions) - 2
    assert_reads_alike(uri, tmp_path)
    append(uri, few_columns(1, 10**6), tmp_path)
    assert_reads_alike(uri, tmp_path)


# -- tables kept in the repository ---------------------------------------------------------------------

GOLDEN = ROOT / "tests/golden/lance"


@pytest.mark.parametrize("expected", sorted((GOLDEN / "expected").glob("*.arrow")), ids=lambda path: path.stem)
def test_golden_tables_read_as_the_reference_read_them(expected, tmp_path):
    name, version = expected.stem.split("@")
    rows = as_values(read_ipc(expected))
    ours = scan(GOLDEN / f"{name}.lance", tmp_path, version, row_id=True, options=["--bytes", "--values"])
    assert_same(ours, rows.drop(["_rowaddr"]).select(ours.column_names))
