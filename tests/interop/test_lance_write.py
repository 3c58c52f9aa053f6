"""`lake lance write` from every kind of file, Arrow and Parquet out again, and what happens when the disk is full."""
import datetime
import decimal
import io
import json
import os
import pathlib
import resource
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake"))
ROWS = 150_000


def lake(*arguments, **options):
    return subprocess.run([BIN, "lance", *map(str, arguments)], capture_output=True, timeout=120, **options)


def must(done):
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def rows(count=ROWS):
    half = pa.array(np.arange(count * 2, dtype=np.float32))
    return pa.table({
        "a": pa.array(range(count), pa.int64()), "s": [f"row {i}" if i % 3 else None for i in range(count)],
        "f": np.arange(count) / 7, "l": [[i, i + 1] if i % 5 else None for i in range(count)],
        "st": [{"x": i, "y": str(i)} for i in range(count)],
        "ts": pa.array([i * 1000 for i in range(count)], pa.timestamp("us", tz="UTC")),
        "m": pa.array([decimal.Decimal(i) / 100 for i in range(count)], pa.decimal128(12, 2)),
        "v": pa.FixedSizeListArray.from_arrays(half, 2), "b": [b"%d" % i for i in range(count)],
        "day": pa.array([datetime.date(2020, 1, 1)] * count), "yes": [i % 2 == 0 for i in range(count)]})


def write_ipc(path, table, stream=False):
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as out, new(out, table.schema) as writer:
        writer.write_table(table)
    return path


def same(actual, expected):
    assert actual.column_names == expected.column_names
    for name in expected.column_names:
        want = expected[name].combine_chunks()
        assert actual[name].cast(want.type).combine_chunks().equals(want), name


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("kind", ["file", "stream", "stdin", "parquet"])
def test_every_kind_of_input_is_written_and_read_by_pylance(tmp_path, version, kind):
    table, uri = rows(5000), str(tmp_path / "t.lance")
    options = ["--file-version", version, "--max-rows-per-file", 2000]
    if kind == "parquet":
        pq.write_table(table, tmp_path / "in.parquet")
        must(lake("write", uri, tmp_path / "in.parquet", *options))
    elif kind == "stdin":
        data = write_ipc(tmp_path / "in", table, stream=True).read_bytes()
        must(lake("write", uri, "-", *options, input=data))
    else:
        ending = "arrow" if kind == "file" else "arrows"
        must(lake("write", uri, write_ipc(tmp_path / f"in.{ending}", table, kind == "stream"), *options))
    dataset = lance.dataset(uri)
    assert dataset.data_storage_version == version and len(dataset.get_fragments()) == 3 and dataset.version == 1
    same(dataset.to_table(), table)


def test_dictionaries_stay_dictionaries(tmp_path):
    table = pa.table({"d": pa.array(["x", "y", None] * 100).dictionary_encode()})
    must(lake("write", tmp_path / "t.lance", write_ipc(tmp_path / "in.arrow", table)))
    read = lance.dataset(str(tmp_path / "t.lance")).to_table()
    assert pa.types.is_dictionary(read.schema.field("d").type)
    same(read, table)
    plain = pa.table({"d": ["y", None, "z"]})
    for more in (table, plain):
        must(lake("write", tmp_path / "t.lance", write_ipc(tmp_path / "in.arrow", more), "--mode", "append"))
    read = lance.dataset(str(tmp_path / "t.lance")).to_table()
    assert pa.types.is_dictionary(read.schema.field("d").type)
    assert read["d"].to_pylist() == 2 * table["d"].to_pylist() + ["y", None, "z"]


def test_views_are_stored_as_text_and_bytes(tmp_path):
    texts = ["x" * (i % 40) if i % 7 else None for i in range(3000)]
    table = pa.table({"t": pa.array(texts, pa.string_view()), "b": pa.array(texts, pa.binary_view())})
    uri = str(tmp_path / "t.lance")
    must(lake("write", uri, write_ipc(tmp_path / "in.arrow", table)))
    lance.write_dataset(table, str(tmp_path / "theirs.lance"))
    assert lance.dataset(uri).to_table().equals(lance.dataset(str(tmp_path / "theirs.lance")).to_table())


def test_stable_row_ids_are_asked_for_once(tmp_path):
    uri, file = str(tmp_path / "t.lance"), write_ipc(tmp_path / "in.arrow", rows(100))
    must(lake("write", uri, file, "--stable-row-ids"))
    must(lake("write", uri, file, "--mode", "append"))
    assert lance.dataset(uri).has_stable_row_ids
    assert lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(200))
    for mode in ("append", "overwrite"):
        assert lake("write", uri, file, "--mode", mode, "--stable-row-ids").returncode == 2
    assert lake("write", uri, file, "--mode", "append", "--file-version", "2.2").returncode == 2
    assert lake("write", uri, file, "--mode", "replace").returncode == 2


