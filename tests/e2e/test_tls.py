"""test_tls.py - a server with TLS and a token, and what each client must be told to trust it; odd gRPC clients."""
import contextlib
import subprocess

import grpc
import pyarrow as pa
import pyarrow.flight as flight
import pytest

import lake


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    place = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=lake.test", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", "key.pem", "-out", "cert.pem"], cwd=place, check=True, capture_output=True)
    (place / "token").write_text("s3cret\n")
    for name in ("key.pem", "token"):
        (place / name).chmod(0o600)
    environment = {"LAKE_TLS_CERT_FILE": str(place / "cert.pem"), "LAKE_TLS_KEY_FILE": str(place / "key.pem"),
                   "LAKE_AUTH_TOKEN_FILE": str(place / "token")}
    with lake.Server(place / "data", environment=environment) as server:
        server.place = place
        server.certificate = (place / "cert.pem").read_bytes()
        yield server


def run(server, *arguments, ca=True):
    trust = ["--ca", str(server.place / "cert.pem")] if ca else []
    return server.run(*arguments, "--endpoint", f"grpc+tls://127.0.0.1:{server.port}", "--token-file",
                      str(server.place / "token"), *trust, check=False)


def test_the_command_line(secured):
    assert run(secured, "table", "create", "tls.t", "--column", "n:int64").returncode == 0
    done = run(secured, "sql", "--format", "csv", "SELECT count(*) AS c FROM tls.t")
    assert done.stdout.split() == [b"c", b"0"]
    assert run(secured, "sql", "SELECT 1", ca=False).returncode == 5
    plain = secured.run("sql", "SELECT 1", check=False)  # grpc:// to a TLS port
    assert plain.returncode == 5
    trusted = secured.run("sql", "SELECT 1", "--ca", str(secured.place / "cert.pem"), check=False)
    assert trusted.returncode == 2 and b"TLS endpoint" in trusted.stderr


def test_pyarrow(secured):
    with contextlib.closing(flight.FlightClient(f"grpc+tls://localhost:{secured.port}",
                                                tls_root_certs=secured.certificate)) as client:
        token, value = client.authenticate_basic_token("anyone", "s3cret")
        assert (token, value) == (b"authorization", b"Bearer s3cret")
        options = flight.FlightCallOptions(headers=[(token, value)])
        assert lake.execute(client, "SELECT 7 AS x", options).column("x").to_pylist() == [7]
        with pytest.raises(flight.FlightUnauthenticatedError):
            lake.execute(client, "SELECT 7 AS x")
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.authenticate_basic_token("anyone", "wrong")


def test_adbc(secured):
    import adbc_driver_flightsql.dbapi as adbc
    for more in ({"adbc.flight.sql.authorization_header": "Bearer s3cret"},
                 {"username": "anyone", "password": "s3cret"}):
        options = {"adbc.flight.sql.client_option.tls_root_certs": secured.certificate.decode(), **more}
        with adbc.connect(f"grpc+tls://localhost:{secured.port}", db_kwargs=options, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 AS a")
                assert cursor.fetch_arrow_table() == pa.table({"a": pa.array([1], pa.int32())})


def test_a_key_that_others_can_read_stops_the_server(secured, tmp_path):
    key = tmp_path / "key.pem"
    key.write_bytes((secured.place / "key.pem").read_bytes())
    key.chmod(0o644)
    environment = {"LAKE_TLS_CERT_FILE": str(secured.place / "cert.pem"), "LAKE_TLS_KEY_FILE": str(key)}
    with pytest.raises(RuntimeError, match="exit 2"):
        lake.Server(tmp_path / "data", environment=environment).start()
    assert not (tmp_path / "data" / "meta").exists()


def test_odd_clients_are_answered_and_hurt_nobody(own_server):
    target = f"127.0.0.1:{own_server.port}"
    action = "/arrow.flight.protocol.FlightService/DoAction"
    raw = {"request_serializer": lambda data: data, "response_deserializer": lambda data: data}
    with contextlib.closing(grpc.insecure_channel(target)) as channel:
        with pytest.raises(grpc.RpcError) as failure:  # compressed requests are not taken
            list(channel.unary_stream(action, **raw)(b"\x0a\x07resolve" + bytes(4096), compression=grpc.Compression.Gzip))
        assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED
        for request in (b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xc3\x28", b""):
            with pytest.raises(grpc.RpcError) as failure:
                list(channel.unary_stream(action, **raw)(request))
            assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        handshake = channel.stream_stream("/arrow.flight.protocol.FlightService/Handshake", **raw)
        for password in (b"line\nbreak", b"\x00\xff", "p\u00e4ss".encode()):  # development takes any, and survives it
            basic = lake.field(2, lake.field(2, b"user") + lake.field(3, password))
            with contextlib.suppress(grpc.RpcError):
                list(handshake(iter([basic])))
        many = [("x-many", "v" * 100)] * 200  # over the limit of headers
        with pytest.raises(grpc.RpcError):
            list(channel.unary_stream(action, **raw)(b"", metadata=many))
    assert own_server.sql("SELECT 1 AS x").num_rows == 1


def test_two_hundred_connections_at_once(own_server):
    with contextlib.ExitStack() as stack:
        calls = []
        for _ in range(200):
            channel = stack.enter_context(contextlib.closing(grpc.insecure_channel(
                f"127.0.0.1:{own_server.port}", options=[("grpc.use_local_subchannel_pool", 1)])))
            calls.append(channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=lambda data: data,
                                             response_deserializer=lambda data: data).future(b""))
        assert all(call.result() == b"\x08\x01" for call in calls)
    assert own_server.sql("SELECT 1 AS x").num_rows == 1
