"""Tables as pylance leaves them after everything it can do to one: every version read with the same values, row ids,
addresses, offsets and row versions."""
import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import DatasetBasePath

from lance_change_cases import lake, report
from lance_row_cases import META, assert_rows_alike, ours, theirs, with_nullable
from lance_support import FULL, ToolError, append, assert_same, read_ipc, tool, write_ipc

VERSIONS = ["2.0", "2.1", "2.2"]


def base(count=100, first=0):
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "x": ids * .5,
                     "s": pa.array([None if i % 7 == 0 else f"val-{i}" for i in ids], pa.utf8())})


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def check_all(uri, scratch):
    """Every version there is, one after the other."""
    numbers = [version["version"] for version in lance.dataset(uri).versions()]
    assert tool("versions", uri).split() == [str(number) for number in numbers]
    for number in numbers:
        assert_rows_alike(uri, scratch, number)
    return len(numbers)


@pytest.mark.parametrize("file_version", VERSIONS)
def test_a_table_is_read_at_every_version_of_its_life(file_version, uri, tmp_path):
    lance.write_dataset(base(), uri, data_storage_version=file_version, max_rows_per_file=40)
    lance.write_dataset(base(50, 100), uri, mode="append")
    lance.dataset(uri).delete("id % 10 = 3")
    lance.dataset(uri).add_columns({"y": "id * 2"})
    lance.dataset(uri).add_columns(pa.field("z", pa.float32()))
    lance.dataset(uri).drop_columns(["x"])
    lance.dataset(uri).alter_columns({"path": "s", "name": "str"})
    lance.dataset(uri).alter_columns({"path": "y", "data_type": pa.int32()})
    lance.dataset(uri).update({"str": "'updated'"}, where="id = 5")
    lance.dataset(uri).tags.create("release-1", 2)
    names = lance.dataset(uri).schema.names
    more = pa.table({"id": [7, 1000], "str": ["merged", "inserted"], "z": pa.array([1.5, 2.5], pa.float32()),
                     "y": pa.array([1, 2], pa.int32())}).select(names)
    merge = lance.dataset(uri).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(more)
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri, version=2).restore()
    assert check_all(uri, tmp_path) >= 12
    assert "tag release-1 2" in tool("refs", uri)


def test_deletions_are_read_as_arrays_bitmaps_and_fragments_that_are_gone(uri, tmp_path):
    lance.write_dataset(base(20000), uri, max_rows_per_file=12000)
    for where in ("id = 7", "id % 2 = 0", "id < 11000", "id < 12000", "true"):
        lance.dataset(uri).delete(where)
    assert check_all(uri, tmp_path) == 6
    assert lance.dataset(uri).count_rows() == 0


@pytest.mark.parametrize("file_version", VERSIONS)
def test_stable_row_ids_are_read_through_deletes_updates_merges_and_compactions(file_version, uri, tmp_path):
    lance.write_dataset(base(60), uri, enable_stable_row_ids=True, max_rows_per_file=25,
                        data_storage_version=file_version)
    lance.dataset(uri).delete("id % 5 = 0")
    lance.dataset(uri).update({"s": "'u'"}, where="id in (1, 2, 31)")
    lance.write_dataset(base(10, 500), uri, mode="append")
    merge = lance.dataset(uri).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(base(20, 490))
    lance.dataset(uri).add_columns({"y": "id * 2"})
    lance.dataset(uri).alter_columns({"path": "y", "data_type": pa.int32()})
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).update({"s": "'again'"}, where="id % 3 = 1")
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri, version=4).restore()
    assert check_all(uri, tmp_path) >= 11


