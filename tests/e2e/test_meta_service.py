"""test_meta_service.py - the metadata service by itself: its actions, its append, its roles, its health."""
import base64
import contextlib
import json

import grpc
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import lake

ROWS = pa.record_batch({"id": pa.array([1, 2, 3]), "note": pa.array(["a", None, "c"])})
ACTIONS = ["create_table", "drop_table", "resolve", "list_tables", "list_tables_page", "list_namespaces",
           "list_namespaces_page", "catalog_snapshot"]


@pytest.fixture(scope="module")
def meta(tmp_path_factory):
    with lake.Server(tmp_path_factory.mktemp("meta") / "data", "meta") as server:
        yield server


def act(client, action, body=None, options=None):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    results = list(client.do_action(flight.Action(action, data), options))
    return [json.loads(result.body.to_pybytes()) for result in results]


def test_it_lists_its_actions_and_nothing_else_works(meta):
    with meta.flight() as client:
        assert [action.type for action in client.list_actions()] == ACTIONS
        for call in (lambda: client.get_flight_info(lake.query_descriptor("SELECT 1")),
                     lambda: client.do_get(flight.Ticket(b"x")).read_all(),
                     lambda: list(client.list_flights()),
                     lambda: act(client, "no_such_action")):
            with pytest.raises(NotImplementedError):
                call()


def test_a_table_from_names_and_one_from_a_schema(meta):
    columns = ["id:int64", "note:utf8?", "at:timestamp[us,UTC]", "p:decimal(10,2)", "e:fixed_size_list<float32>(4)",
               "s:struct<a:int64,b:utf8?>", "f:file"]
    schema = pa.schema([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.struct([("h", pa.float16())]))],
                       metadata={"k": "v"})
    with meta.flight() as client:
        assert act(client, "create_table", {"namespace": "made", "name": "names", "columns": columns}) == []
        encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
        assert act(client, "create_table",
                   {"namespace": "made", "name": "schema", "schema_ipc_base64": encoded}) == []
        names = act(client, "resolve", {"namespace": "made", "name": "names"})[0]
        stored = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(names["schema_ipc_base64"])))
        assert [str(field.type) for field in stored][:5] == [
            "int64", "string", "timestamp[us, tz=UTC]", "decimal128(10, 2)", "fixed_size_list<item: float not null>[4]"]
        assert [field.nullable for field in stored] == [False, True, False, False, False, False, False]
        assert stored.field("f").type == pa.struct([
            pa.field("uri", pa.string(), False), pa.field("content_type", pa.string(), False),
            pa.field("size_bytes", pa.uint64(), False), pa.field("sha256", pa.string(), False)])
        whole = act(client, "resolve", {"namespace": "made", "name": "schema"})[0]
        stored = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(whole["schema_ipc_base64"])))
        assert stored.equals(schema, check_metadata=True)
        assert whole["engine"] == "lance" and whole["location"].endswith(".lance")
        assert names["incarnation_id"] != whole["incarnation_id"]


BAD = [
    ("create_table", {"namespace": "bad", "name": "t", "columns": ["a:int64"], "location": "/etc"}),
    ("create_table", {"namespace": "bad", "name": "t"}),
    ("create_table", {"namespace": "bad", "name": "t", "columns": []}),
    ("create_table", {"namespace": "bad", "name": "t", "columns": ["a:int64", "a:utf8"]}),
    ("create_table", {"namespace": "bad", "name": "t", "columns": ["a"]}),
    ("create_table", {"namespace": "bad", "name": "t", "columns": ["a:nonsense"]}),
    ("create_table", {"namespace": "bad", "name": "a.b", "columns": ["a:int64"]}),
    ("create_table", {"namespace": "../x", "name": "t", "columns": ["a:int64"]}),
    ("create_table", {"namespace": "bad", "name": "t", "columns": ["a:int64"], "schema_ipc_base64": "AAAA"}),
    ("create_table", {"namespace": "bad", "name": "t", "schema_ipc_base64": "AAAA"}),
    ("create_table", b"{"),
    ("create_table", b'{"namespace":"bad","namespace":"bad","name":"t","columns":["a:int64"]}'),
    ("drop_table", {"namespace": "bad", "name": "t", "more": 1}),
    ("resolve", {"namespace": "bad"}),
    ("list_tables_page", {"namespace": "bad", "limit": 0}),
    ("list_tables_page", {"namespace": "bad", "limit": 257}),
    ("list_tables_page", {"namespace": "n" * 129, "limit": 1}),
    ("list_tables_page", {"namespace": "bad", "limit": 1, "continuation": "c" * 4097}),
    ("list_namespaces_page", {"limit": 1, "namespace": "bad"}),
    ("catalog_snapshot", {"schema_version": 2, "known_generation": None}),
]


