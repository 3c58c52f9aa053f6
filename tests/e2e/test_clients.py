"""test_clients.py - pyarrow.flight and ADBC work unmodified: statements, types, metadata, ingest, versions."""
import decimal
import json

import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest

import lake
import types_table


@pytest.fixture(scope="module")
def filled(server):
    rows = types_table.table()
    server.create("every.types", rows.schema)
    server.append("every.types", rows)
    server.create("small.numbers", pa.schema([pa.field("n", pa.int64(), False), pa.field("s", pa.utf8())]))
    server.append("small.numbers", pa.record_batch([pa.array(range(10)), pa.array([str(i) for i in range(10)])],
                                                   schema=pa.schema([pa.field("n", pa.int64(), False), ("s", pa.utf8())])))
    return server


def test_select_of_every_type_equals_what_was_written(filled):
    assert types_table.equal(filled.sql("SELECT * FROM every.types"), pa.Table.from_batches([types_table.table()]))


@pytest.mark.parametrize("name", types_table.COLUMNS)
def test_each_type_survives_the_sql_engine_as_a_plain_column(filled, name):
    # ORDER BY an expression keeps the statement off the straight path.
    got = filled.sql(f'SELECT "{name}" FROM every.types ORDER BY 1 IS NULL, 1 LIMIT 100')
    want = types_table.table([name])
    assert got.schema.field(0).type == want.schema.field(0).type
    key = lambda v: repr(v)
    assert sorted(map(key, got.column(0).to_pylist())) == sorted(map(key, want.column(0).to_pylist()))


def test_a_decimal_that_duckdb_cannot_have_is_read_plainly_or_refused(server):
    values = pa.record_batch([pa.array([decimal.Decimal(100), None], pa.decimal128(5, -2)), pa.array([1, 2])], ["d", "id"])
    server.create("c.coarse", values.schema)
    server.append("c.coarse", values)
    assert server.sql("SELECT * FROM c.coarse").column("d").to_pylist() == values.column("d").to_pylist()
    assert server.sql("SELECT sum(id) AS s FROM c.coarse").column("s").to_pylist() == [3]
    with pytest.raises(pa.ArrowInvalid):
        server.sql("SELECT max(d) FROM c.coarse")


def test_pylance_reads_the_same_rows(filled):
    location = filled.resolve("every.types")["location"]
    got = lance.dataset(location).to_table()
    assert types_table.equal(got, pa.Table.from_batches([types_table.table()]))


def test_pylance_and_lake_agree_at_every_version(server):
    schema = pa.schema([pa.field("n", pa.int64())])
    server.create("history.n", schema)
    for i in range(5):
        server.append("history.n", pa.record_batch([pa.array(range(i + 1))], schema=schema))
    registration = server.resolve("history.n")
    for version in range(1, registration["current_version"] + 1):
        ours = server.sql(f"SELECT * FROM history.n AT (VERSION => {version})")
        theirs = lance.dataset(registration["location"], version=version).to_table()
        assert ours.column("n").to_pylist() == theirs.column("n").to_pylist()
    exact = server.sql(f"SELECT count(*) AS c FROM history.n AT (REVISION => '{registration['incarnation_id']}:3')")
    assert exact.column("c").to_pylist() == [3]


def test_adbc_executes_and_fetches(filled):
    with filled.adbc() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n, s FROM small.numbers WHERE n >= 8 ORDER BY n")
        assert cursor.fetch_arrow_table().to_pydict() == {"n": [8, 9], "s": ["8", "9"]}
        cursor.execute("SELECT sum(n) AS total FROM small.numbers")
        assert cursor.fetchall() == [(45,)]


def test_adbc_lists_objects_with_columns(filled):
    with filled.adbc() as connection:
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    catalogs = {c["catalog_name"]: c for c in objects}
    schemas = {s["db_schema_name"]: s for s in catalogs["lake"]["catalog_db_schemas"]}
    tables = {t["table_name"]: t for t in schemas["small"]["db_schema_tables"]}
    assert [c["column_name"] for c in tables["numbers"]["table_columns"]] == ["n", "s"]
    assert "types" in {t["table_name"] for t in schemas["every"]["db_schema_tables"]}


def test_adbc_table_schema_and_table_types(filled):
    with filled.adbc() as connection:
        assert connection.adbc_get_table_types() == ["TABLE"]
        schema = connection.adbc_get_table_schema("numbers", db_schema_filter="small")
        assert schema.names == ["n", "s"] and schema.field("n").type == pa.int64()
        info = connection.adbc_get_info()
    assert info["vendor_name"] == "lake"


