"""Histories by chance: every operation by us and by pylance in turns over one table, whose rows a model knows."""
import random

import lance
import pyarrow as pa
import pytest

from lance_cases import uri # noqa: F401
from lance_change_cases import lake, report
from lance_support import FULL, append, assert_reads_alike, create, reference, write_ipc

COLUMNS = ["id", "s", "x"]
OLD = int(lance.__version__.split(".")[0]) < 14


class History:
    """A table and what must be in it: {id: {column: value}}, at every version."""

    def __init__(self, uri, scratch, seed): # noqa: F811
        self.uri, self.scratch, self.random = uri, scratch, random.Random(seed)
        self.rows, self.types = {}, {"id": pa.int64(), "s": pa.utf8(), "x": pa.float64()}
        self.versions, self.next_id, self.stable = {}, 0, False

    def schema(self):
        return pa.schema([pa.field(name, kind) for name, kind in self.types.items()])

    def table(self, rows):
        return pa.table({name: [row[name] for row in rows.values()] for name in self.types}, schema=self.schema())

    def new_rows(self, count, ids=None):
        ids = ids if ids is not None else range(self.next_id, self.next_id + count)
        rows = {i: {name: self.value(name, i) for name in self.types} for i in ids}
        self.next_id = max([self.next_id, *(i + 1 for i in rows)])
        return rows

    def value(self, name, i):
        if name == "id":
            return i
        if self.random.random() < 0.2:
            return None
        return f"text {self.random.randrange(50)}" if self.types[name] == pa.utf8() else float(self.random.randrange(1000))

    def window(self):
        low = self.random.randrange(-5, max(1, self.next_id))
        high = low + self.random.randrange(1, 40)
        return [i for i in self.rows if low <= i < high], f"id >= {low} and id < {high}"

    def dataset(self):
        return lance.dataset(str(self.uri))

    # -- operations: mine says whether it is ours or the reference's

    def append(self, mine):
        rows = self.new_rows(self.random.randrange(1, 60))
        if mine:
            append(self.uri, self.table(rows), self.scratch, "--rows-per-file", 25)
        else:
            lance.write_dataset(self.table(rows), str(self.uri), mode="append", max_rows_per_file=25)
        self.rows |= rows

    def delete(self, mine):
        ids, where = self.window()
        report("delete", self.uri, "--where", where) if mine else self.dataset().delete(where)
        self.rows = {i: row for i, row in self.rows.items() if i not in ids}

    def update(self, mine):
        ids, where = self.window()
        if mine:
            report("update", self.uri, "--set", "x=x + 1", "--set", "s='u' || s", "--where", where)
        else:
            self.dataset().update({"x": "x + 1", "s": "'u' || s"}, where=where)
        for i in ids:
            row = dict(self.rows[i])
            row["x"] = None if row["x"] is None else row["x"] + 1
            row["s"] = None if row["s"] is None else "u" + row["s"]
            self.rows[i] = row

    def merge(self, mine):
        ids, _ = self.window()
        rows = self.new_rows(0, sorted({*ids[::2], *range(self.next_id, self.next_id + self.random.randrange(10))}))
        if not rows:
            return
        if OLD and self.stable and self.dataset().list_indices():
            mine = True # it meets rows that left what an index covers twice, in tables of its own, too
        if mine:
            report("merge", self.uri, write_ipc(self.scratch / "merge.arrow", self.table(rows)), "--on", "id")
        else:
            told = self.dataset().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            told.execute(self.table(rows))
        self.rows |= rows

    def compact(self, mine):
        if mine:
            report("compact", self.uri, "--target-rows", 60)
        else:
            self.dataset().optimize.compact_files(target_rows_per_fragment=60)

    def cast(self, mine):
        name = self.random.choice([name for name in self.types if self.types[name] in (pa.float32(), pa.float64())])
        kind = pa.float32() if self.types[name] == pa.float64() else pa.float64()
        if mine:
            report("columns", "cast", self.uri, "--column", name, "--to", f"float{kind.bit_width}")
        else:
            self.dataset().alter_columns({"path": name, "data_type": kind})
        self.types[name] = kind

    def add(self, mine):
        name = f"c{len(self.versions)}"
        if self.random.random() < 0.5 and mine:
            report("columns", "add", self.uri, "--column", f"{name}:float64")
            self.rows = {i: row | {name: None} for i, row in self.rows.items()}
        else:
            if mine:
                lake("columns", "add", self.uri, "--column", f"{name}:float64", "--value", "id * 3")
            else:
                self.dataset().add_columns({name: "cast(id * 3 as double)"})
            self.rows = {i: row | {name: i * 3.0} for i, row in self.rows.items()}
        self.types[name] = pa.float64()

    def drop(self, mine):
        names = [name for name in self.types if name not in COLUMNS]
        if not names:
            return
        name = self.random.choice(names)
        report("columns", "drop", self.uri, "--column", name) if mine else self.dataset().drop_columns([name])
        del self.types[name]
        self.rows = {i: {key: value for key, value in row.items() if key != name} for i, row in self.rows.items()}

    def restore(self, mine):
        version = self.random.choice(sorted(self.versions))
        if mine:
            report("restore", self.uri, "--version", version)
        else:
            lance.dataset(str(self.uri), version=version).restore()
        self.rows, self.types = map(dict, self.versions[version])

    def overwrite(self, mine):
        self.types = {name: kind for name, kind in self.types.items() if name in COLUMNS}
        self.rows = self.new_rows(self.random.randrange(1, 80))
        if mine:
            lake("write", self.uri, write_ipc(self.scratch / "all.arrow", self.table(self.rows)), "--mode", "overwrite",
                 "--max-rows-per-file", 30)
        else:
            lance.write_dataset(self.table(self.rows), str(self.uri), mode="overwrite", max_rows_per_file=30)

    def index(self, mine):
        self.dataset().create_scalar_index("id", "BTREE", replace=True)

    def cleanup(self, mine):
        if mine:
            report("cleanup", self.uri, "--retain", 3)
            kept = {version["version"] for version in self.dataset().versions()}
            self.versions = {version: what for version, what in self.versions.items() if version in kept}

    OPERATIONS = {append: 6, delete: 4, update: 4, merge: 3, compact: 2, cast: 1, add: 1, drop: 1, restore: 1, overwrite: 1, index: 1,
                  cleanup: 1}

    def step(self):
        operation = self.random.choices(list(self.OPERATIONS), list(self.OPERATIONS.values()))[0]
        mine = self.random.random() < 0.6
        operation(self, mine)
        self.versions[self.dataset().version] = (dict(self.rows), dict(self.types))
        return f"{operation.__name__} by {'us' if mine else 'them'}"

    def check(self):
        found = {row["id"]: row for row in reference(self.uri).to_pylist()}
        assert found == self.rows and self.dataset().count_rows() == len(self.rows)
        if self.rows:
            i = self.random.choice(sorted(self.rows))
            assert self.dataset().to_table(filter=f"id = {i}").to_pylist() == [self.rows[i]]
        ids = [fragment.fragment_id for fragment in self.dataset().get_fragments()]
        assert ids == sorted(ids)


@pytest.mark.parametrize("seed", range(200 if FULL else 5))
def test_a_history_by_both_leaves_what_the_model_says(seed, uri, tmp_path): # noqa: F811
    history = History(uri, tmp_path, seed)
    history.stable = seed % 4 == 0
    if seed % 2:
        create(uri, history.schema(), tmp_path)
    else:
        lance.write_dataset(history.schema().empty_table(), str(uri), data_storage_version="2.1",
                            enable_stable_row_ids=history.stable)
    history.versions[1] = ({}, dict(history.types))
    done = []
    for _ in range(40 if FULL else 12):
        done.append(history.step())
        try:
            history.check()
        except Exception as error:
            raise AssertionError(f"after {done}") from error
    assert_reads_alike(uri, tmp_path)
