"""Who a row is: _rowid, _rowaddr, _rowoffset and row versions as pylance has them, through whatever both do."""
import concurrent.futures
import random

import lance
import pyarrow as pa
import pyarrow.ipc
import pytest

from lance_change_cases import lake
from lance_support import FULL, append, assert_same, read_ipc, tool, write_ipc

META = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]


def ours(uri, scratch, version=None, columns=META):
    """Every column and the given meta columns, as lake reads them."""
    out = scratch / "meta.arrow"
    out.unlink(missing_ok=True)
    options = [word for column in columns for word in ("--with", column)]
    tool("scan", uri, out, *options, *(["--version", version] if version else []))
    return read_ipc(out)


def theirs(dataset, columns=META):
    return dataset.scanner(columns=dataset.schema.names + columns).to_table()


def with_nullable(table):
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


def assert_rows_alike(uri, scratch, version=None):
    expected = with_nullable(theirs(lance.dataset(str(uri), version=version)))
    assert_same(with_nullable(ours(uri, scratch, version)), expected)
    return expected


class Model:
    """key -> (row id, version that made it, version that last changed it), checked after every step."""

    def __init__(self, uri, scratch):
        self.uri, self.scratch, self.rows = uri, scratch, {}

    def check(self, updated=()):
        table = assert_rows_alike(self.uri, self.scratch)
        keys, ids = table["key"].to_pylist(), table["_rowid"].to_pylist()
        made = table["_row_created_at_version"].to_pylist()
        changed = table["_row_last_updated_at_version"].to_pylist()
        version = lance.dataset(str(self.uri)).version
        now = {key: row for key, *row in zip(keys, ids, made, changed)}
        assert len(now) == len(keys) and len(set(ids)) == len(ids)
        for key, (row_id, created, last) in now.items():
            if key in self.rows:
                assert [row_id, created] == self.rows[key][:2], key
                assert last == (version if key in updated else self.rows[key][2]), key
            else:
                assert row_id not in {old[0] for old in self.rows.values()}
                assert (created, last) == (version, version), key
        self.rows = now
        self.check_take(table, ids)

    def check_take(self, table, ids):
        """The way from ids to addresses; ids that are gone are no rows."""
        some = random.Random(len(ids)).sample(range(len(ids)), min(20, len(ids)))
        wanted = [str(table["_rowaddr"][i].as_py()) for i in some]
        asked = [ids[i] for i in some] + [2**40, 2**64 - 1]
        found = tool("find", self.uri, ",".join(map(str, asked))).split()
        assert found == wanted + ["-", "-"]


def rows(start, count, tag):
    return pa.table({"key": pa.array(range(start, start + count), pa.int64()),
                     "value": pa.array([f"{tag}-{key}" if key % 5 else None for key in range(start, start + count)], pa.utf8())})


class History:
    """Steps by both, at random, on one table."""

    def __init__(self, uri, scratch, seed, by_us):
        self.uri, self.scratch, self.rng, self.next = uri, scratch, random.Random(seed), 0
        if by_us:
            tool("create", uri, write_ipc(scratch / "s.arrow", rows(0, 0, "")), "--stable-row-ids")
        else:
            lance.write_dataset(rows(0, 0, ""), str(uri), enable_stable_row_ids=True, data_storage_version="2.1")
        self.model = Model(uri, scratch)

    def keys(self):
        return sorted(self.model.rows)

    def some(self, most):
        keys = self.keys()
        return self.rng.sample(keys, self.rng.randint(1, min(most, len(keys)))) if keys else []

    def their_append(self):
        count = self.rng.randint(1, 60)
        lance.write_dataset(rows(self.next, count, "theirs"), str(self.uri), mode="append", max_rows_per_file=25)
        self.next += count

    def our_append(self):
        count = self.rng.randint(1, 60)
        append(self.uri, rows(self.next, count, "ours"), self.scratch, "--rows-per-file", 25)
        self.next += count

    def where(self, keys):
        return "key in ({})".format(", ".join(map(str, keys or [-1])))

    def their_delete(self):
        lance.dataset(str(self.uri)).delete(self.where(self.some(12)))

    def our_delete(self):
        lake("delete", self.uri, "--where", self.where(self.some(12)))

    def their_update(self):
        keys = self.some(12)
        if keys:
            lance.dataset(str(self.uri)).update({"value": "'updated'"}, where=self.where(keys))
        return keys

    def their_merge(self):
        keys = self.some(8) + list(range(self.next, self.next + 3))
        self.next += 3
        source = pa.table({"key": keys, "value": [f"merged {key}" for key in keys]}, rows(0, 0, "").schema)
        merge = lance.dataset(str(self.uri)).merge_insert("key")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(source)
        return keys

    def their_compaction(self):
        lance.dataset(str(self.uri)).optimize.compact_files(target_rows_per_fragment=70)

    def our_update(self):
        keys = self.some(12)
        if keys:
            lake("update", self.uri, "--set", "value='changed'", "--where", self.where(keys))
        return keys

    def our_merge(self):
        keys = self.some(8) + list(range(self.next, self.next + 3))
        self.rng.shuffle(keys)
        self.next += 3
        source = pa.table({"key": keys, "value": [f"joined {key}" for key in keys]}, rows(0, 0, "").schema)
        lake("merge", self.uri, write_ipc(self.scratch / "merge.arrow", source), "--on", "key")
        return keys

    def our_compaction(self):
        lake("compact", self.uri, "--target-rows", 70)

    STEPS = [their_append, our_append, their_delete, our_delete, their_update, our_update, their_merge, our_merge,
             their_compaction, our_compaction]

    def run(self, steps):
        for _ in range(steps):
            before = lance.dataset(str(self.uri)).version
            step = self.rng.choice(self.STEPS)
            updated = step(self) or ()
            if lance.dataset(str(self.uri)).version > before:
                self.model.check(updated)


@pytest.mark.parametrize("seed", range(24 if FULL else 3))
def test_a_row_keeps_its_id_through_everything_that_both_do(seed, tmp_path):
    history = History(tmp_path / "t.lance", tmp_path, seed, by_us=seed % 2 == 1)
    history.run(80 if FULL else 25)


def test_ids_stay_those_of_one_row_when_both_write_at_once(tmp_path):
    uri, times = str(tmp_path / "t.lance"), 40 if FULL else 12
    lance.write_dataset(rows(0, 100, "first"), uri, enable_stable_row_ids=True, data_storage_version="2.1")

    def theirs():
        for number in range(times):
            lance.write_dataset(rows(1000 + 3 * number, 3, "theirs"), uri, mode="append")
            lance.dataset(uri).update({"value": "'theirs'"}, where=f"key = {number}")

    def ours_too():
        write_ipc(tmp_path / "rows.arrow", rows(5000, 4, "ours"))
        tool("append", uri, tmp_path / "rows.arrow", "--times", times)

    def ours_changes():
        for number in range(times // 2):
            lake("update", uri, "--set", "value='ours'", "--where", f"key = {50 + number}")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(work) for work in (theirs, ours_too, ours_changes)]:
            done.result()
    lake("compact", uri)
    table = assert_rows_alike(uri, tmp_path)
    ids = table["_rowid"].to_pylist()
    assert len(ids) == 100 + 7 * times and len(set(ids)) == len(ids)
    first = {key: row_id for key, row_id in zip(table["key"].to_pylist(), ids) if key < 100}
    assert first == {key: key for key in range(100)}
    values = table["value"].to_pylist()
    assert values.count("theirs") == times and values.count("ours") == times // 2
