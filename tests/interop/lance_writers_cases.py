"""Many writers of one table at once, ours and pylance's; and ours killed in the middle. For every release."""
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
from lance_change_cases import LAKE, delete, files, lake, ours, report # noqa: F401
from lance_support import FULL, TOOL, ToolError, append, assert_reads_alike, create, reference, write_ipc

SECONDS = 60 if FULL else 8
ROWS = 10**6 # a writer's own ids: number * ROWS and on


def rows_of(model):
    """A table of {id: x}."""
    ids = sorted(model)
    return pa.table({"id": ids, "s": [f"row {i}" for i in ids], "x": [model[i] for i in ids]},
                    schema=few_columns(0).schema)


class Lake:
    def __init__(self, uri, scratch): # noqa: F811
        self.uri, self.scratch = uri, scratch
        scratch.mkdir()

    def append(self, rows):
        append(self.uri, rows, self.scratch)

    def delete(self, where):
        delete(self.uri, where)

    def update(self, where):
        report("update", self.uri, "--set", "x=x + 1", "--where", where)

    def compact(self):
        report("compact", self.uri, "--target-rows", 500)

    def merge(self, rows):
        report("merge", self.uri, write_ipc(self.scratch / "in.arrow", rows), "--on", "id")

    errors = ToolError

    def is_race(self, error):
        return str(error).startswith("6: ")


class Pylance(Lake):
    def append(self, rows):
        lance.write_dataset(rows, str(self.uri), mode="append")

    def delete(self, where):
        lance.dataset(str(self.uri)).delete(where)

    def update(self, where):
        lance.dataset(str(self.uri)).update({"x": "x + 1"}, where=where)

    def compact(self):
        lance.dataset(str(self.uri)).optimize.compact_files(target_rows_per_fragment=500)

    def merge(self, rows):
        told = lance.dataset(str(self.uri)).merge_insert("id")
        told.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    errors = (OSError, RuntimeError, ValueError)

    def is_race(self, error):
        text = str(error)
        return any(word in text for word in ("onflict", "preempted", "concurrent", "Too many"))


def write(kind, uri, scratch, number, seconds, results): # noqa: F811
    """Changes rows of its own until the time is over, and tells what must be there then, and what was done how often."""
    rng = random.Random(number)
    writer = kind(uri, scratch)
    model, done = {}, {}
    next_id = number * ROWS
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        what = rng.choices(["append", "delete", "update", "merge", "compact"], [5, 3, 3, 2, 1])[0]
        low = number * ROWS + rng.randrange(max(1, next_id - number * ROWS))
        high = low + rng.randrange(1, 30)
        where = f"id >= {low} and id < {high}"
        mine = [i for i in model if low <= i < high]
        after = dict(model)
        try:
            if what == "append":
                new = {next_id + i: float(next_id + i) for i in range(rng.randrange(1, 20))}
                after |= new
                writer.append(rows_of(new))
                next_id += len(new)
            elif what == "delete":
                after = {i: x for i, x in model.items() if i not in mine}
                writer.delete(where)
            elif what == "update":
                after |= {i: model[i] + 1 for i in mine}
                writer.update(where)
            elif what == "merge":
                new = {i: float(-i) for i in range(low, high)}
                next_id = max(next_id, high)
                after |= new
                writer.merge(rows_of(new))
            else:
                writer.compact()
            model = after
            done[what] = done.get(what, 0) + 1
        except writer.errors as error: # it lost a race, and nothing of it is there
            assert writer.is_race(error), error
            done["lost"] = done.get("lost", 0) + 1
    results.put((number, model, done))


def test_six_writers_of_one_table_lose_nothing(uri, tmp_path): # noqa: F811
    create(uri, few_columns(0).schema, tmp_path)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    kinds = [Lake, Pylance] * 3
    writers = [context.Process(target=write, args=(kind, uri, tmp_path / str(number), number, SECONDS, results))
               for number, kind in enumerate(kinds)]
    for writer in writers:
        writer.start()
    told = [results.get(timeout=SECONDS * 5 + 60) for _ in writers]
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    expected = {}
    done = {Lake: {}, Pylance: {}}
    for number, model, counts in told:
        expected |= model
        for what, count in counts.items():
            done[kinds[number]][what] = done[kinds[number]].get(what, 0) + count
    print(done)
    found = reference(uri).to_pylist()
    assert sorted((row["id"], row["x"]) for row in found) == sorted(expected.items())
    assert_reads_alike(uri, tmp_path)
    versions = [version["version"] for version in lance.dataset(str(uri)).versions()]
    assert sorted(versions) == list(range(1, max(versions) + 1))
    for kind in done:
        assert set(done[kind]) >= {"append", "delete", "update"}, done


