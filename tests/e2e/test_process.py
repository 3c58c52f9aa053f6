"""test_process.py - what the process does when its surroundings are bad: locks, ports, disks, signals, settings. LK_SERIAL"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import lake

SCHEMA = pa.schema([pa.field("n", pa.int64()), pa.field("s", pa.utf8())])
ROWS = pa.record_batch([pa.array([1, 2]), pa.array(["a", "b"])], schema=SCHEMA)


def serve(data_dir, *arguments, environment=None, user=None):
    return subprocess.run([lake.LAKE, "serve", "--data-dir", str(data_dir), "--addr", "127.0.0.1:0", *arguments],
                          capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})}, user=user)


def test_a_second_process_on_the_same_directory_exits_5(own_server):
    done = serve(own_server.data_dir)
    assert done.returncode == 5, done.stderr
    assert "in use by another process" in done.stderr
    own_server.create("p.t", SCHEMA)
    own_server.append("p.t", ROWS)
    assert own_server.sql("SELECT * FROM p.t").num_rows == 2


def test_an_occupied_port_exits_5(own_server, tmp_path):
    done = subprocess.run([lake.LAKE, "serve", "--data-dir", str(tmp_path / "other"), "--addr",
                           f"127.0.0.1:{own_server.port}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, done.stderr
    assert "address is already in use" in done.stderr


def test_a_port_of_a_stranger_exits_5(tmp_path):
    with contextlib.closing(socket.socket()) as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        done = subprocess.run([lake.LAKE, "serve", "--data-dir", str(tmp_path / "d"), "--addr",
                               f"127.0.0.1:{stranger.getsockname()[1]}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, done.stderr


def test_a_listener_off_loopback_needs_credentials(tmp_path):
    done = subprocess.run([lake.LAKE, "serve", "--data-dir", str(tmp_path / "d"), "--addr", "0.0.0.0:0"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name, value", [("LAKE_QUERY_MEMORY_BYTES", "1"), ("LAKE_QUERY_MAX_CONCURRENT", "many"),
                                         ("LAKE_LOG_FORMAT", "xml"), ("LAKE_SHUTDOWN_GRACE_MS", "-1"),
                                         ("LAKE_AUTH_TOKEN_FILE", "/nonexistent/token")])
def test_a_bad_setting_exits_2_before_anything_is_opened(tmp_path, name, value):
    done = serve(tmp_path / "d", environment={name: value})
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "d").exists()


def mounted(size, path):
    path.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    return done.returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    if not mounted("24m", disk):
        pytest.skip("mounting a tmpfs is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_read_only_directory(tmp_path):
    disk = tmp_path / "disk"
    if not mounted("8m", disk):
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = serve(disk / "data")
        assert done.returncode in (1, 5), done.stderr
        assert "data directory" in done.stderr or "Read-only" in done.stderr
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_full_disk_refuses_the_append_and_loses_nothing(small_disk, tmp_path):
    rows = pa.record_batch([pa.array(range(5000)), pa.array([os.urandom(100).hex() for _ in range(5000)])], schema=SCHEMA)
    server = lake.Server(small_disk / "data")
    server.data_dir.parent.mkdir(exist_ok=True)
    with server:
        server.create("disk.t", SCHEMA)
        acknowledged = 0
        with pytest.raises((flight.FlightError, pa.ArrowException)) as caught:
            for _ in range(100):
                server.append("disk.t", rows)
                acknowledged += 1
        assert "full" in str(caught.value) or "storage" in str(caught.value) or "store" in str(caught.value), caught.value
        assert acknowledged > 2
        assert server.sql("SELECT count(*) AS c FROM disk.t").column("c").to_pylist() == [5000 * acknowledged]
        path = tmp_path / "rows.arrow"
        with pa.ipc.new_file(str(path), SCHEMA) as file:
            file.write_batch(rows)
        done = server.run("append", "disk.t", path, check=False)
        assert done.returncode == 1, done.stderr
        server.kill()
        # A start needs about 100 KB for the KV (the next test): what the appends left may be less.
        subprocess.run(["mount", "-o", "remount,size=24832k", str(small_disk)], check=True)
        server.start()
        assert server.sql("SELECT count(*) AS c FROM disk.t").column("c").to_pylist() == [5000 * acknowledged]
        subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
        again(lambda: server.append("disk.t", rows), seconds=15)  # there is room: writes go on
        assert server.sql("SELECT count(*) AS c FROM disk.t").column("c").to_pylist() == [5000 * (acknowledged + 1)]


def test_a_server_does_not_start_on_a_disk_without_any_room(small_disk, tmp_path):
    server = lake.Server(small_disk / "data")
    with server:
        server.create("disk.t", SCHEMA)
        server.append("disk.t", ROWS)
        with open(small_disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                assert filler.write(b"0" * 4096) == 4096 or filler.write(b"0")
        server.kill()
        done = serve(small_disk / "data")
        assert done.returncode == 1, done.stderr
        assert "full" in done.stderr and "free bytes to be opened" in done.stderr
        (small_disk / "filler").unlink()
        server.start()
        assert server.sql("SELECT * FROM disk.t").num_rows == 2


def test_sigterm_drains_and_exits_0(own_server):
    own_server.create("p.t", SCHEMA)
    own_server.append("p.t", pa.record_batch([pa.array(range(10_000)), pa.array(["x" * 100] * 10_000)], schema=SCHEMA))
    with own_server.flight() as client:
        info = client.get_flight_info(lake.query_descriptor(
            "SELECT a.n, b.s FROM p.t a, p.t b WHERE b.n < 40"))
        stream = client.do_get(info.endpoints[0].ticket)
        rows = stream.read_chunk().data.num_rows
        own_server.process.send_signal(signal.SIGTERM)
        rows += sum(chunk.data.num_rows for chunk in stream)
        assert rows == 400_000
    assert own_server.process.wait(40) == 0


def test_a_second_signal_ends_it_at_once(tmp_path):
    with lake.Server(tmp_path / "data") as server, server.flight() as client:
        server.create("p.t", SCHEMA)
        server.append("p.t", pa.record_batch([pa.array(range(10_000)), pa.array(["x" * 100] * 10_000)], schema=SCHEMA))
        info = client.get_flight_info(lake.query_descriptor("SELECT a.n, b.s FROM p.t a, p.t b"))
        stream = client.do_get(info.endpoints[0].ticket)
        stream.read_chunk()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 128 + signal.SIGTERM


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("sql", ["SELECT a.n, b.s FROM p.t a, p.t b, p.t c", "SELECT count(*) FROM p.t a, p.t b, p.t c"])
def test_a_cancelled_statement_stops_working(own_server, sql):
    own_server.create("p.t", SCHEMA)
    own_server.append("p.t", pa.record_batch([pa.array(range(10_000)), pa.array(["x" * 10] * 10_000)], schema=SCHEMA))
    with own_server.flight() as client:
        info = client.get_flight_info(lake.query_descriptor(sql))
        with pytest.raises(flight.FlightError):
            client.do_get(info.endpoints[0].ticket, flight.FlightCallOptions(timeout=1.0)).read_all()
    time.sleep(0.5)
    before = cpu_seconds(own_server.process.pid)
    time.sleep(1.0)
    assert cpu_seconds(own_server.process.pid) - before < 0.2


def again(call, seconds):
    """Until it works: a channel that lost its server looks for it every two seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (flight.FlightError, pa.ArrowException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_a_query_waits_for_its_metasrv_and_says_when_none_comes(tmp_path):
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    apart = ["--metadata-addr", f"grpc://127.0.0.1:{port}"]
    alone = lake.Server(tmp_path / "a" / "data", "query", apart, {"LAKE_QUERY_STARTUP_TIMEOUT_MS": "300"})
    with pytest.raises(RuntimeError, match=r"(?s)exit 5.*no Metasrv answers"):
        alone.start()
    meta = lake.Server(tmp_path / "m" / "data", "meta")
    meta.port = port
    later = threading.Timer(1.0, meta.start)
    later.start()
    try:
        soon = {"LAKE_QUERY_STARTUP_TIMEOUT_MS": "4000"}  # found though its calls failed before, and well within 5 s
        with lake.Server(tmp_path / "q" / "data", "query", apart, soon) as query:
            query.create("apart.t", SCHEMA)
            assert query.sql("SELECT * FROM apart.t").num_rows == 0
    finally:
        later.join()
        meta.kill()


def test_the_tiers_apart(tmp_path):
    """lake meta and lake query as two processes: the same clients, the same answers; reads outlive the authority."""
    with lake.Server(tmp_path / "meta" / "data", "meta") as meta:
        with lake.Server(tmp_path / "query" / "data", "query", ["--metadata-addr", meta.endpoint]) as query:
            query.create("apart.t", SCHEMA)
            operation = lake.uuid7()
            version = query.append("apart.t", ROWS, operation)
            assert query.append("apart.t", ROWS, operation) == version
            assert query.sql("SELECT * FROM apart.t").num_rows == 2
            with query.adbc() as connection, connection.cursor() as cursor:
                cursor.adbc_ingest("t", pa.table({"n": pa.array([3]), "s": pa.array(["c"])}), mode="append",
                                   db_schema_name="apart")
            assert query.sql("SELECT sum(n)::BIGINT AS s FROM apart.t").column("s").to_pylist() == [6]
            meta.kill()
            time.sleep(6)  # past every freshness bound
            assert query.sql("SELECT count(*) AS c FROM apart.t").column("c").to_pylist() == [3]
            with pytest.raises(flight.FlightError):
                query.append("apart.t", ROWS)
            meta.start()
            again(lambda: query.append("apart.t", ROWS), seconds=10)
            assert query.sql("SELECT count(*) AS c FROM apart.t").column("c").to_pylist() == [5]


def token_file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_tokens_and_grants(tmp_path):
    bindings = [{"token": "boss-token", "principal_id": "boss", "tenant_id": "lab", "role": "admin", "namespaces": []},
                {"token": "ann-token", "principal_id": "ann", "tenant_id": "lab", "role": "user", "namespaces": ["open"]}]
    principals = token_file(tmp_path, "principals.json", json.dumps({"bindings": bindings}))
    with lake.Server(tmp_path / "s" / "data", environment={"LAKE_AUTH_PRINCIPALS_FILE": principals}) as server:
        boss = {"LAKE_TOKEN_FILE": token_file(tmp_path, "boss", "boss-token\n")}
        ann = {"LAKE_TOKEN_FILE": token_file(tmp_path, "ann", "ann-token")}
        for name in ("open.t", "secret.t"):
            server.run("table", "create", name, "--column", "n:int64", environment=boss)
        assert server.run("sql", "SELECT 1", check=False).returncode == 3
        assert server.run("sql", "SELECT * FROM open.t", environment=ann).returncode == 0
        absent = server.run("sql", "SELECT * FROM secret.nothing", environment=ann, check=False)
        denied = server.run("sql", "SELECT * FROM secret.t", environment=ann, check=False)
        assert denied.returncode == absent.returncode == 3
        assert denied.stderr.splitlines()[0] == absent.stderr.splitlines()[0]
        assert server.run("table", "list", environment=ann).stdout.split() == [b"open.t"]
        assert server.run("table", "create", "secret.u", "--column", "n:int64", environment=ann, check=False).returncode == 3
        with server.adbc(username="whoever", password="ann-token") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM open.t")
            assert cursor.fetchall() == [(0,)]
