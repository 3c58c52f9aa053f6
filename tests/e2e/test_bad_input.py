"""test_bad_input.py - what must be refused is refused with the right status and a message that helps; nothing changes and
nothing crashes."""
import json

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import lake

SCHEMA = pa.schema([pa.field("n", pa.int64(), False), pa.field("s", pa.utf8())])
ROWS = pa.record_batch([pa.array([1]), pa.array(["x"])], schema=SCHEMA)


@pytest.fixture(scope="module")
def table(server):
    server.create("bad.t", SCHEMA)
    server.append("bad.t", ROWS)
    return server


@pytest.fixture(autouse=True)
def unchanged(table):
    """After each test the server is up and the table is what it was."""
    yield
    assert table.process.poll() is None
    assert table.sql("SELECT n, s FROM bad.t").to_pydict() == {"n": [1], "s": ["x"]}


def refused(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value), str(caught.value)


@pytest.mark.parametrize("sql, kind, text", [
    ("SELECT * FROM bad.nothing", KeyError, "table not found"),
    ("SELECT nothing FROM bad.t", pa.ArrowInvalid, "query planning failed"),
    ("SELECT n FROM bad.t WHERE", pa.ArrowInvalid, "invalid SQL statement"),
    ("SELECT 1; SELECT 2", pa.ArrowInvalid, "invalid SQL statement"),
    ("COPY bad.t TO '/tmp/out.csv'", pa.ArrowInvalid, "DML not supported"),
    ("COPY (SELECT 1) TO '/tmp/out.csv'", pa.ArrowInvalid, "DML not supported"),
    ("INSERT INTO bad.t VALUES (2, 'y')", pa.ArrowInvalid, "DML not supported"),
    ("DELETE FROM bad.t", pa.ArrowInvalid, "DML not supported"),
    ("UPDATE bad.t SET n = 2", pa.ArrowInvalid, "DML not supported"),
    ("DROP TABLE bad.t", pa.ArrowInvalid, "DDL not supported"),
    ("CREATE TABLE x AS SELECT 1", pa.ArrowInvalid, "DDL not supported"),
    ("ATTACH '/tmp/x.db'", pa.ArrowInvalid, "not supported"),
    ("SET memory_limit = '1GB'", pa.ArrowInvalid, "statement not supported"),
    ("PRAGMA version", pa.ArrowInvalid, "statement not supported"),
    ("INSTALL httpfs", pa.ArrowInvalid, "statement not supported"),
    ("EXPLAIN INSERT INTO bad.t VALUES (1, 'x')", pa.ArrowInvalid, "DML not supported"),
    ("SELECT * FROM read_csv('/etc/passwd')", pa.ArrowInvalid, "read_csv"),
    ("SELECT * FROM '/etc/passwd'", flight.FlightUnauthorizedError, "resource is not available"),
    ("SELECT * FROM read_text('/etc/passwd')", pa.ArrowInvalid, "read_text"),
    ("SELECT * FROM query('SELECT 1')", pa.ArrowInvalid, "query"),
    ("SELECT * FROM duckdb_settings()", pa.ArrowInvalid, "duckdb_settings"),
    ("SELECT getenv('HOME')", pa.ArrowInvalid, "getenv"),
    ("SELECT * FROM t", flight.FlightUnauthorizedError, "resource is not available"),
    ("SELECT * FROM other.bad.t", flight.FlightUnauthorizedError, "resource is not available"),
    ('SELECT * FROM "bad.t"', flight.FlightUnauthorizedError, "resource is not available"),
    ('SELECT * FROM bad."t""; DROP"', KeyError, "table not found"),
    ("SELECT n / 0 FROM bad.t WHERE s::INT = 1", pa.ArrowInvalid, "query execution failed"),
    ("SELECT * FROM bad.t AT (VERSION => 99)", pa.ArrowInvalid, "snapshot"),
    ("SELECT * FROM bad.t WHERE n = ?", pa.ArrowInvalid, "parameters"),
    ("", pa.ArrowInvalid, "invalid SQL statement"),
])
def test_statements(table, sql, kind, text):
    refused(lambda: table.sql(sql), kind, text)


def test_a_text_beyond_the_limit(table):
    refused(lambda: table.sql("SELECT '" + "x" * (1 << 20) + "'"), pa.ArrowInvalid, "byte limit")


def test_more_tables_than_a_statement_may_name(table):
    joins = ", ".join(f"bad.t{i} a{i}" for i in range(65))
    refused(lambda: table.sql(f"SELECT 1 FROM {joins}"), pa.ArrowInvalid, "too many tables")


def action(server, name, body):
    with server.flight() as client:
        return [r.body.to_pybytes() for r in client.do_action(flight.Action(name, body if isinstance(body, bytes)
                                                                            else json.dumps(body).encode()))]