@pytest.mark.parametrize("action,body", BAD)
def test_a_bad_body_is_invalid_and_changes_nothing(meta, action, body):
    with meta.flight() as client:
        with pytest.raises(pa.ArrowInvalid):
            act(client, action, body)
        assert "bad" not in act(client, "list_namespaces_page", {"limit": 256})[0]["names"]


def test_names_come_in_pages_each_once(meta):
    with meta.flight() as client:
        for name in "edcba":
            act(client, "create_table", {"namespace": "paged", "name": name, "columns": ["x:int64"]})
        seen, continuation = [], None
        while True:
            body = {"namespace": "paged", "limit": 2} | ({"continuation": continuation} if continuation else {})
            page = act(client, "list_tables_page", body)[0]
            assert len(page["names"]) <= 2
            seen += page["names"]
            continuation = page["continuation"]
            if continuation is None:
                break
        assert seen == list("abcde")
        assert act(client, "list_tables", {"namespace": "paged"})[0] == list("abcde")
        assert "paged" in act(client, "list_namespaces")[0]


def test_create_twice_drop_twice(meta):
    body = {"namespace": "twice", "name": "t", "columns": ["x:int64"]}
    table = {"namespace": "twice", "name": "t"}
    with meta.flight() as client:
        act(client, "create_table", body)
        first = act(client, "resolve", table)[0]
        with pytest.raises(pa.ArrowException, match="already exists"):
            act(client, "create_table", body)
        assert act(client, "resolve", table)[0] == first
        act(client, "drop_table", table)
        act(client, "drop_table", table)
        with pytest.raises(KeyError):
            act(client, "resolve", table)
        act(client, "create_table", body)
        assert act(client, "resolve", table)[0]["incarnation_id"] != first["incarnation_id"]


def test_the_snapshot_is_whole_and_then_unmodified(meta):
    with meta.flight() as client:
        act(client, "create_table", {"namespace": "snap", "name": "t", "columns": ["x:int64"]})
        whole = act(client, "catalog_snapshot", {"schema_version": 1, "known_generation": None})[0]
        assert whole["status"] == "snapshot"
        known = {"schema_version": 1, "known_generation": whole["generation"]}
        assert act(client, "catalog_snapshot", known)[0]["status"] == "not_modified"
        act(client, "drop_table", {"namespace": "snap", "name": "t"})
        assert act(client, "catalog_snapshot", known)[0]["status"] == "snapshot"


def test_an_append_replayed_is_one_version(meta):
    with meta.flight() as client:
        act(client, "create_table", {"namespace": "put", "name": "t", "columns": ["id:int64?", "note:utf8?"]})
        before = act(client, "resolve", {"namespace": "put", "name": "t"})[0]["current_version"]
        operation = lake.uuid7()
        assert lake.append(client, "put.t", ROWS, operation) == before + 1
        assert lake.append(client, "put.t", ROWS, operation) == before + 1
        assert lake.append(client, "put.t", ROWS) == before + 2
        with pytest.raises(pa.ArrowException, match="another payload"):
            lake.append(client, "put.t", ROWS.slice(0, 1), operation)
        with pytest.raises(pa.ArrowInvalid, match="digest"):
            lake.append(client, "put.t", ROWS, payload_sha256="0" * 64)
        assert act(client, "resolve", {"namespace": "put", "name": "t"})[0]["current_version"] == before + 2