@pytest.mark.parametrize("rows", [1, 10_000, 10_001, 123_457])
def test_adbc_ingest_creates_and_appends(server, rows):
    table = pa.table({"i": pa.array(range(rows), pa.int64()), "t": pa.array([f"row {i}" for i in range(rows)], pa.utf8())})
    with server.adbc() as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest(f"made{rows}", table, mode="create", db_schema_name="ingest") in (rows, -1)
        assert cursor.adbc_ingest(f"made{rows}", table, mode="append", db_schema_name="ingest") in (rows, -1)
        with pytest.raises(Exception, match="exists"):
            cursor.adbc_ingest(f"made{rows}", table, mode="create", db_schema_name="ingest")
        cursor.execute(f"SELECT count(*) AS c, count(DISTINCT i) AS d, sum(i)::BIGINT AS s FROM ingest.made{rows}")
        assert cursor.fetchall() == [(2 * rows, rows, rows * (rows - 1))]


def test_adbc_ingest_with_an_operation_id_twice_adds_once(server):
    table = pa.table({"i": pa.array(range(25_000), pa.int64())})
    operation = lake.uuid7()
    for attempt in range(2):
        with server.adbc() as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.flight.sql.rpc.call_header.lake-operation-id": operation})
            cursor.adbc_ingest("once", table, mode="create_append", db_schema_name="ingest")
    assert server.sql("SELECT count(*) AS c FROM ingest.once").column("c").to_pylist() == [25_000]


def ingest_descriptor(table, if_absent, if_exists, **options):
    namespace, name = table.split(".")
    fields = [lake.field(1, bytes([1 << 3, if_absent, 2 << 3, if_exists])), lake.field(2, name.encode()),
              lake.field(3, namespace.encode())]
    fields += [lake.field(1000, lake.field(1, key.encode()) + lake.field(2, value.encode())) for key, value in options.items()]
    return flight.FlightDescriptor.for_command(lake.command("CommandStatementIngest", *fields))


CREATE, FAIL_ABSENT, FAIL_EXISTS, APPEND, REPLACE = 1, 2, 1, 2, 3


def ingest(server, descriptor, table):
    with server.flight() as client:
        writer, reader = client.do_put(descriptor, table.schema)
        with writer:
            writer.write_table(table)
            writer.done_writing()
            return next(lake.fields(reader.read().to_pybytes()), (1, 0))[1]


def test_ingest_takes_the_operation_id_as_a_statement_option(server):
    table = pa.table({"i": pa.array(range(15_000), pa.int64())})
    descriptor = ingest_descriptor("ingest.option", CREATE, APPEND, **{"lake.operation_id": lake.uuid7()})
    assert ingest(server, descriptor, table) == 15_000
    assert ingest(server, descriptor, table) == 15_000
    assert server.sql("SELECT count(*) AS c FROM ingest.option").column("c").to_pylist() == [15_000]


def test_ingest_modes(server):
    table = pa.table({"i": pa.array([1], pa.int64())})
    with pytest.raises(KeyError, match="table not found"):
        ingest(server, ingest_descriptor("ingest.modes", FAIL_ABSENT, APPEND), table)
    assert ingest(server, ingest_descriptor("ingest.modes", CREATE, FAIL_EXISTS), table) == 1
    with pytest.raises((flight.FlightError, pa.ArrowException), match="replace"):
        ingest(server, ingest_descriptor("ingest.modes", CREATE, REPLACE), table)
    with pytest.raises(pa.ArrowInvalid, match="rows do not fit"):
        ingest(server, ingest_descriptor("ingest.modes", CREATE, APPEND), pa.table({"i": pa.array(["x"])}))
    assert server.sql("SELECT i FROM ingest.modes").to_pydict() == {"i": [1]}


def test_ingest_of_no_rows_creates_an_empty_table(server):
    assert ingest(server, ingest_descriptor("ingest.none", CREATE, FAIL_EXISTS), pa.table({"i": pa.array([], pa.int64())})) == 0
    assert server.sql("SELECT * FROM ingest.none").num_rows == 0


def test_adbc_ingest_of_one_large_chunk(server):
    rows = 1_500_000
    table = pa.table({"i": pa.array(range(rows), pa.int64()), "x": pa.array([0.5] * rows), "t": pa.array(["sixteen bytes..."] * rows)})
    assert table.column("i").num_chunks == 1
    large = {"adbc.flight.sql.client_option.with_max_msg_size": str(1 << 30)}  # the driver's own limit is 16 MiB
    with server.adbc(**large) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("large", table, mode="create", db_schema_name="ingest")
    got = server.sql("SELECT count(*) AS c, count(DISTINCT i) AS d, sum(x) AS s FROM ingest.large").to_pydict()
    assert got == {"c": [rows], "d": [rows], "s": [rows / 2]}