@pytest.mark.parametrize("name, body, text", [
    ("create_table", {"namespace": "bad", "name": "a.b", "columns": ["n:int64"]}, "invalid identifier"),
    ("create_table", {"namespace": "b\"ad", "name": "t2", "columns": ["n:int64"]}, "invalid identifier"),
    ("create_table", {"namespace": "..", "name": "t2", "columns": ["n:int64"]}, "invalid identifier"),
    ("create_table", {"namespace": "bad", "name": "t" * 256, "columns": ["n:int64"]}, "invalid identifier"),
    ("create_table", {"namespace": "bad", "name": "t2", "columns": ["n:int65"]}, "invalid table schema"),
    ("create_table", {"namespace": "bad", "name": "t2", "columns": ["n"]}, "invalid table schema"),
    ("create_table", {"namespace": "bad", "name": "t2", "columns": []}, "invalid table schema"),
    ("create_table", {"namespace": "bad", "name": "t2", "columns": ["n:int64", "n:utf8"]}, "invalid table schema"),
    ("create_table", {"namespace": "bad", "name": "t2"}, "invalid request"),
    ("create_table", {"namespace": "bad", "name": "t2", "columns": ["n:int64"], "location": "/tmp"}, "location"),
    ("create_table", {"namespace": "bad", "name": "t2", "schema_ipc_base64": "AAAA"}, "invalid Arrow IPC"),
    ("create_table", {"namespace": "bad", "name": "t", "columns": ["n:int64"]}, "table already exists"),
    ("create_table", b"not json", "invalid request"),
    ("create_table", b"[" * 100000, "invalid request"),
    ("resolve", {"namespace": "bad", "name": "nothing"}, "table not found"),
    ("resolve", {"namespace": "bad"}, "name"),
    ("list_tables_page", {"namespace": "bad", "limit": 0}, "limit"),
    ("list_tables_page", {"namespace": "bad", "limit": 257}, "limit"),
    ("no_such_action", b"", "unknown query action"),
])
def test_actions(table, name, body, text):
    refused(lambda: action(table, name, body), (flight.FlightError, pa.ArrowException), text)


def put(server, descriptor, rows, options=None):
    with server.flight() as client:
        writer, reader = client.do_put(descriptor, rows.schema, options)
        with writer:
            writer.write_batch(rows)
            writer.done_writing()
            return reader.read()


def append(server, rows, **more):
    return put(server, lake.append_descriptor("bad.t", lake.uuid7(), lake.digest(rows), **more), rows)


NUMBERS = pa.schema([pa.field("n", pa.int64(), False), pa.field("s", pa.utf8())])


@pytest.mark.parametrize("rows, text", [
    (pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], names=["n", "s"]), "rows do not fit"),
    (pa.record_batch([pa.array([1], pa.int64())], names=["n"]), "rows do not fit"),
    (pa.record_batch([pa.array(["x"]), pa.array([1], pa.int64())], names=["s", "n"]), "rows do not fit"),
    (pa.record_batch([pa.array([None], pa.int64()), pa.array(["x"])], names=["n", "s"]), "rows do not fit"),
    (pa.record_batch([pa.array(range(10_001), pa.int64()), pa.array(["x"] * 10_001)], schema=NUMBERS), "10"),
    (pa.record_batch([pa.array([], pa.int64()), pa.array([], pa.utf8())], schema=NUMBERS), "row"),
    (pa.record_batch([pa.array([1]), pa.array(["x" * (65 << 20)])], schema=NUMBERS), "limit"),
])
def test_appends(table, rows, text):
    refused(lambda: append(table, rows), (flight.FlightError, pa.ArrowException), text)


def test_append_commands(table):
    good = lake.digest(ROWS)
    any_of = (flight.FlightError, pa.ArrowException)
    for operation, digest, more, text in [
            ("not a uuid", good, {}, "UUID"),
            ("6ba7b810-9dad-41d1-80b4-00c04fd430c8", good, {}, "UUID"),
            (lake.uuid7(), "0" * 64, {}, "payload digest does not match"),
            (lake.uuid7(), good.upper(), {}, "digest"),
            (lake.uuid7(), good, {"tenant": "me"}, "tenant"),
            (lake.uuid7(int(__import__("time").time() * 1000) + 600_000), good, {}, "future"),
            (lake.uuid7(1_000_000), good, {}, "older than the retention"),
    ]:
        refused(lambda: put(table, lake.append_descriptor("bad.t", operation, digest, **more), ROWS), any_of, text)
    refused(lambda: put(table, lake.append_descriptor("bad.nothing", lake.uuid7(), good), ROWS), any_of, "table not found")
    refused(lambda: put(table, flight.FlightDescriptor.for_path("x"), ROWS), any_of, "descriptor")
    refused(lambda: put(table, flight.FlightDescriptor.for_command(b"\xff\xff"), ROWS), any_of, "invalid")


def test_the_same_operation_with_other_rows_conflicts(table):
    table.create("bad.twice", SCHEMA)
    operation = lake.uuid7()
    version = table.append("bad.twice", ROWS, operation)
    assert table.append("bad.twice", ROWS, operation) == version
    other = pa.record_batch([pa.array([2]), pa.array(["y"])], schema=SCHEMA)
    refused(lambda: table.append("bad.twice", other, operation), (flight.FlightError, pa.ArrowException), "already used")
    assert table.sql("SELECT count(*) AS c FROM bad.twice").column("c").to_pylist() == [1]


def test_compressed_appends_are_refused(table):
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression="zstd"))
    rows = pa.record_batch([pa.array([7] * 1000), pa.array(["x"] * 1000)], schema=SCHEMA)
    refused(lambda: put(table, lake.append_descriptor("bad.t", lake.uuid7(), lake.digest(rows)), rows, options),
            (flight.FlightError, pa.ArrowException), "compress")
