"""test_cli.py - the commands as a person types them: files of every kind in, every format out, exit codes, help."""
import csv
import gzip
import io
import json
import subprocess

import lance
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

import lake

TABLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": pa.array(["a", None, 'say "hi", ok'], pa.utf8()),
                  "x": pa.array([0.5, None, -1e300], pa.float64()),
                  "at": pa.array([0, 1_700_000_000_000_000, None], pa.timestamp("us", "UTC"))})


def write(path):
    if path.suffix == ".parquet":
        parquet.write_table(TABLE, path)
    elif path.suffix == ".csv":
        path.write_text('id,name,x,at\n1,a,0.5,1970-01-01T00:00:00Z\n2,NA,NA,2023-11-14T22:13:20Z\n'
                        '3,"say ""hi"", ok",-1e300,NA\n')
    elif path.suffix == ".ndjson":
        path.write_text('{"id":1,"name":"a","x":0.5,"at":"1970-01-01T00:00:00Z"}\n'
                        '{"id":2,"name":null,"x":null,"at":"2023-11-14T22:13:20Z"}\n'
                        '{"id":3,"name":"say \\"hi\\", ok","x":-1e300,"at":null}\n')
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(str(path), TABLE.schema) as out:
            out.write_table(TABLE)
    else:
        with pa.ipc.new_file(str(path), TABLE.schema) as out:
            out.write_table(TABLE)
    return path


@pytest.mark.parametrize("kind", ["arrow", "arrows", "parquet", "csv", "ndjson"])
def test_append_from_every_kind_of_file(server, tmp_path, kind):
    path = write(tmp_path / f"rows.{kind}")
    server.run("table", "create", f"files.{kind}", "--column", "id:int64", "--column", "name:utf8?", "--column",
               "x:float64?", "--column", "at:timestamp[us,UTC]?")
    done = server.run("append", f"files.{kind}", path, *(["--null", "NA"] if kind == "csv" else []))
    assert b"appended 3 rows" in done.stdout
    got = server.sql(f"SELECT * FROM files.{kind} ORDER BY id")
    assert got.to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "ndjson"])
def test_create_with_the_schema_of_a_file(server, tmp_path, kind):
    path = write(tmp_path / f"rows.{kind}")
    null = ["--null", "NA"] if kind == "csv" else []
    server.run("table", "create", f"shaped.{kind}", "--schema", path, *null)
    about = json.loads(server.run("table", "describe", f"shaped.{kind}", "--json").stdout)
    assert [(c["name"], c["type"]) for c in about["columns"]][:3] == [("id", "int64"), ("name", "utf8"), ("x", "float64")]
    assert about["columns"][3]["type"].startswith("timestamp")
    server.run("append", f"shaped.{kind}", path, *null)
    assert server.sql(f"SELECT count(*) AS c FROM shaped.{kind}").column("c").to_pylist() == [3]


def test_append_reads_compressed_text_and_a_stream_on_stdin(server, tmp_path):
    server.run("table", "create", "files.more", "--column", "n:int64", "--column", "s:utf8?")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"n,s\n1,a\n"))
    (tmp_path / "b.tsv").write_bytes(b"s\tn\n\t2\n")
    (tmp_path / "c[1]*.jsonl.gz").write_bytes(gzip.compress(b'{"n":3,"s":"2024-01-01"}\n'))
    for path in sorted(tmp_path.iterdir()):
        server.run("append", "files.more", path)
    rows = server.run("sql", "--format", "arrow", "SELECT n + 3 AS n, s FROM files.more").stdout
    assert b"appended 3 rows" in server.run("append", "files.more", "-", input=rows).stdout
    got = server.sql("SELECT s FROM files.more ORDER BY n").column("s").to_pylist()
    assert got == ["a", None, "2024-01-01"] * 2


def test_an_append_with_an_operation_id_twice_adds_once(server, tmp_path):
    path = tmp_path / "many.parquet"
    parquet.write_table(pa.table({"n": pa.array(range(25_000), pa.int64())}), path)
    server.run("table", "create", "files.once", "--column", "n:int64")
    operation = lake.uuid7()
    for _ in range(2):
        done = server.run("append", "files.once", path, "--operation-id", operation)
        assert b"3 operations" in done.stdout
    assert server.sql("SELECT count(*) AS c FROM files.once").column("c").to_pylist() == [25_000]