def test_stable_row_ids_of_many_kinds_of_sequences_are_read(uri, tmp_path):
    """Ranges, ranges with holes, bitmaps, arrays: compaction makes each of them out of what was deleted and moved."""
    rng = np.random.default_rng(1)
    lance.write_dataset(base(9000), uri, enable_stable_row_ids=True, max_rows_per_file=3000)
    keep = {1: "id % 97 = 0", 2: "id % 2 = 1 AND id < 4000", 3: "id > 4000 AND id % 16 != 0 AND id < 8000"}
    for where in keep.values():
        lance.dataset(uri).delete(where)
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=4000)
        assert_rows_alike(uri, tmp_path)
    some = rng.choice(9000, 600, replace=False)
    merge = lance.dataset(uri).merge_insert("id")
    shuffled = base(9000).take(pa.array(rng.permutation(some)))
    merge.when_matched_update_all().when_not_matched_insert_all().execute(shuffled)
    assert_rows_alike(uri, tmp_path)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100000)
    table = assert_rows_alike(uri, tmp_path)
    ids, addresses = table["_rowid"].to_pylist(), table["_rowaddr"].to_pylist()
    at = list(range(0, len(ids), 7))
    found = tool("find", uri, ",".join(str(ids[i]) for i in at)).split()
    assert found == [str(addresses[i]) for i in at]


def test_row_ids_that_were_spilled_into_hidden_columns_are_read(uri, tmp_path):
    lance.write_dataset(base(3000), uri, enable_stable_row_ids=True, max_rows_per_file=1000)
    lance.dataset(uri).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "0"})
    lance.dataset(uri).update({"s": "'u'"}, where="id % 3 = 1")
    lance.dataset(uri).delete("id % 11 = 4")
    lance.dataset(uri).optimize.compact_files()
    fragments = lance.dataset(uri).get_fragments()
    fields = {field for one in fragments for file in one.metadata.files for field in file.fields}
    assert {-3, -4, -5} <= fields
    append(uri, base(40, 3000), tmp_path)
    lake("delete", uri, "--where", "id % 13 = 2")
    lake("columns", "drop", uri, "--column", "x")
    assert_rows_alike(uri, tmp_path)
    lake("columns", "add", uri, "--column", "w:int8")
    lance.dataset(uri).update({"s": "'v'"}, where="id % 17 = 1")
    assert check_all(uri, tmp_path) >= 8


def test_fragments_of_several_file_versions_are_read_in_one_table(uri, tmp_path):
    lance.write_dataset(base(20), uri, data_storage_version="2.1")
    for number, file_version in enumerate(VERSIONS, 1):
        lance.write_dataset(base(20, 20 * number), uri, mode="append", data_storage_version=file_version)
    append(uri, base(20, 80), tmp_path)
    lake("delete", uri, "--where", "id % 7 = 3")
    lake("columns", "rename", uri, "--column", "s", "--to", "text")
    lance.write_dataset(base(20, 100).rename_columns(["id", "x", "text"]), uri, mode="append",
                        data_storage_version="2.2")
    check_all(uri, tmp_path)
    minors = [one.metadata.files[0].file_minor_version for one in lance.dataset(uri).get_fragments()]
    assert minors[2:4] == [1, 2] and minors[-2:] == [1, 2] and len(set(minors)) == 3
    assert tool("flags", uri).split() == ["257", "257"]


def test_manifests_of_the_first_naming_scheme_are_read_and_extended(uri, tmp_path):
    lance.write_dataset(base(10), uri, enable_v2_manifest_paths=False)
    lance.write_dataset(base(5, 10), uri, mode="append")
    append(uri, base(5, 15), tmp_path)
    assert_same(ours(uri, tmp_path).select(["id", "x", "s"]), base(20))
    assert sorted(path.name for path in (tmp_path / "t.lance/_versions").glob("*.manifest")) == [
        "1.manifest", "2.manifest", "3.manifest"]
    check_all(uri, tmp_path)