# -- killed ---------------------------------------------------------------------------------------------------

def killed(command, seconds):
    """Whether the command was ended by kill -9 after that time, or came to its own end before."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert process.wait(seconds) == 0
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True


def everything(uri): # noqa: F811
    return sorted((row["id"], row["x"], row["s"]) for row in reference(uri).to_pylist())


def commands(uri, scratch): # noqa: F811
    """What is killed, each over a table of ids 0 to 599, and what the table then holds when it was done."""
    base = everything(uri)
    more = few_columns(50, 600)
    source = write_ipc(scratch / "more.arrow", more)
    added = sorted(base + [(row["id"], row["x"], row["s"]) for row in more.to_pylist()])
    changed = sorted((i, x + 1 if i % 3 == 0 else x, s) for i, x, s in base)
    return {
        "append": ([TOOL, "append", uri, source, "--rows-per-file", "10"], added),
        "delete": ([LAKE, "lance", "delete", uri, "--where", "id % 3 = 0"], [row for row in base if row[0] % 3]),
        "update": ([LAKE, "lance", "update", uri, "--set", "x=x + 1", "--where", "id % 3 = 0"], changed),
        "merge": ([LAKE, "lance", "merge", uri, source, "--on", "id"], added),
        "compact": ([LAKE, "lance", "compact", uri, "--target-rows", "150"], base),
        "cast": ([LAKE, "lance", "columns", "cast", uri, "--column", "x", "--to", "float32"], base),
        "cleanup": ([LAKE, "lance", "cleanup", uri, "--retain", "1"], base),
    }


@pytest.mark.parametrize("what", ["append", "delete", "update", "merge", "compact", "cast", "cleanup"])
def test_a_killed_change_leaves_a_whole_table(what, uri, tmp_path): # noqa: F811
    """Killed at any time it is done or not, both read the same, and a cleanup leaves what the newest version needs."""
    made = tmp_path / "made.lance"
    ours(made, tmp_path, rows=600, per_file=20)
    delete(made, "id % 17 = 16")
    lance.dataset(str(made)).update({"x": "x + 0.5"}, where="id % 5 = 0")
    base = everything(made)
    start = time.monotonic()
    shutil.copytree(made, uri)
    command, whole = commands(uri, tmp_path)[what]
    assert not killed(command, 60)
    duration = time.monotonic() - start
    assert everything(uri) == whole
    kills = 0
    number = 0
    while number < (60 if FULL else 3) or (kills == 0 and number < 30):
        shutil.rmtree(uri)
        shutil.copytree(made, uri)
        was_killed = killed(command, random.Random(number).uniform(0.2, 1.0) * duration)
        number += 1
        kills += was_killed
        duration *= 1 if was_killed else 0.8 # it is faster than it was the first time
        found = everything(uri)
        assert found in (base, whole) if was_killed else found == whole
        assert_reads_alike(uri, tmp_path)
        report("cleanup", uri, "--retain", 1)
        kept = len(files(uri))
        for path in [path for path in uri.rglob("*") if path.is_file()]: # as if they had been left a week ago
            os.utime(path, (time.time() - 8 * 86400,) * 2)
        report("cleanup", uri, "--retain", 1)
        assert everything(uri) == found and len(files(uri)) <= kept
        assert files(uri) == needed_files(uri)
        if found == base:
            assert not killed(command, 60)
            assert everything(uri) == whole
            assert_reads_alike(uri, tmp_path)
    assert kills > 0


def needed_files(uri): # noqa: F811
    """What the newest version refers to, its manifest and transaction."""
    dataset = lance.dataset(str(uri))
    needed = {f"data/{file.path}" for fragment in dataset.get_fragments() for file in fragment.data_files()}
    needed |= {path for path in files(uri) if path.startswith("_versions/")}
    for fragment in dataset.get_fragments():
        if fragment.deletion_file() is not None:
            needed.add(str(fragment.deletion_file()).removeprefix("/"))
    needed |= {path for path in files(uri) if path.startswith("_transactions/")}
    assert sum(path.startswith("_versions/") for path in needed) == 1
    assert sum(path.startswith("_transactions/") for path in needed) <= 1
    return needed