@pytest.mark.parametrize("cell, text", [("seven", b"seven"), ("", b"null"), ("9223372036854775808", b"n")])
def test_a_value_that_does_not_fit_names_column_and_row(server, tmp_path, cell, text):
    path = tmp_path / "bad.csv"
    path.write_text(f"n,m\n1,1\n{cell},2\n")
    name = "files.bad" + str(abs(hash(cell)))
    server.run("table", "create", name, "--column", "n:int64", "--column", "m:int64")
    done = server.run("append", name, path, check=False)
    assert done.returncode == 1
    assert b"rows do not fit" in done.stderr and b"n" in done.stderr
    assert server.sql(f"SELECT count(*) AS c FROM {name}").column("c").to_pylist() == [0]


def test_a_truncated_file_is_an_error(server, tmp_path):
    server.run("table", "create", "files.cut", "--column", "id:int64", "--column", "name:utf8?", "--column",
               "x:float64?", "--column", "at:timestamp[us,UTC]?")
    for kind in ("arrow", "parquet"):
        path = write(tmp_path / f"cut.{kind}")
        path.write_bytes(path.read_bytes()[:-20])
        assert server.run("append", "files.cut", path, check=False).returncode != 0
    assert server.sql("SELECT count(*) AS c FROM files.cut").column("c").to_pylist() == [0]


@pytest.fixture(scope="module")
def filled(server):
    server.create("out.t", TABLE.schema)
    server.append("out.t", TABLE.combine_chunks().to_batches()[0])
    return server


def test_output_formats(filled):
    query = 'SELECT id, name, x, "at" FROM out.t ORDER BY id'
    rows = json.loads(filled.run("sql", "--format", "json", query).stdout)
    assert rows[0] == {"id": 1, "name": "a", "x": 0.5, "at": "1970-01-01T00:00:00Z"}
    assert rows[1]["name"] is None and rows[2]["x"] == -1e300
    lines = filled.run("sql", "--format=ndjson", query).stdout.splitlines()
    assert [json.loads(line) for line in lines] == rows
    cells = list(csv.reader(io.StringIO(filled.run("sql", "--format", "csv", query).stdout.decode())))
    assert cells[0] == ["id", "name", "x", "at"] and cells[3][1] == 'say "hi", ok' and cells[2][1] == ""
    stream = pa.ipc.open_stream(filled.run("sql", "--format", "arrow", query).stdout).read_all()
    assert stream.to_pydict() == TABLE.to_pydict()
    done = filled.run("sql", query)
    assert b"| name" in done.stdout and b"NULL" in done.stdout and b"(3 rows)" in done.stderr
    assert b"\x1b" not in done.stdout


def test_a_plan_is_drawn_on_its_lines(filled):
    lines = filled.run("sql", "EXPLAIN SELECT count(*) FROM out.t").stdout.decode().splitlines()
    assert len(lines) > 3 and not any("..." in line or "explain_key" in line for line in lines)


def test_lance_commands_read_in_place(filled, tmp_path):
    location = filled.resolve("out.t")["location"]
    info = json.loads(filled.run("lance", "info", location, "--json").stdout)
    assert info["rows"] == 3 and info["file_format"] == "2.1" and info["columns"][0]["name"] == "id"
    versions = json.loads(filled.run("lance", "versions", location, "--json").stdout)
    assert versions == [v["version"] for v in lance.dataset(location).versions()]
    out = tmp_path / "out.arrow"
    filled.run("lance", "scan", location, "--columns", "x,id", "--limit", "2", "--with-row-id", "-o", out)
    got = pa.ipc.open_file(str(out)).read_all()
    assert got.schema.names == ["x", "id", "_rowid"] and got.column("id").to_pylist() == [1, 2]
    want = lance.dataset(location).to_table(columns=["id"], with_row_id=True).column("_rowid").to_pylist()
    assert got.column("_rowid").to_pylist() == want[:2]
    filled.run("lance", "scan", location, "--version", "1", "-o", out)
    assert pa.ipc.open_file(str(out)).read_all().num_rows == 0


def test_selftest_repeats_and_leaves_nothing(server):
    for _ in range(2):
        assert b"self-check ok" in server.run("selftest").stdout
    assert b"lake_selftest" not in server.run("table", "list").stdout