def test_configuration_metadata_and_messages_survive_our_commits(uri, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), False, {"k": "field"}), pa.field("s", pa.utf8())],
                       metadata={"schema_key": "schema_value"})
    lance.write_dataset(pa.table({"id": [1, 2], "s": ["a", "b"]}, schema=schema), uri, commit_message="hello",
                        auto_cleanup_options={"interval": 20, "older_than_seconds": 1209600})
    lance.dataset(uri).update_config({"my.key": "my value"})
    lance.dataset(uri).update_metadata({"tbl": "meta"})
    before = lance.dataset(uri)
    append(uri, pa.table({"id": [3], "s": ["c"]}, schema=schema), tmp_path)
    lake("delete", uri, "--where", "id = 1")
    after = lance.dataset(uri)
    assert after.config() == before.config() and after.config()["my.key"] == "my value"
    assert after.metadata == before.metadata and after.schema.equals(before.schema, check_metadata=True)
    check_all(uri, tmp_path)


def test_branches_are_read_beside_main(uri, tmp_path):
    lance.write_dataset(base(10), uri)
    dataset = lance.write_dataset(base(10, 10), uri, mode="append")
    branch = dataset.create_branch("exp", 1)
    lance.write_dataset(base(3, 90), branch, mode="append")
    nested = dataset.create_branch("feat/x", 2)
    nested.delete("id < 5")
    check_all(uri, tmp_path)
    for name, branch_uri in (("exp", f"{uri}/tree/exp"), ("feat/x", f"{uri}/tree/feat/x")):
        expected = with_nullable(theirs(lance.dataset(uri).checkout_version((name, None))))
        assert_same(with_nullable(ours(branch_uri, tmp_path)), expected)
        out = tmp_path / "branch.arrow"
        lake("scan", f"{uri}?branch={name}", "-o", out)
        assert_same(with_nullable(read_ipc(out)), expected.select(["id", "x", "s"]))
        info = report("info", f"{uri}?branch={name}")
        assert info["branch"] == name and info["stable_row_ids"] is False and info["rows"] == expected.num_rows
    with pytest.raises(ToolError, match="there is no branch nope"):
        lake("info", f"{uri}?branch=nope")
    append(f"{uri}/tree/exp", base(2, 95), tmp_path)
    expected = lance.dataset(uri).checkout_version(("exp", None)).to_table()
    assert expected["id"].to_pylist() == list(range(10)) + [90, 91, 92, 95, 96]


def test_shallow_clones_are_read_changed_and_leave_their_source_alone(uri, tmp_path):
    lance.write_dataset(base(10), uri)
    source = lance.write_dataset(base(10, 10), uri, mode="append", max_rows_per_file=5)
    source.delete("id in (3, 12)")
    source = lance.dataset(uri)
    source.tags.create("t", 3)
    clone = str(tmp_path / "clone.lance")
    lance.write_dataset(base(4, 50), source.shallow_clone(clone, "t"), mode="append")
    check_all(clone, tmp_path)
    append(clone, base(4, 60), tmp_path)
    lake("delete", clone, "--where", "id in (4, 12, 51, 61)")
    lance.dataset(clone).delete("id = 13")
    check_all(clone, tmp_path)
    assert set(lance.dataset(clone).to_table()["id"].to_pylist()) == (
        set(range(20)) | set(range(50, 54)) | set(range(60, 64))) - {3, 12, 4, 51, 61, 13}
    assert lance.dataset(uri).version == 3 and lance.dataset(uri).count_rows() == 18


def test_tables_over_several_bases_are_read_and_changed(uri, tmp_path):
    bases = [DatasetBasePath(str(tmp_path / "plain"), "plain", is_dataset_root=False),
             DatasetBasePath(str(tmp_path / "root"), "root", is_dataset_root=True)]
    lance.write_dataset(base(60), uri, initial_bases=bases, target_bases=["plain", "root"], max_rows_per_file=10)
    lance.write_dataset(base(10, 60), uri, mode="append", target_bases=["root"])
    lance.dataset(uri).delete("id % 7 = 1")
    append(uri, base(10, 70), tmp_path)
    lake("delete", uri, "--where", "id % 7 = 2")
    check_all(uri, tmp_path)
    lance.dataset(uri).optimize.compact_files()
    check_all(uri, tmp_path)