def test_an_append_converts_by_name_and_refuses_what_does_not_fit(tmp_path):
    uri = str(tmp_path / "t.lance")
    must(lake("write", uri, write_ipc(tmp_path / "a.arrow", pa.table({"n": pa.array([1], pa.int32()), "s": ["x"]}))))
    more = write_ipc(tmp_path / "b.arrow", pa.table({"s": ["y"], "n": pa.array([2], pa.int64())}))
    must(lake("write", uri, more, "--mode", "append"))
    assert lance.dataset(uri).to_table().to_pydict() == {"n": [1, 2], "s": ["x", "y"]}
    big = write_ipc(tmp_path / "c.arrow", pa.table({"s": ["z"], "n": pa.array([2**40], pa.int64())}))
    done = lake("write", uri, big, "--mode", "append")
    assert done.returncode == 1 and b"n" in done.stderr
    other = write_ipc(tmp_path / "d.arrow", pa.table({"q": ["z"]}))
    assert lake("write", uri, other, "--mode", "append").returncode != 0
    assert lance.dataset(uri).version == 2
    must(lake("write", uri, other, "--mode", "overwrite"))
    assert lance.dataset(uri).to_table().to_pydict() == {"q": ["z"]}
    must(lake("write", tmp_path / "new.lance", other, "--mode", "overwrite"))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "-"])
def test_what_is_written_comes_out_again(tmp_path, ending):
    table, uri = rows(), tmp_path / "t.lance"
    must(lake("write", uri, write_ipc(tmp_path / "in.arrow", table)))
    out = "-" if ending == "-" else tmp_path / f"out.{ending}"
    stdout = must(lake("scan", uri, "-o", out))
    read = (pq.read_table(out) if ending == "parquet" else pa.ipc.open_stream(io.BytesIO(stdout)).read_all()
            if ending == "-" else pa.ipc.open_file(out).read_all())
    same(read, table)
    if ending == "parquet":
        assert pq.ParquetFile(out).num_row_groups > 1
        must(lake("take", uri, "--rows", "149999,1,77", "-o", out))
        assert pq.read_table(out)["a"].to_pylist() == [149999, 1, 77]
        must(lake("scan", uri, "--limit", 0, "-o", out))
        assert pq.read_table(out).num_rows == 0
        assert lake("scan", uri, "-o", tmp_path / "no/such/out.parquet").returncode == 4
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.arrow", "out.parquet", "t.lance"]


# -- a full disk --------------------------------------------------------------------------------------

LIMIT = 3 << 20


@pytest.fixture(params=["limit", "tmpfs"] if os.geteuid() == 0 else ["limit"])
def full(request, tmp_path):
    """A directory where no file may be larger than LIMIT, or no more than that may lie; how to run in it."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if request.param == "limit":
        yield directory, {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))}
        return
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LIMIT}", "none", directory], capture_output=True).returncode:
        yield directory, {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))}
        return
    yield directory, {}
    subprocess.run(["umount", "-l", directory], check=True)


def noise(count):
    return pa.table({"a": pa.array(range(count), pa.int64()),
                     "r": pa.array(np.random.default_rng(1).integers(-2**62, 2**62, count))})


def test_a_full_disk_is_an_error_and_nothing_is_lost(tmp_path, full):
    directory, run = full
    uri = directory / "t.lance"
    small, large = write_ipc(tmp_path / "s.arrow", noise(50_000)), write_ipc(tmp_path / "l.arrow", noise(600_000))
    must(lake("write", uri, small, **run))
    for mode in ("append", "overwrite"):
        done = lake("write", uri, large, "--mode", mode, **run)
        assert done.returncode in (1, 5), done
        assert b"full" in done.stderr or b"File too large" in done.stderr, done.stderr
    for command in (["scan", uri, "-o", directory / "o.arrow"], ["scan", uri, "-o", directory / "o.parquet"]):
        lake(*command, **run) # may or may not fit
    done = lake("write", directory / "u.lance", large, **run)
    assert done.returncode in (1, 5)
    for path in directory.glob("o.*"):
        path.unlink()
    same(lance.dataset(str(uri)).to_table(), noise(50_000))
    report = json.loads(must(lake("verify", uri, "--all", "--json", **run)))
    assert report["versions"] == 1 and len(list((uri / "data").iterdir())) == 1, "what failed left nothing"


def test_a_compaction_on_a_full_disk_loses_nothing(tmp_path, full):
    directory, run = full
    uri = directory / "t.lance"
    must(lake("write", uri, write_ipc(tmp_path / "in.arrow", noise(110_000)), "--max-rows-per-file", 10_000, **run))
    must(lake("delete", uri, "--where", "a % 50 = 0", **run))
    filler, before = directory / "filler", lance.dataset(str(uri)).version
    with open(filler, "wb") as out:
        try:
            out.write(bytes(LIMIT))
            out.flush()
        except OSError:
            pass
    done = lake("compact", uri, **{"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))})
    assert done.returncode in (1, 5) and (b"full" in done.stderr or b"File too large" in done.stderr), done
    filler.unlink()
    assert (b"versions were committed" in done.stderr) == (lance.dataset(str(uri)).version > before), done.stderr
    expected = noise(110_000)
    same(lance.dataset(str(uri)).to_table(), expected.filter(np.arange(110_000) % 50 != 0))
    assert json.loads(must(lake("verify", uri, "--json")))["damages"] == 0
