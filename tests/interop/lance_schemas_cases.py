"""Tables of any schema, written by us and changed by pylance, and the other way round; for every release."""
import random

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_cases import uri # noqa: F401
from lance_change_cases import lake, report
from lance_random import random_table
from lance_support import FULL, assert_reads_alike, assert_same, reference, write_ipc

NEW = int(lance.__version__.split(".")[0]) >= 14 # pylance 7 loses structs that are null in all rows, whoever wrote them
VERSIONS = ["2.1", "2.2"] if NEW else ["2.1"]
LARGE = range(1000, 1005) # tables of 300,000 rows


class Ours:
    def __init__(self, uri, scratch, version): # noqa: F811
        self.uri, self.scratch, self.version = uri, scratch, version

    def write(self, rows):
        file = write_ipc(self.scratch / "rows.arrow", rows, 5000)
        lake("write", self.uri, file, "--file-version", self.version, "--max-rows-per-file", 7000)

    def delete(self, where):
        report("delete", self.uri, "--where", where)

    def update(self, value, where):
        report("update", self.uri, "--set", f"id={value}", "--where", where)

    def append(self, rows):
        lake("write", self.uri, write_ipc(self.scratch / "rows.arrow", rows), "--mode", "append")

    def compact(self):
        report("compact", self.uri)


class Theirs(Ours):
    def write(self, rows):
        lance.write_dataset(rows, str(self.uri), data_storage_version=self.version, max_rows_per_file=7000)

    def delete(self, where):
        lance.dataset(str(self.uri)).delete(where)

    def update(self, value, where):
        lance.dataset(str(self.uri)).update({"id": value}, where=where)

    def append(self, rows):
        lance.write_dataset(rows, str(self.uri), mode="append")

    def compact(self):
        lance.dataset(str(self.uri)).optimize.compact_files()


def with_ids(rows, ids):
    return rows.set_column(0, rows.schema.field(0), ids)


def check(uri, expected, rng, scratch): # noqa: F811
    dataset = lance.dataset(str(uri))
    assert_same(reference(uri).sort_by("id"), expected)
    assert_reads_alike(uri, scratch)
    low = rng.randrange(20_000)
    some = dataset.to_table(filter=f"id >= {low} AND id < {low + 99}").sort_by("id")
    ids = expected["id"]
    assert_same(some, expected.filter(pc.and_(pc.greater_equal(ids, low), pc.less(ids, low + 99))))
    assert dataset.count_rows() == expected.num_rows
    wanted = sorted(rng.sample(range(expected.num_rows), min(expected.num_rows, 20)))
    if wanted:
        assert_same(dataset.take(wanted), reference(uri).take(wanted))


@pytest.mark.parametrize("first, then", [(Ours, Theirs), (Theirs, Ours)])
@pytest.mark.parametrize("seed", [*range(100), *LARGE] if FULL else range(4))
def test_what_one_writes_the_other_changes(seed, first, then, uri, tmp_path): # noqa: F811
    rng = random.Random(seed)
    rows = random_table(seed + 1000, null_structs=NEW, count=300_000 if seed in LARGE else None)
    version = rng.choice(VERSIONS)
    first(uri, tmp_path, version).write(rows)
    check(uri, rows, rng, tmp_path)
    other = then(uri, tmp_path, version)
    other.delete("id % 5 = 1")
    rows = rows.filter(pa.array([i % 5 != 1 for i in rows["id"].to_pylist()], pa.bool_()))
    check(uri, rows, rng, tmp_path)
    other.update("id + 1000000", "id % 7 = 3")
    ids = pa.array([i + 1_000_000 if i % 7 == 3 else i for i in rows["id"].to_pylist()], pa.int64())
    rows = with_ids(rows, ids).sort_by("id")
    more = rows.take(pa.array(range(rows.num_rows // 2, rows.num_rows), pa.int64())) # it stumbles over nested slices
    more = with_ids(more, pc.add(more["id"], 2_000_000))
    other.append(more)
    rows = pa.concat_tables([rows, more])
    check(uri, rows, rng, tmp_path)
    other.compact()
    check(uri, rows, rng, tmp_path)