def test_tables_with_indices_keep_them_through_our_commits(uri, tmp_path):
    count = np.arange(3000)
    rows = pa.table({"a": count % 500, "b": [["x", "y", None][i % 3] for i in count], "z": count,
                     "f": pa.array([None if i % 50 == 0 else float(i) for i in count])})
    dataset = lance.write_dataset(rows, uri, max_rows_per_file=1000)
    for column, kind in (("a", "BTREE"), ("b", "BITMAP"), ("z", "ZONEMAP"), ("f", "BTREE")):
        dataset.create_scalar_index(column, kind)
    more = pa.table({"a": np.arange(10), "b": ["x"] * 10, "z": np.arange(3000, 3010), "f": pa.array([1.] * 10)})
    lance.write_dataset(more, uri, mode="append")
    append(uri, more, tmp_path)
    check_all(uri, tmp_path)
    assert lance.dataset(uri).count_rows("a = 3") == 6 + 2 and lance.dataset(uri).count_rows("f = 1.0") == 21


def test_a_table_that_never_reuses_field_ids_gets_new_ones_from_us(uri, tmp_path):
    lance.write_dataset(base(10), uri)
    lance.dataset(uri).drop_columns(["s"])
    lake("columns", "add", uri, "--column", "t:utf8")
    lake("columns", "drop", uri, "--column", "t")
    lake("columns", "add", uri, "--column", "u:int32")
    check_all(uri, tmp_path)
    assert lance.dataset(uri).to_table()["u"].null_count == 10


@pytest.mark.parametrize("made_by", ["ours", "theirs"])
def test_stable_row_ids_survive_columns_and_restores_by_us(made_by, uri, tmp_path):
    if made_by == "ours":
        tool("create", uri, write_ipc(tmp_path / "s.arrow", base(0)), "--stable-row-ids")
    else:
        lance.write_dataset(base(0), uri, enable_stable_row_ids=True, data_storage_version="2.1")
    append(uri, base(30), tmp_path, "--rows-per-file", 12)
    ids = dict(zip(*(ours(uri, tmp_path)[name].to_pylist() for name in ("id", "_rowid"))))
    assert sorted(ids.values()) == list(range(30))
    lake("columns", "drop", uri, "--column", "x")
    lake("columns", "rename", uri, "--column", "s", "--to", "text")
    lake("delete", uri, "--where", "id = 3")
    lance.dataset(uri).update({"text": "'u'"}, where="id = 4")
    lake("restore", uri, "--version", 2)
    append(uri, base(5, 30), tmp_path)
    lance.write_dataset(base(5, 35), uri, mode="append")
    check_all(uri, tmp_path)
    now = dict(zip(*(ours(uri, tmp_path)[name].to_pylist() for name in ("id", "_rowid"))))
    assert {key: now[key] for key in ids} == ids and len(set(now.values())) == 40 and min(set(now) - set(ids)) == 30
    assert lance.dataset(uri).has_stable_row_ids


def test_meta_columns_come_alone_in_our_order_and_by_the_command_line(uri, tmp_path):
    lance.write_dataset(base(50), uri, enable_stable_row_ids=True, max_rows_per_file=20)
    lance.dataset(uri).delete("id % 4 = 1")
    lance.dataset(uri).update({"s": "'u'"}, where="id = 20")
    out = tmp_path / "cli.arrow"
    lake("scan", uri, "--columns", "id", "--with-row-id", "--with-row-address", "--with-row-offset",
         "--with-row-versions", "-o", out)
    assert_same(with_nullable(read_ipc(out)), with_nullable(theirs(lance.dataset(uri)).select(["id"] + META)))