@pytest.mark.parametrize("arguments, code, text", [
    ([], 2, "usage"),
    (["nonsense"], 2, "unknown command"),
    (["lance", "tag"], 2, "lance tag create"),
    (["lance", "nonsense", "x"], 2, "there is no 'lake lance nonsense'"),
    (["lance", "columns", "nonsense"], 2, "lance columns cast"),
    (["sql"], 2, "QUERY"),
    (["sql", "SELECT 1", "extra"], 2, "unexpected"),
    (["sql", "--format", "xml", "SELECT 1"], 2, "--format"),
    (["sql", "--nonsense", "SELECT 1"], 2, "unknown option"),
    (["sql", "SELECT"], 1, "invalid SQL"),
    (["sql", "SELECT * FROM a.b"], 4, "table not found"),
    (["sql", "SELECT * FROM x"], 3, "resource is not available"),
    (["table", "create", "a.b"], 2, "--column"),
    (["table", "create", "ab", "--column", "n:int64"], 1, "invalid identifier"),
    (["table", "create", "a.b.c", "--column", "n:int64"], 1, "invalid identifier"),
    (["table", "create", "a.b", "--column", "n:wrong"], 1, "invalid table schema"),
    (["table", "describe", "a.nothing"], 4, "table not found"),
    (["append", "a.nothing", "/dev/null"], 2, "kind of file"),
    (["append", "a.nothing", "x.arrow"], 4, "table not found"),
    (["lance", "info", "/nonexistent"], 4, "no Lance dataset"),
    (["lance", "info", "s3://bucket/x"], 2, "AWS_ACCESS_KEY_ID"),
    (["lance", "scan", "/nonexistent"], 4, "no Lance dataset"),
    (["lance", "scan", "/nonexistent", "--format", "xml"], 2, "--format"),
    (["lance", "update", "/nonexistent", "--set", "a=1"], 4, "no Lance dataset"),
    (["lance", "update", "/nonexistent"], 2, "--set"),
    (["lance", "merge", "/nonexistent", "rows.arrow", "--on", "id", "--when-matched", "perhaps"], 2, "update or nothing"),
    (["lance", "columns", "cast", "/nonexistent", "--column", "a"], 2, "--to"),
])
def test_exit_codes_and_messages(server, arguments, code, text):
    done = server.run(*arguments, check=False)
    assert done.returncode == code, done.stderr
    assert text in done.stderr.decode(), done.stderr
    assert done.stdout == b""


def test_an_unreachable_server_exits_5_quickly(server):
    done = subprocess.run([lake.LAKE, "sql", "--endpoint", "grpc://127.0.0.1:1", "SELECT 1"], capture_output=True, timeout=10)
    assert done.returncode == 5
    assert b"cannot be reached" in done.stderr


def test_a_table_that_exists_exits_6(server):
    server.run("table", "create", "codes.t", "--column", "n:int64")
    assert server.run("table", "create", "codes.t", "--column", "n:int64", check=False).returncode == 6
    server.run("table", "drop", "codes.t")
    server.run("table", "drop", "codes.t")


def test_every_command_has_help(server):
    names = [line.split("  ")[1] for line in server.run("--help").stdout.decode().splitlines() if line.startswith("  ")]
    assert len(names) > 10
    for name in names:
        done = server.run(*name.split(), "--help", environment={"LAKE_LOG_FORMAT": "nonsense"})
        assert done.stdout.startswith(b"usage: lake " + name.encode()) and done.stderr == b""
        assert server.run("help", *name.split()).stdout == done.stdout
    assert server.run("--version").stdout.startswith(b"lake ")
    assert server.run("help").stdout == server.run("--help").stdout
    assert b"LAKE_ENDPOINT" in server.run("help", "settings", environment={"LAKE_GRPC_THREADS": "0"}).stdout
    assert server.run("help", "nonsense", check=False).returncode == 2


def test_config_check_shows_every_setting(server):
    text = server.run("config", "check", environment={"LAKE_QUERY_MAX_CONCURRENT": "7"}).stdout.decode()
    assert "LAKE_QUERY_MAX_CONCURRENT" in text and "7" in text
    json.loads(server.run("config", "check", "--json").stdout)
    assert server.run("config", "check", check=False, environment={"LAKE_QUERY_MAX_CONCURRENT": "0"}).returncode == 2


def test_a_closed_pipe_is_quiet(filled):
    done = subprocess.run(f"{lake.LAKE} sql --format csv 'SELECT * FROM range(1000000)' | head -n 1", shell=True,
                          capture_output=True, env={"LAKE_ENDPOINT": filled.endpoint, "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and done.stderr == b""