def test_handshake_gives_a_bearer_token(server):
    with server.flight() as client:
        header, value = client.authenticate_basic_token("anyone", "secret")
    assert header.lower() == b"authorization" and value.startswith(b"Bearer ")


def test_every_listed_action_is_implemented(server):
    with server.flight() as client:
        names = {action.type for action in client.list_actions()}
        assert {"create_table", "drop_table", "resolve", "list_tables_page", "list_namespaces_page",
                "CreatePreparedStatement", "ClosePreparedStatement"} <= names
        for name in names:
            try:
                list(client.do_action(flight.Action(name, b"{}")))
            except (flight.FlightError, pa.ArrowException) as error:
                assert "UNIMPLEMENTED" not in str(error) and "nimplemented" not in type(error).__name__, name


def test_listings_are_paged_and_complete(server):
    schema = pa.schema([pa.field("x", pa.int64())])
    for i in range(5):
        server.create(f"paged.t{i}", schema)
    seen, continuation = [], None
    with server.flight() as client:
        for _ in range(10):
            body = {"namespace": "paged", "limit": 2, **({"continuation": continuation} if continuation else {})}
            page = json.loads(next(iter(client.do_action(
                flight.Action("list_tables_page", json.dumps(body).encode())))).body.to_pybytes())
            assert len(page["names"]) <= 2
            seen += page["names"]
            continuation = page["continuation"]
            if continuation is None:
                break
    assert seen == [f"t{i}" for i in range(5)]


def test_information_schema_answers_from_the_catalog(filled):
    tables = filled.sql("SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'small'")
    assert tables.to_pydict() == {"table_schema": ["small"], "table_name": ["numbers"]}
    columns = filled.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'numbers' "
                         "ORDER BY ordinal_position")
    assert columns.column(0).to_pylist() == ["n", "s"]


def test_joins_aggregates_and_time_travel_in_one_statement(filled):
    got = filled.sql("SELECT count(*) AS c FROM small.numbers a JOIN small.numbers b ON a.n = b.n "
                     "JOIN lake.small.numbers c AT (VERSION => 1) ON true")
    assert got.column("c").to_pylist() == [0]


def test_a_drop_and_a_new_table_of_the_same_name(server):
    schema = pa.schema([pa.field("x", pa.int64())])
    server.create("again.t", schema)
    first = server.resolve("again.t")
    server.append("again.t", pa.record_batch([pa.array([1, 2])], schema=schema))
    with server.flight() as client:
        info = client.get_flight_info(lake.query_descriptor("SELECT * FROM again.t"))
        list(client.do_action(flight.Action("drop_table", b'{"namespace":"again","name":"t"}')))
        with pytest.raises(KeyError, match="table not found"):
            lake.execute(client, "SELECT * FROM again.t")
        server.create("again.t", schema)
        assert lake.execute(client, "SELECT * FROM again.t").num_rows == 0
        try:  # the old ticket never reads the new table
            assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 2
        except pa.ArrowInvalid as error:
            assert "snapshot" in str(error)
        with pytest.raises(pa.ArrowInvalid, match="revision_gone"):
            lake.execute(client, f"SELECT * FROM again.t AT (REVISION => '{first['incarnation_id']}:2')")


def test_readers_keep_their_version_while_writers_go_on(server):
    schema = pa.schema([pa.field("n", pa.int64())])
    server.create("held.t", schema)
    rows = pa.record_batch([pa.array(range(10_000))], schema=schema)
    for _ in range(20):
        server.append("held.t", rows)
    with server.flight() as client, server.flight() as other:
        streams = []
        for connection in (client, other):
            info = connection.get_flight_info(lake.query_descriptor("SELECT n FROM held.t"))
            streams.append(connection.do_get(info.endpoints[0].ticket))
        got = [stream.read_chunk().data.num_rows for stream in streams]
        for _ in range(50):
            server.append("held.t", pa.record_batch([pa.array([-1])], schema=schema))
        for index, stream in enumerate(streams):
            rest = stream.read_all()
            assert rest.column("n").to_pylist().count(-1) == 0
            assert got[index] + rest.num_rows == 200_000
    assert server.sql("SELECT count(*) AS c FROM held.t WHERE n = -1").column("c").to_pylist() == [50]