def test_columns_that_we_cast_or_compute_change_their_rows_as_the_references_do(tmp_path):
    tables = [str(tmp_path / name) for name in ("ours.lance", "theirs.lance")]
    for uri in tables:
        lance.write_dataset(base(60), uri, enable_stable_row_ids=True, max_rows_per_file=25,
                            data_storage_version="2.1")
        lance.dataset(uri).update({"s": "'u'"}, where="id = 4")
        lance.dataset(uri).delete("id % 9 = 5")
    lake("columns", "cast", tables[0], "--column", "id", "--to", "int32")
    lance.dataset(tables[1]).alter_columns({"path": "id", "data_type": pa.int32()})
    assert_same(ours(tables[0], tmp_path), ours(tables[1], tmp_path))
    lake("columns", "add", tables[0], "--column", "y:float64?", "--value", "x * 2")
    lance.dataset(tables[1]).add_columns({"y": "x * 2"})
    lake("columns", "add", tables[0], "--column", "z:int8")
    lance.dataset(tables[1]).add_columns(pa.field("z", pa.int8()))
    for uri in tables:
        lance.dataset(uri).drop_columns(["x"])
        check_all(uri, tmp_path)
    assert_same(with_nullable(ours(tables[0], tmp_path)), with_nullable(ours(tables[1], tmp_path)))


@pytest.mark.parametrize("stable", [False, True])
def test_filters_through_indices_find_rows_that_moved(stable, uri, tmp_path):
    lance.write_dataset(base(900), uri, enable_stable_row_ids=stable, max_rows_per_file=300,
                        data_storage_version="2.1")
    for column, kind in (("id", "BTREE"), ("s", "BITMAP"), ("x", "ZONEMAP")):
        lance.dataset(uri).create_scalar_index(column, kind)
    steps = [
        lambda: lance.dataset(uri).update({"s": "'u'"}, where="id % 50 = 3"),
        lambda: lake("update", uri, "--set", "s='v'", "--where", "id % 60 = 7"),
        lambda: lake("delete", uri, "--where", "id % 70 = 11"),
        lambda: append(uri, base(20, 900), tmp_path),
        lambda: lake("compact", uri, "--target-rows", 400),
        lambda: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=2000),
        lambda: lance.dataset(uri).update({"x": "x + 0.5"}, where="id > 700"),
    ]
    out = tmp_path / "filtered.arrow"
    wheres = ["id = 3", "id IN (7, 13, 53, 67, 905)", "s = 'u'", "x > 349.0 AND x < 352.0", "s = 'v'", "id >= 880",
              "s IS NULL AND id < 60"]
    for number, step in enumerate(steps):
        step()
        for where in wheres if FULL else [wheres[(number * 3 + i) % 7] for i in range(3)]:
            lake("scan", uri, "--filter", where, "--with-row-id", "-o", out)
            expected = lance.dataset(uri).scanner(filter=where, with_row_id=True, use_scalar_index=False,
                                                  scan_in_order=True).to_table()
            assert sorted(read_ipc(out).to_pylist(), key=lambda row: row["id"]) == sorted(
                expected.to_pylist(), key=lambda row: row["id"]), where
            indexed = lance.dataset(uri).scanner(filter=where, with_row_id=True).to_table()
            assert sorted(indexed["_rowid"].to_pylist()) == sorted(expected["_rowid"].to_pylist()), where


def test_indices_of_a_clone_lie_in_its_source(uri, tmp_path):
    source = lance.write_dataset(base(300), uri, max_rows_per_file=100, data_storage_version="2.1")
    source.create_scalar_index("id", "BTREE")
    source = lance.dataset(uri)
    source.tags.create("t", source.version)
    clone = str(tmp_path / "clone.lance")
    lance.write_dataset(base(10, 300), source.shallow_clone(clone, "t"), mode="append")
    lake("delete", clone, "--where", "id % 7 = 1")
    out = tmp_path / "filtered.arrow"
    for where in ("id = 50", "id IN (3, 4, 5, 305)", "id > 290"):
        lake("scan", clone, "--filter", where, "-o", out)
        assert_same(with_nullable(read_ipc(out)), with_nullable(lance.dataset(clone).to_table(filter=where)))
