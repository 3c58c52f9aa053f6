"""pylance 7: dictionaries and packed structs both ways; of blobs it is asked for descriptors and single ones, as its
reading of many at once loses bytes of its own files too."""
import lance
import pytest

from lance_kinds import BLOBS, DICTIONARIES, PACKED_FIXED, PACKED_VARIABLE, table
from lance_support import append, create, scan

VALUES = [("2.1", name) for name in DICTIONARIES | PACKED_FIXED] + \
    [("2.2", name) for name in DICTIONARIES | PACKED_FIXED | PACKED_VARIABLE]


@pytest.mark.parametrize("version,name", VALUES)
def test_both_read_what_the_other_wrote(version, name, tmp_path):
    ours, theirs, rows = tmp_path / "ours.lance", tmp_path / "theirs.lance", table(name)
    create(ours, rows.schema, tmp_path, version)
    append(ours, rows, tmp_path, rows_per_batch=500)
    dataset = lance.dataset(str(ours))
    assert dataset.to_table().to_pylist() == rows.to_pylist()
    picked = [0, rows.num_rows // 2, rows.num_rows - 1]
    assert dataset.take(picked).to_pylist() == rows.take(picked).to_pylist()
    if name != "dictionary_all_null": # it cannot write one without values
        lance.write_dataset(rows, str(theirs), data_storage_version=version)
        assert scan(theirs, tmp_path).to_pylist() == rows.to_pylist()
        lance.write_dataset(rows, str(ours), mode="append")
        assert scan(ours, tmp_path).to_pylist() == rows.to_pylist() * 2


@pytest.mark.parametrize("name", [name for name in BLOBS if name != "blob_in_struct"])
def test_both_find_the_others_blobs(name, tmp_path):
    ours, rows = tmp_path / "ours.lance", table(name)
    create(ours, rows.schema, tmp_path, "2.1")
    append(ours, rows, tmp_path)
    lance.write_dataset(rows, str(ours), mode="append")
    dataset, every = lance.dataset(str(ours)), rows["v"].to_pylist() * 2
    assert scan(ours, tmp_path).to_pylist() == dataset.to_table().to_pylist()
    assert scan(ours, tmp_path, options=["--bytes"])["v"].to_pylist() == every
    there = [row for row, blob in enumerate(every) if blob][:20]
    assert [blob.readall() for blob in dataset.take_blobs("v", indices=there)] == [every[row] for row in there]
