"""Every kind of column in files of every version: what pylance writes we read, what we write it reads, what it refuses we
refuse."""
import lance
import pytest

from lance_catalog import CATALOG, table
from lance_support import FULL, ToolError, append, create, scan

VERSIONS = ["2.0", "2.1", "2.2"]
SLOW = {"list_very_long", "text_60k", "binary_60k", "text_4k", "vector_half", "vector_768_item_nulls"}


def accepted(version, count, scratch, slow=False):
    """The columns that pylance writes at all."""
    found = []
    for name in CATALOG:
        if slow or name not in SLOW:
            try:
                lance.write_dataset(table([name], count), str(scratch / "try.lance"), mode="overwrite",
                                    data_storage_version=version)
                found.append(name)
            except BaseException as refused: # it panics, too
                assert "Panic" in type(refused).__name__ or isinstance(refused, Exception)
    return found


def as_pylance_reads(uri):
    """Blobs as their bytes; dictionaries are alike by value."""
    return lance.dataset(str(uri)).to_table(blob_handling="all_binary")


def assert_alike(actual, expected):
    assert [field.type for field in actual.schema] == [field.type for field in expected.schema]
    assert actual.num_rows == expected.num_rows
    for name in expected.column_names: # NaN differs from itself, so compare as text
        if not actual[name].equals(expected[name]):
            assert repr(actual[name].to_pylist()) == repr(expected[name].to_pylist()), name


def both_ways(rows, version, scratch):
    theirs, ours = scratch / "theirs.lance", scratch / "ours.lance"
    lance.write_dataset(rows, str(theirs), data_storage_version=version)
    assert_alike(scan(theirs, scratch, options=["--bytes"]), as_pylance_reads(theirs))
    create(ours, rows.schema, scratch, version)
    append(ours, rows, scratch, rows_per_batch=501)
    assert_alike(as_pylance_reads(ours), rows)
    assert_alike(scan(ours, scratch, options=["--bytes"]), rows)


@pytest.mark.parametrize("count", [1, 10, 700])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_column_beside_all_others(version, count, tmp_path):
    both_ways(table(accepted(version, count, tmp_path, slow=count == 10), count), version, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_it_refuses_we_refuse(version, tmp_path):
    good = accepted(version, 200, tmp_path)
    refused = [name for name in CATALOG if name not in good and name not in SLOW]
    assert refused
    for name in refused:
        rows, uri = table([name], 200), tmp_path / f"{name}.lance"
        with pytest.raises(ToolError, match="INVALID_SCHEMA|SCHEMA_MISMATCH|UNSUPPORTED_FORMAT"):
            create(uri, rows.schema, tmp_path, version)
            append(uri, rows, tmp_path)


@pytest.mark.parametrize("name", CATALOG if FULL else ["text_nulls", "list_of_lists", "list_very_long", "zip_list_of_text"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_column_by_itself(version, name, tmp_path):
    rows = table([name], CATALOG[name][0])
    try:
        lance.write_dataset(rows, str(tmp_path / "try.lance"), data_storage_version=version)
    except BaseException:
        with pytest.raises(ToolError):
            create(tmp_path / "t.lance", rows.schema, tmp_path, version)
            append(tmp_path / "t.lance", rows, tmp_path)
        return
    both_ways(rows, version, tmp_path)
