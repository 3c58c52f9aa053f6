"""A table that grows by many one-row appends with its upkeep: nothing of it may get slower or pile up."""
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

import lance
import pyarrow as pa
import pytest

from lance_cases import few_columns
from lance_change_cases import LAKE, report
from lance_support import FULL, TOOL, create, reference, write_ipc

TIMES = 20_000 if FULL else 2_000
EVERY, RETAIN = 100, 10


@pytest.fixture
def memory():
    """A directory in memory: what is measured is not the disk, of which many writers want something at once."""
    place = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None))
    yield place
    shutil.rmtree(place)


def test_many_small_appends_stay_as_fast_as_the_first(memory):
    uri, one = memory / "t.lance", write_ipc(memory / "one.arrow", few_columns(1))
    create(uri, few_columns(0).schema, memory)
    done = subprocess.run([TOOL.parent / "grow_tool", uri, one, str(TIMES), str(EVERY), str(RETAIN)], check=True,
                          capture_output=True, text=True, timeout=1200)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == TIMES // EVERY
    for name in ("append_us", "cpu_us", "open_us"):
        curve = [line[name] for line in lines]
        first, last = (statistics.median(curve[part]) for part in (slice(0, 5), slice(-5, None)))
        print(name, curve[:: max(1, len(curve) // 10)])
        assert last <= 2 * first + 100, (name, curve)
    assert all(line["fragments"] <= EVERY + 1 for line in lines)
    assert all(line["files"] <= 2 * EVERY + RETAIN + 2 for line in lines)
    assert reference(uri).num_rows == TIMES
    versions = [version["version"] for version in lance.dataset(str(uri)).versions()]
    assert versions == list(range(max(versions) - RETAIN + 1, max(versions) + 1))
    report("cleanup", uri, "--retain", 1)
    kept = sorted(str(path.relative_to(uri)) for path in uri.rglob("*") if path.is_file())
    fragments = lance.dataset(str(uri)).get_fragments()
    assert len(fragments) == 1 and [path for path in kept if path.startswith("data/")] == [
        f"data/{fragments[0].data_files()[0].path}"]
    assert sum(path.startswith("_versions/") and path.endswith(".manifest") for path in kept) == 1
    assert not [path for path in kept if path.startswith("_deletions/")]


def peak_bytes(command):
    """Runs a command and returns the most memory that it had; from a small process, whose own a child begins with."""
    run = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
    return int(subprocess.check_output([sys.executable, "-c", run, *map(str, command)], text=True))


@pytest.mark.parametrize("value", [b"a" * 10**6, random.Random(5).randbytes(10**6)], ids=["packed", "random"])
def test_compaction_of_wide_rows_takes_little_memory(value, memory):
    """Rows of a megabyte, which on disk may be next to nothing: 12 fragments of 50, 600 MB in all."""
    uri = memory / "t.lance"
    for part in range(12):
        rows = pa.table({"id": range(part * 50, part * 50 + 50), "b": pa.array([value] * 50, pa.binary())})
        lance.write_dataset(rows, str(uri), mode="append" if part else "create", data_storage_version="2.1")
    assert peak_bytes([LAKE, "lance", "compact", uri]) < 256 * 2**20
    dataset = lance.dataset(str(uri))
    assert len(dataset.get_fragments()) == 1
    assert dataset.to_table(columns=["id"])["id"].to_pylist() == list(range(600))
    assert dataset.take([0, 299, 599], columns=["b"])["b"].to_pylist() == [value] * 3