def principals(tmp_path):
    path = tmp_path / "principals.json"
    path.write_text(json.dumps({"bindings": [
        {"token": "u", "principal_id": "ann", "tenant_id": "acme", "role": "user", "namespaces": ["robots"]},
        {"token": "s", "principal_id": "query", "tenant_id": "infra", "role": "query_service", "namespaces": []},
        {"token": "a", "principal_id": "root", "tenant_id": "infra", "role": "admin", "namespaces": []}]}))
    path.chmod(0o600)
    return {"LAKE_AUTH_PRINCIPALS_FILE": str(path)}


def headers(token, namespace=None, tenant=None):
    named = {"authorization": f"Bearer {token}", "x-lake-delegated-namespace": namespace,
             "x-lake-delegated-tenant": tenant}
    return flight.FlightCallOptions(headers=[(key.encode(), value.encode()) for key, value in named.items() if value])


def test_who_may_do_what(tmp_path):
    table = {"namespace": "robots", "name": "arm"}
    hidden = {"namespace": "secret", "name": "arm"}
    with lake.Server(tmp_path / "data", "meta", environment=principals(tmp_path)) as server, server.flight() as client:
        for made in (table, hidden):
            act(client, "create_table", {**made, "columns": ["x:int64"]}, headers("a"))
        act(client, "resolve", table, headers("u"))
        act(client, "resolve", table, headers("s", "robots", "acme"))
        refusals = set()
        for body, options in [(hidden, headers("u")), ({**hidden, "name": "nope"}, headers("u")),
                              (table, headers("u", "robots")), (table, headers("u", tenant="other")),
                              (table, headers("s")), (table, headers("s", "secret", "acme"))]:
            with pytest.raises(flight.FlightUnauthorizedError) as refusal:
                act(client, "resolve", body, options)
            refusals.add(str(refusal.value).split(". gRPC client")[0].split(". Client context")[0])
        assert len(refusals) == 1 and "resource is not available" in refusals.pop()
        for options in (None, headers("wrong")):
            with pytest.raises(flight.FlightUnauthenticatedError, match="missing or invalid bearer credential"):
                act(client, "resolve", table, options)
        assert act(client, "list_namespaces", None, headers("u"))[0] == ["robots"]
        assert act(client, "list_namespaces", None, headers("s"))[0] == ["robots", "secret"]
        with pytest.raises(flight.FlightUnauthorizedError):
            act(client, "catalog_snapshot", {"schema_version": 1, "known_generation": None}, headers("u"))


def test_failures_carry_their_code_where_grpc_looks_for_it(meta):
    with contextlib.closing(grpc.insecure_channel(f"127.0.0.1:{meta.port}")) as channel:
        call = channel.unary_stream("/arrow.flight.protocol.FlightService/DoAction",
                                    request_serializer=lambda data: data, response_deserializer=lambda data: data)
        body = json.dumps({"namespace": "no", "name": "where"}).encode()
        with pytest.raises(grpc.RpcError) as failure:
            list(call(lake.field(1, b"resolve") + lake.field(2, body)))
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        trailers = dict(failure.value.trailing_metadata())
        assert trailers["lake.code"] == "TABLE_NOT_FOUND"
        details = dict(lake.fields(trailers["grpc-status-details-bin"]))
        assert details[1] == 5 and details[2].startswith(b"table not found")
        info = dict(lake.fields(dict(lake.fields(details[3]))[2]))
        assert info == {1: b"TABLE_NOT_FOUND", 2: b"lake"}


def test_health(meta):
    with contextlib.closing(grpc.insecure_channel(f"127.0.0.1:{meta.port}")) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "arrow.flight.protocol.FlightService"):
            reply = health.Check(health_pb2.HealthCheckRequest(service=name))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as failure:
            health.Check(health_pb2.HealthCheckRequest(service="nobody"))
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        watch = health.Watch(health_pb2.HealthCheckRequest(service="nobody"))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


def test_a_watcher_is_told_before_the_server_goes(tmp_path):
    with lake.Server(tmp_path / "data", "meta") as server:
        with contextlib.closing(grpc.insecure_channel(f"127.0.0.1:{server.port}")) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""))
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            server.process.terminate()
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert list(watch) == []
        assert server.process.wait(10) == 0
