"""Drives tests/lance_tool (our table engine) and the pylance of this environment over the same directories."""
import os
import pathlib
import subprocess

import lance
import pyarrow as pa
import pyarrow.ipc

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake")).parent / "tests/lance_tool"
FULL = bool(os.environ.get("LAKE_TEST_FULL"))


class ToolError(Exception):
    """What the tool wrote to stderr: "NAME: detail (context)"."""


def tool(*arguments):
    """Runs lance_tool and returns its output; ToolError when it fails."""
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise ToolError(done.stderr.strip() or f"exit status {done.returncode}")
    return done.stdout.strip()


def write_ipc(path, table, rows_per_batch=None):
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, rows_per_batch)
    return path


def read_ipc(path):
    with pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).read_all()


def create(uri, schema, scratch, version="2.1"):
    tool("create", uri, write_ipc(scratch / "schema.arrow", schema.empty_table()), "--file-version", version)


def append(uri, table, scratch, *options, rows_per_batch=None):
    """Returns the new version."""
    return int(tool("append", uri, write_ipc(scratch / "rows.arrow", table, rows_per_batch), *options))


def scan(uri, scratch, version=None, row_id=False, options=()):
    out = scratch / "scan.arrow"
    out.unlink(missing_ok=True)
    chosen = (["--version", version] if version else []) + (["--row-id"] if row_id else [])
    tool("scan", uri, out, *chosen, *options)
    return read_ipc(out)


def canonical(table):
    """Chunk borders and metadata do not matter, nor whether row ids could be null."""
    fields = [field.remove_metadata().with_nullable(field.nullable or field.name == "_rowid")
              for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields)).combine_chunks()


def assert_same(actual, expected):
    actual, expected = canonical(actual), canonical(expected)
    assert actual.schema == expected.schema
    assert actual.num_rows == expected.num_rows
    for name in expected.column_names:
        if not actual[name].equals(expected[name]): # NaN differs from itself there, so compare again by value
            assert repr(actual[name].to_pylist()) == repr(expected[name].to_pylist()), name


def reference(uri, version=None, row_id=False):
    """What pylance reads."""
    return lance.dataset(str(uri), version=version).to_table(with_row_id=row_id)


def assert_reads_alike(uri, scratch, version=None):
    """pylance and lake see the same rows, in the same order, under the same row ids."""
    assert_same(scan(uri, scratch, version, row_id=True), reference(uri, version, row_id=True))
