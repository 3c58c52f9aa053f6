"""test_rollout_cli.py - `lake rollout` as a person types it: settings and where they come from, the server, every verb, exit
codes. What the stores keep is tests/rollout's matter."""
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import types
import urllib.error
import urllib.request
import uuid

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import lake # first: it says where the next one is
import s3_support

CONFIG = (lake.ROOT / "src/base/config.def").read_text()
OID = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


def run(*arguments, check=True, environment=None, **more):
    """Runs lake without this machine's own settings."""
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **(environment or {})}
    done = subprocess.run([lake.LAKE, *map(str, arguments)], capture_output=True, timeout=60, env=clean, **more)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done


class Rollout:
    """`lake rollout serve` on a directory."""

    def __init__(self, data_dir, *extra, environment=None, command=("rollout", "serve")):
        self.data_dir, self.extra, self.command = pathlib.Path(data_dir), extra, command
        self.environment = environment or {}

    def __enter__(self):
        ready = self.data_dir.parent / f"ready-{uuid.uuid4().hex}.json"
        self.log = self.data_dir.parent / "rollout.log"
        clean = {"PATH": os.environ["PATH"], **self.environment}
        where = ["--port", "0"] if self.command[0] == "rollout" else []
        self.process = subprocess.Popen(
            [lake.LAKE, *self.command, *where, "--data-dir", str(self.data_dir), "--ready-file", str(ready), *self.extra],
            stderr=self.log.open("ab"), env=clean)
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        self.ready = json.loads(ready.read_text())
        assert self.ready["pid"] == self.process.pid
        self.url = "http://" + self.ready["rollout"]
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)

    def cli(self, *arguments, **more):
        return run("rollout", *arguments, "--url", self.url, **more)

    def http(self, path, method="GET", body=None, token=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.url + path, method=method, headers=headers,
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Rollout(tmp_path_factory.mktemp("rollout") / "data", "--instance-id", "rollout-0") as running:
        yield running


def ndjson(text):
    return [json.loads(line) for line in text.decode().splitlines()]


# -- settings ------------------------------------------------------------------------------------------------------------

def checked(*flags, environment=None):
    return json.loads(run("rollout", "--check-config", "--json", *flags, environment=environment).stdout)


def rows_of_config():
    """name -> (default, minimum or None, maximum or None), of the settings that flags stand for."""
    rows = {}
    for name, default, low, high in re.findall(r'^N\(\w+,\s+"(\w+)",\s+(\d+),\s*(\d+),\s*(\d+),', CONFIG, re.M):
        rows[name] = (default, int(low), int(high))
    for name, default in re.findall(r'^S\(\w+,\s+"(\w+)",\s+(NULL|"[^"]*"),', CONFIG, re.M):
        rows[name] = (None if default == "NULL" else default[1:-1], None, None)
    return rows


def values_of(setting):
    """Two other values that this setting may have."""
    name, (default, low, high) = setting, rows_of_config()[setting]
    words = {"ROLLOUT_MERGE_MODE": ("background", "inline"), "ROLLOUT_VISIBILITY": ("deferred", "immediate"),
             "ROLLOUT_FSYNC": ("never", "always"), "ROLLOUT_WAL": ("always", "never"),
             "ROLLOUT_ON_CONFLICT": ("keep", "accept"), "ROLLOUT_SCHEMA_PROFILE": ("v031", "v036"),
             "ROLLOUT_CHECKOUT_SCOPE": ("shared", "request"), "ROLLOUT_CORS": ("always", "never"),
             "ROLLOUT_MAX_INFLIGHT_BLOB_BYTES": ("1024", "0"), "ROLLOUT_LISTEN_HOST": ("127.0.0.2", "::1"),
             "ROLLOUT_DATA_DIR": ("here", "there"), "INSTANCE_ID": ("a", "b"),
             "ROLLOUT_STORAGE_ENDPOINT": ("http://127.0.0.1:1", "http://127.0.0.1:2")}
    if low is not None:
        return str(low + 1), str(low + 2)
    return words.get(name)


def test_flag_goes_before_variable_and_variable_before_default():
    """Every flag of the server, three times."""
    defaults = checked()["settings"]
    assert len(defaults) >= 36
    for setting in defaults:
        assert (setting["value"], setting["source"]) == (rows_of_config()[setting["variable"]][0], "default")
    tried = {s["variable"]: (s["flag"], *values_of(s["variable"])) for s in defaults if values_of(s["variable"])}
    assert len(tried) >= 30 # the others are switches, or files that must exist
    variables = {name: first for name, (_, first, _) in tried.items()}
    flags = [word for flag, _, second in tried.values() for word in (flag, second)]
    got = {s["variable"]: (s["value"], s["source"]) for s in checked(environment=variables)["settings"]}
    assert {name: got[name] for name in tried} == {name: (first, name) for name, (_, first, _) in tried.items()}
    got = {s["variable"]: (s["value"], s["source"]) for s in checked(*flags, environment=variables)["settings"]}
    assert {name: got[name] for name in tried} == {name: (second, flag) for name, (flag, _, second) in tried.items()}
    switches = ["--strict-alignment", "--require-instance-id", "--wal-gc"]
    got = {s["flag"]: (s["value"], s["source"]) for s in checked(*switches, "--instance-id", "x")["settings"]}
    assert {flag: got[flag] for flag in switches} == {flag: ("1", flag) for flag in switches}


@pytest.mark.parametrize("flags, environment, instance, source", [
    ([], {}, "default", "default"),
    ([], {"HOSTNAME": "h"}, "h", "HOSTNAME"),
    ([], {"HOSTNAME": ""}, "default", "default"),
    ([], {"HOSTNAME": "h", "INSTANCE_ID": "i"}, "i", "INSTANCE_ID"),
    ([], {"HOSTNAME": "h", "INSTANCE_ID": ""}, "h", "HOSTNAME"),
    (["--instance-id", "f"], {"HOSTNAME": "h", "INSTANCE_ID": "i"}, "f", "--instance-id"),
    (["--instance-id="], {"HOSTNAME": "h", "INSTANCE_ID": "i"}, "i", "INSTANCE_ID"),
    (["--instance-id="], {"HOSTNAME": "h"}, "h", "HOSTNAME"),
    (["--instance-id", "node/\u03b1"], {}, "node/\u03b1", "--instance-id"),
])
def test_who_an_instance_is(flags, environment, instance, source):
    got = checked(*flags, environment=environment)
    assert (got["instance_id"], got["instance_source"]) == (instance, source)
    assert got["shard"] == str(uuid.uuid5(OID, instance))


@pytest.mark.parametrize("flags, environment, said", [
    (["--port", "65536"], {}, "--port must be 0..65535"),
    (["--port", "-1"], {}, "--port must be 0..65535"),
    ([], {"ROLLOUT_LISTEN_PORT": "tcp://10.0.0.1:3000"}, "ROLLOUT_LISTEN_PORT must be 0..65535"),
    (["--rollout-flush-interval-secs", "0"], {}, "--rollout-flush-interval-secs must be 1..3600 seconds"),
    (["--fsync", "sometimes"], {}, "--fsync must be one of always never"),
    ([], {"ROLLOUT_WAL": "x"}, "ROLLOUT_WAL must be one of auto always never"),
    (["--visibility", "deferred", "--wal", "never"], {}, "--wal"),
    (["--rollout-max-inflight-blob-bytes", "lots"], {}, "must be auto or a number of bytes"),
    (["--data-dir", "gs://bucket/x"], {}, "gs://"),
    (["--data-dir", "az://container/x"], {}, "az://"),
    (["--data-dir", "s3://"], {}, "s3://"),
    (["--data-dir", "/etc/passwd"], {}, "/etc/passwd is a file"),
    (["--host", "rollout.example"], {}, "rollout.example"),
    (["--host", "0.0.0.0"], {}, "--tls-cert and --tls-key, and --auth-token-file; or LAKE_ALLOW_INSECURE=1"),
    (["--require-instance-id"], {}, "set INSTANCE_ID"),
    (["--tls-cert", "/nowhere.pem"], {}, "--tls-cert and --tls-key go together"),
    (["--auth-token-file", "/nowhere"], {}, "/nowhere"),
    (["--rollout-merge-after", "1"], {}, "unknown option --rollout-merge-after"),
])
def test_a_bad_setting_ends_with_2_and_one_line(tmp_path, flags, environment, said):
    for check in (["--check-config"], []):
        done = run("rollout", "serve", *flags, *check, check=False, environment=environment, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr.decode() and done.stderr.count(b"\n") == 1 and done.stdout == b""
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_cannot_be_made_ends_the_start():
    done = run("rollout", "--port", "0", "--data-dir", "/proc/nowhere", check=False)
    assert done.returncode == 2 and b"cannot use the data directory: make directory /proc/nowhere" in done.stderr


def test_an_override_by_name_lets_it_listen_everywhere():
    got = checked("--host", "0.0.0.0", environment={"LAKE_ALLOW_INSECURE": "1"})
    assert got["address"] == "0.0.0.0:3000"
    assert checked("--host", "::1", "--port", "4000")["address"] == "[::1]:4000"


def test_help_lists_every_flag_with_its_variable():
    text = run("rollout", "--help").stdout.decode()
    for setting in checked()["settings"]:
        assert setting["flag"] in text and f"[{setting['variable']}" in text
    assert "read  6f1c" in text and "SIGTERM" in text and "docs/OPERATIONS.md" in text
    for verb in ("serve", "put", "list", "get", "blob", "merge", "fsck", "adopt", "gc"):
        assert run("rollout", verb, "--help").stdout.startswith(b"usage: lake rollout " + verb.encode())
    assert b"rollout put" in run("--help").stdout
    assert max(map(len, text.splitlines())) <= 121 and "refuses to start as instance default [ROLLOUT_REQUIRE_INSTANCE_ID=1]" in text
    mistyped = run("rollout", "lst", check=False)
    assert mistyped.returncode == 2 and b"there is no 'lake rollout lst'" in mistyped.stderr


# -- the server ----------------------------------------------------------------------------------------------------------

def test_it_says_who_it_is_and_ends_with_0(tmp_path):
    with Rollout(tmp_path / "data", environment={"HOSTNAME": "pod-3"}) as running:
        ready = json.loads(running.http("/api/v1/ready")[1])
        assert (ready["instance_id"], ready["instance_id_source"]) == ("pod-3", "HOSTNAME")
        assert ready["shard"] == str(uuid.uuid5(OID, "pod-3"))
        running.cli("put", "rl", "-", "--create", input=b'{"rollout_id":"r"}')
        assert running.stop() == 0
        log = running.log.read_text()
        assert "rollout instance id=pod-3 source=HOSTNAME" in log and "stopped" in log


def test_the_verb_may_be_left_out(tmp_path):
    with Rollout(tmp_path / "data", command=("rollout",)) as running:
        assert running.http("/api/v1/health") == (200, b'{"status":"ok"}')


def test_an_address_in_use_is_said(server, tmp_path):
    port = server.url.rsplit(":", 1)[1]
    done = run("rollout", "--port", port, "--data-dir", tmp_path / "d", check=False)
    assert done.returncode == 5 and b"choose another port" in done.stderr


def test_tokens_and_their_roles(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("read r-token\nwrite w-token\nadmin a-token\n")
    tokens.chmod(0o600)
    with Rollout(tmp_path / "data", "--auth-token-file", str(tokens)) as running:
        assert running.http("/api/v1/health")[0] == 200
        assert running.cli("list", check=False).returncode == 3
        denied = running.cli("put", "rl", "-", "--create", check=False, input=b'{"rollout_id":"r"}',
                             environment={"ROLLOUT_TOKEN": "r-token"})
        assert denied.returncode == 3
        running.cli("put", "rl", "-", "--create", input=b'{"rollout_id":"r"}', environment={"ROLLOUT_TOKEN": "w-token"})
        (tmp_path / "mine").write_text("r-token\n")
        assert running.cli("list", "--token-file", tmp_path / "mine").stdout == b"rl\n"
        assert running.cli("merge", "rl", check=False, environment={"ROLLOUT_TOKEN": "w-token"}).returncode == 3
        assert running.cli("merge", "rl", environment={"ROLLOUT_TOKEN": "a-token"}).returncode == 0


def test_beside_the_other_servers(tmp_path):
    with Rollout(tmp_path / "data", "--addr", "127.0.0.1:0", "--rollout-addr", "127.0.0.1:0", command=("serve",)) as running:
        running.cli("put", "rl", "-", "--create", input=b'{"id":"x","rollout_id":"r"}')
        assert running.cli("list", "rl", "--columns", "id", "--format", "ndjson").stdout == b'{"id":"x"}\n'
        endpoint = "grpc://" + running.ready["query"]
        assert b"1" in run("sql", "SELECT 1 AS one", "--endpoint", endpoint).stdout
        assert (tmp_path / "data/rollouts/rl.rollout.lance").is_dir()
        assert running.stop() == 0
        said = running.log.read_text()
        assert len(re.findall(r"\bstopping\b", said)) == 1 and len(re.findall(r"\bstopped\b", said)) == 1, said


@pytest.mark.parametrize("verb", ["list", "get", "blob", "stats"])
def test_readers_name_no_shard_as_they_write_none(verb):
    assert b"--data-dir" in run("rollout", verb, "--help").stdout
    assert b"--instance-id" not in run("rollout", verb, "--help").stdout


# -- put -------------------------------------------------------------------------------------------------------------------

def rows_in(server, name, *more):
    return ndjson(server.cli("list", name, "--format", "ndjson", *more).stdout)


def test_put_reads_every_kind_of_file(server, tmp_path):
    record = {"rollout_id": "r", "content": 'say "id": 1', "output_tokens": [1, 2], "reward": 0.1, "metadata": {"id": [1, {"id": 2}]}}
    files = {"a.ndjson": f"\n{json.dumps({**record, 'id': 'a-1'})}\n\n  {json.dumps({'id': 'a-2', 'rollout_id': 'q'})}\r\n",
             "b.json": json.dumps({"records": [{**record, "id": "b-1"}, {"id": "b-2", "rollout_id": "q"}]}),
             "c.json": json.dumps([{**record, "id": "c-1"}, {"id": "c-2", "rollout_id": "q"}], indent=2),
             "d.json": json.dumps({**record, "id": "d-1"}, indent=2)}
    server.cli("put", "kinds", "-", "--create", input=b"")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        done = json.loads(server.cli("put", "kinds", tmp_path / name, "--json").stdout)
        assert done["records"] == (1 if name == "d.json" else 2) and done["adds"] == 1
    got = {row["id"]: row for row in rows_in(server, "kinds")}
    assert sorted(got) == ["a-1", "a-2", "b-1", "b-2", "c-1", "c-2", "d-1"]
    for first in ("a-1", "b-1", "c-1", "d-1"):
        assert {key: got[first][key] for key in record} == record


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_put_reads_rows(server, tmp_path, ending, there):
    table = pa.table({"rollout_id": ["r1", "r2"], "output_tokens": [[1, 2], [3]], "reward": [0.5, None],
                      "binary_payload": pa.array([b"bytes", None], pa.large_binary())})
    if ending == "csv":
        table = table.select(["rollout_id", "reward"])
        (tmp_path / "rows.csv").write_text("rollout_id,reward\nr1,0.5\nr2,\n")
    elif ending == "parquet":
        parquet.write_table(table, tmp_path / "rows.parquet")
    else:
        with pa.ipc.new_file(str(tmp_path / "rows.arrow"), table.schema) as out:
            out.write_table(table)
    name = f"rows_{ending}"
    where = ["--url", server.url] if there else ["--data-dir", tmp_path / "data"]
    ids = run("rollout", "put", name, tmp_path / f"rows.{ending}", "--create", "--ids", *where).stdout.decode().split()
    assert len(ids) == 2 and {uuid.UUID(text).version for text in ids} == {7}
    rows = ndjson(run("rollout", "list", name, "--format", "ndjson", *where).stdout)
    rows.sort(key=lambda row: row["rollout_id"])
    assert [(row["id"], row["rollout_id"], row.get("reward")) for row in rows] == [(ids[0], "r1", 0.5), (ids[1], "r2", None)]
    if ending != "csv":
        assert [row["output_tokens"] for row in rows] == [[1, 2], [3]]
        assert run("rollout", "blob", name, ids[0], "-o", "-", *where).stdout == b"bytes"


def test_put_reads_an_arrow_stream_on_stdin(server):
    table = pa.table({"id": ["s1", "s2"], "rollout_id": ["r", "r"], "role": pa.array(["tool", "grade"]).dictionary_encode()})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as out:
        out.write_table(table)
    server.cli("put", "piped", "-", "--create", "--format", "arrow", input=stream.getvalue().to_pybytes())
    assert {row["id"]: row["role"] for row in rows_in(server, "piped")} == {"s1": "tool", "s2": "grade"}
    assert server.cli("put", "piped", "-", "--format", "excel", input=b"", check=False).returncode == 2


def test_put_gives_ids_before_it_sends(server, tmp_path):
    done = server.cli("put", "ids", "-", "--create", "--ids", input=b'{"rollout_id":"r"}\n{}\n{"id":"mine","rollout_id":"r"}',
                      check=False)
    assert done.returncode == 1 and b"rollout_id" in done.stderr and done.stdout == b""
    done = server.cli("put", "ids", "-", "--ids", input=b'{"rollout_id":"r"}\n{"rollout_id":"r", "id" : "mine"}\n')
    made, mine = done.stdout.decode().split()
    assert uuid.UUID(made).version == 7 and mine == "mine"
    assert {row["id"] for row in rows_in(server, "ids")} == {made, "mine"}


def test_put_goes_in_groups(server, tmp_path):
    lines = "".join(json.dumps({"id": f"g{i:03}", "rollout_id": "r", "content": "x" * 100}) + "\n" for i in range(100))
    (tmp_path / "g.ndjson").write_text(lines)
    assert json.loads(server.cli("put", "groups", tmp_path / "g.ndjson", "--create", "--json", "--batch-rows", "30").stdout)[
        "adds"] == 4
    (tmp_path / "h.ndjson").write_text(lines.replace('"g', '"h'))
    assert json.loads(server.cli("put", "groups", tmp_path / "h.ndjson", "--json", "--batch-bytes", "1500").stdout)["adds"] >= 9
    assert [row["id"] for row in rows_in(server, "groups", "--order", "id")] == [f"{c}{i:03}" for c in "gh" for i in range(100)]
    server.cli("put", "groups", tmp_path / "g.ndjson") # the same records again add nothing
    assert len(rows_in(server, "groups")) == 200


def test_payload_files(server, tmp_path):
    payload = os.urandom(300_000)
    (tmp_path / "take.bin").write_bytes(payload)
    (tmp_path / "p.json").write_text(json.dumps([{"id": "plain", "rollout_id": "r"}, {
        "id": "with/one", "rollout_id": "r", "payload_checksum": "sha256:" + hashlib.sha256(payload).hexdigest()}]))
    server.cli("put", "files", tmp_path / "p.json", "--create", "--payload", f"with/one={tmp_path / 'take.bin'}")
    server.cli("blob", "files", "with/one", "-o", tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == payload
    assert server.cli("blob", "files", "with/one", "-o", "-").stdout == payload
    assert json.loads(server.cli("get", "files", "with/one").stdout)["payload_size"] == len(payload)
    for wrong in ("plain", "nobody"):
        assert server.cli("blob", "files", wrong, "-o", tmp_path / "none", check=False).returncode == 4
        assert not (tmp_path / "none").exists()
    for payload in (f"nobody={tmp_path / 'take.bin'}", "plain"):
        done = server.cli("put", "files", "-", "--payload", payload, check=False, input=b'{"id":"other","rollout_id":"r"}')
        assert done.returncode == 2 and b"--payload" in done.stderr


@pytest.mark.parametrize("text, code, said", [
    (b"[1]", 1, b"record 1 is no JSON object"), (b"nonsense", 1, b"record 1"), (b'{"rollout_id":', 1, b"line 1, byte 15"),
    (b'{"rollout_id":"r","sequence_order":"x"}', 1, b"sequence_order"), (b'{"rollout_id":"r","output_tokens":[1.5]}', 1, b"output_tokens"),
])
def test_a_record_that_cannot_be_is_told(server, text, code, said):
    server.cli("put", "bad", "-", "--create", input=b"")
    done = server.cli("put", "bad", "-", input=text, check=False)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert rows_in(server, "bad") == []


def test_what_is_not_there(server, tmp_path):
    assert server.cli("put", "nowhere", "-", input=b'{"rollout_id":"r"}', check=False).returncode == 4
    assert server.cli("put", "rl", tmp_path / "none.ndjson", check=False).returncode == 4
    assert server.cli("put", "rl", tmp_path / "what.xyz", check=False).returncode == 2
    assert server.cli("list", "nowhere", check=False).returncode == 4
    assert server.cli("get", "nowhere", "x", check=False).returncode == 4
    assert server.cli("merge", "nowhere", check=False).returncode == 4
    assert run("rollout", "list", "--url", "ftp://x", check=False).returncode == 2
    assert run("rollout", "list", "--url", "http://127.0.0.1:1", "--retry-secs", "0", check=False).returncode == 5


def test_a_bad_record_in_a_later_group_can_be_found(server):
    lines = [json.dumps({"id": f"l{i}", "rollout_id": "r", "reward": "x" if i == 5 else i}) for i in range(8)]
    done = server.cli("put", "late", "-", "--create", "--batch-rows", "4", input="\n".join(lines).encode(), check=False)
    assert done.returncode == 1 and b'stdin line 6, byte 43: field "reward"' in done.stderr
    assert b"the first 4 records are in, the rest is not" in done.stderr
    assert [row["id"] for row in rows_in(server, "late")] == ["l0", "l1", "l2", "l3"]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name, text, where", [
    ("a.ndjson", '{"id":"a","rollout_id":"r"}\n\n{"id":"b","rollout_id":"r","reward":x}\n', 'a.ndjson line 3, byte 37: field "reward"'),
    ("b.ndjson", '{"rollout_id":"r"}\n\n{"rollout_id":"r","reward":"x"}\n', 'b.ndjson line 3, byte 28: field "reward"'), # ids are given
    ("c.ndjson", '{"id":"a","rollout_id":"r"}\n{"id":"b"}\n', 'c.ndjson line 2: field "rollout_id"'),
    ("d.json", '[{"id":"a","rollout_id":"r"},\n\n{"id":"b",\n"rollout_id":"r", "reward":tru}]', 'd.json line 4, byte 28: field "reward"'),
    ("e.json", '\n{"records": [{"id":"a",\n"rollout_id":7}]}', 'e.json line 3, byte 14: field "rollout_id"'),
])
def test_what_is_wrong_with_a_record_is_told_of_the_users_file(server, tmp_path, there, name, text, where):
    (tmp_path / name).write_text(text)
    put = server.cli if there else lambda *words, **more: run("rollout", *words, "--data-dir", tmp_path / "d", **more)
    done = put("put", "place", tmp_path / name, "--create", check=False)
    assert done.returncode == 1 and where in done.stderr.decode(), done.stderr.decode()


def test_what_is_wrong_with_a_row_is_told_of_the_users_file(server, tmp_path):
    parquet.write_table(pa.table({"id": [f"x{n}" for n in range(5)] + [""], "rollout_id": ["r"] * 6}), tmp_path / "r.parquet")
    done = server.cli("put", "place", tmp_path / "r.parquet", "--create", "--batch-rows", "2", check=False)
    assert done.returncode == 1 and 'r.parquet row 6: field "id"' in done.stderr.decode(), done.stderr.decode()


def test_another_record_under_a_taken_id_is_no_passing_conflict(server, tmp_path):
    for where in ([], ["--data-dir", tmp_path / "data"]):
        put = server.cli if not where else (lambda *words, **more: run("rollout", *words, *where, **more))
        put("put", "taken", "-", "--create", input=b'{"id":"x","rollout_id":"r","reward":1}')
        done = put("put", "taken", "-", input=b'{"id":"x","rollout_id":"r","reward":2}', check=False)
        assert done.returncode == 6
        assert done.stderr.decode().splitlines()[0] == 'lake: there is another record with the id "x"'


# -- list ------------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def filled(server):
    lines = "".join(json.dumps({"id": f"i{i}", "rollout_id": f"r{i % 3}", "policy_version": f"v{i % 2}", "reward": i / 10,
                                "output_tokens": [i], "created_at": f"2026-01-01T00:00:{i:02}Z"}) + "\n" for i in range(10))
    server.cli("put", "full", "-", "--create", "--batch-rows", "3", input=lines.encode())
    return server


def test_list_in_every_form(filled, tmp_path):
    rows = rows_in(filled, "full")
    assert [row["id"] for row in rows] == [f"i{i}" for i in range(10)]
    assert rows[3] == {"id": "i3", "rollout_id": "r0", "problem_id": "r0", "sequence_order": 0, "role": "assistant",
                       "created_at": "2026-01-01T00:00:03Z", "content_type": "text/plain", "output_tokens": [3], "reward": 0.3,
                       "policy_version": "v1"}
    assert json.loads(filled.cli("list", "full", "--format", "json").stdout) == rows
    assert b"i9" in filled.cli("list", "full").stdout
    for ending in ("parquet", "arrow", "ndjson", "json", "csv"):
        path = tmp_path / f"o.{ending}"
        done = filled.cli("list", "full", "-o", path)
        assert b"10 rows" in done.stderr
        if ending == "parquet":
            assert parquet.read_table(path).column("reward").to_pylist() == pa.array([i / 10 for i in range(10)], pa.float32()).to_pylist()
        if ending == "arrow":
            assert pa.ipc.open_file(path).read_all().column("id").to_pylist() == [f"i{i}" for i in range(10)]
        if ending == "ndjson":
            assert ndjson(path.read_bytes()) == rows
    stream = pa.ipc.open_stream(filled.cli("list", "full", "-o", "-").stdout).read_all()
    assert stream.column("output_tokens").to_pylist() == [[i] for i in range(10)]


def test_list_of_some(filled):
    def ids(*more):
        return [row["id"] for row in rows_in(filled, "full", *more)]
    assert ids("--filter", '{"policy_version":"v1","rollout_id":{"in":["r0","r1"]}}') == ["i1", "i3", "i7", "i9"]
    assert ids("--limit", "2", "--offset", "3") == ["i3", "i4"]
    assert ids("--order", "id", "--limit", "0") == []
    assert rows_in(filled, "full", "--columns", "id,reward", "--limit", "1") == [{"id": "i0", "reward": 0}]
    assert json.loads(filled.cli("list", "full", "--format", "json", "--limit", "0").stdout) == []
    for wrong in (("--filter", '{"x":1}'), ("--order", "x"), ("--columns", "nothing")):
        assert filled.cli("list", "full", *wrong, check=False).returncode == 1
    assert "full" in json.loads(filled.cli("list", "--format", "json").stdout)


def test_a_reader_that_has_enough_ends_the_list(filled):
    listing = subprocess.Popen([lake.LAKE, "rollout", "list", "full", "--format", "ndjson", "--url", filled.url],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    listing.stdout.readline()
    listing.stdout.close()
    assert listing.wait(20) == 0, listing.stderr.read()
    listing.stderr.close()


def test_get_and_merge(filled):
    assert json.loads(filled.cli("get", "full", "i5").stdout)["reward"] == 0.5
    assert filled.cli("get", "full", "nobody", check=False).returncode == 4
    before = rows_in(filled, "full")
    assert json.loads(filled.cli("merge", "full", "--json").stdout) == {"reclaimed": 4}
    assert json.loads(filled.cli("merge", "full", "--json").stdout) == {"reclaimed": 0}
    assert rows_in(filled, "full") == before


# -- without a server --------------------------------------------------------------------------------------------------------

def test_every_verb_in_place(tmp_path):
    place = ["--data-dir", tmp_path / "data"]
    lines = b'{"id":"one","rollout_id":"r","policy_version":"v1"}\n{"id":"two","rollout_id":"r"}\n'
    (tmp_path / "take").write_bytes(b"12345")
    assert run("rollout", "put", "rl", "-", *place, input=lines, check=False).returncode == 4
    run("rollout", "put", "rl", "-", "--create", "--payload", f"two={tmp_path / 'take'}", *place, input=lines)
    assert run("rollout", "list", *place).stdout == b"rl\n"
    rows = ndjson(run("rollout", "list", "rl", "--format", "ndjson", "--filter", '{"policy_version":"v1"}', *place).stdout)
    assert [row["id"] for row in rows] == ["one"]
    assert json.loads(run("rollout", "get", "rl", "two", *place).stdout)["payload_size"] == 5
    assert run("rollout", "blob", "rl", "two", "-o", "-", *place).stdout == b"12345"
    assert run("rollout", "blob", "rl", "one", "-o", "-", *place, check=False).returncode == 4
    assert run("rollout", "get", "rl", "three", *place, check=False).returncode == 4
    assert json.loads(run("rollout", "merge", "rl", "--json", *place).stdout) == {"reclaimed": 1}
    shards = [path.name for path in (tmp_path / "data/rl.rollout.lance/_mem_wal").iterdir()]
    assert shards == [str(uuid.uuid5(OID, "cli"))]
    assert run("rollout", "list", "--url", "http://127.0.0.1:1", *place, check=False).returncode == 2


def test_in_place_beside_a_server_fences_nobody(tmp_path):
    with Rollout(tmp_path / "data", environment={"INSTANCE_ID": "rollout-0"}) as running:
        running.cli("put", "rl", "-", "--create", input=b'{"id":"s1","rollout_id":"r"}')
        run("rollout", "put", "rl", "-", "--data-dir", tmp_path / "data", input=b'{"id":"c1","rollout_id":"r"}',
            environment={"INSTANCE_ID": "rollout-0", "HOSTNAME": "rollout-0"})
        running.cli("put", "rl", "-", input=b'{"id":"s2","rollout_id":"r"}')
        assert {row["id"] for row in rows_in(running, "rl")} == {"s1", "c1", "s2"}


# -- care ------------------------------------------------------------------------------------------------------------------

def test_fsck_says_what_is_damaged(tmp_path):
    place = ["--data-dir", tmp_path / "data"]
    for name in ("good", "hurt"):
        run("rollout", "put", name, "-", "--create", *place, input=b'{"id":"one","rollout_id":"r"}')
    assert b"sound" in run("rollout", "fsck", *place).stdout
    sound = ndjson(run("rollout", "fsck", "--json", *place).stdout)
    assert [(row["store"], row["generations"], row["generation_rows"], row["damage"]) for row in sound] == [
        ("good", 1, 1, []), ("hurt", 1, 1, [])]
    assert sound[0]["shards"][0]["shard"] == str(uuid.uuid5(OID, "cli"))
    data = next((tmp_path / "data/hurt.rollout.lance/_mem_wal").glob("*/*_gen_1/data/*.lance"))
    data.write_bytes(data.read_bytes()[:-5])
    done = run("rollout", "fsck", *place, check=False)
    assert done.returncode == 1 and b"1 damaged object" in done.stderr
    assert f"DAMAGED _mem_wal/{data.relative_to(tmp_path / 'data/hurt.rollout.lance/_mem_wal')}" in done.stdout.decode()
    assert run("rollout", "fsck", "good", *place).returncode == 0
    damage = ndjson(run("rollout", "fsck", "hurt", "--json", *place, check=False).stdout)[0]["damage"]
    assert len(damage) == 1 and damage[0]["object"].endswith(data.name)
    assert run("rollout", "fsck", "nothing", *place, check=False).returncode == 4
    for verb in (["fsck"], ["gc"], ["list"], ["put", "good", data]):
        mistyped = run("rollout", *verb, "--data-dir", tmp_path / "dta", check=False)
        assert mistyped.returncode == 4 and f"there is no directory {tmp_path}/dta" in mistyped.stderr.decode()
    assert not (tmp_path / "dta").exists()
    assert run("rollout", "fsck", check=False).returncode == 2


def test_a_store_that_cannot_be_looked_at_does_not_keep_care_from_the_others(tmp_path):
    data = tmp_path / "data"
    for name in ("a", "c"):
        run("rollout", "put", name, "-", "--create", "--data-dir", data, input=b'{"id":"one","rollout_id":"r"}')
    (data / "b.rollout.lance/_transactions").mkdir(parents=True) # its creation was stopped before there was a table
    done = run("rollout", "fsck", "--json", "--data-dir", data)
    assert [row["store"] for row in ndjson(done.stdout)] == ["a", "c"] and b"b: no store" in done.stderr
    assert b"b: no store" in run("rollout", "gc", "--dry-run", "--data-dir", data).stderr
    for manifest in (data / "a.rollout.lance/_versions").glob("*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:20])
    done = run("rollout", "fsck", "--json", "--data-dir", data, check=False)
    assert done.returncode == 1 and [row["store"] for row in ndjson(done.stdout)] == ["c"]
    assert b"a:\n" in done.stderr and b"_versions/" in done.stderr and b"1 of 3 stores failed" in done.stderr


def test_looking_changes_nothing(tmp_path):
    place = ["--data-dir", tmp_path / "data"]
    for i in range(3):
        run("rollout", "put", "rl", "-", "--create", *place, input=b'{"id":"x%d","rollout_id":"r"}' % i)
    run("rollout", "merge", "rl", *place) # its generations are left, and can be collected from now on

    def tree():
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    time.sleep(1.1)
    before = tree()
    for verb in (["fsck"], ["list"], ["list", "rl"], ["get", "rl", "x1"], ["stats", "rl"], ["gc", "--dry-run"]):
        run("rollout", *verb, *place, environment={"ROLLOUT_COLLECT_GRACE_SECS": "1", "ROLLOUT_VISIBILITY": "deferred"})
    assert tree() == before and any("_gen_" in str(path) for path in before)


def test_gc_takes_what_was_merged(tmp_path):
    place = ["--data-dir", tmp_path / "data"]
    for i in range(3):
        run("rollout", "put", "rl", "-", "--create", *place, input=b'{"rollout_id":"r"}')
    run("rollout", "merge", "rl", *place)
    def generations():
        return list((tmp_path / "data/rl.rollout.lance/_mem_wal").glob("*/*_gen_*"))
    assert json.loads(run("rollout", "gc", "--json", *place).stdout)["directories"] == 0 # too young
    assert len(generations()) == 3
    assert json.loads(run("rollout", "gc", "rl", "--dry-run", "--grace-secs", "0", "--json", *place).stdout)["directories"] == 3
    assert len(generations()) == 3
    assert json.loads(run("rollout", "gc", "--grace-secs", "0", "--json", *place).stdout)["directories"] == 3
    assert generations() == []
    assert len(ndjson(run("rollout", "list", "rl", "--format", "ndjson", *place).stdout)) == 3


def test_adopt_asks_before_it_fences(tmp_path):
    place = ["--data-dir", tmp_path / "data"]
    run("rollout", "put", "rl", "-", "--create", *place, "--instance-id", "rollout-5", input=b'{"id":"one","rollout_id":"r"}')
    done = run("rollout", "adopt", "rl", "rollout-5", *place, check=False, input=b"")
    assert done.returncode == 2 and b"--yes" in done.stderr
    assert run("rollout", "adopt", "rl", "rollout-6", "--yes", *place, check=False).returncode == 4
    assert json.loads(run("rollout", "adopt", "rl", "rollout-5", "--yes", "--json", *place).stdout)["rows"] == 1
    row = ndjson(run("rollout", "fsck", "--json", *place).stdout)[0]
    assert (row["base_rows"], row["generations"]) == (1, 0)
    assert json.loads(run("rollout", "get", "rl", "one", *place).stdout)["rollout_id"] == "r"


def test_stats_count_by_policy_version(filled, tmp_path):
    place = ["--data-dir", tmp_path / "data"]
    lines = "".join(json.dumps(row) + "\n" for row in rows_in(filled, "full"))
    run("rollout", "put", "full", "-", "--create", *place, input=lines.encode())
    for where in (["--url", filled.url], place):
        groups = ndjson(run("rollout", "stats", "full", "--format", "ndjson", *where).stdout)
        assert [(g["policy_version"], g["rows"]) for g in groups] == [("v0", 5), ("v1", 5)]
        assert groups[0]["first_created_at"].startswith("2026-01-01T00:00:00") and groups[1]["last_created_at"].startswith(
            "2026-01-01T00:00:09")
        some = ndjson(run("rollout", "stats", "full", "--by", "rollout_id", "--filter", '{"policy_version":"v1"}', "--format",
                          "ndjson", *where).stdout)
        assert [(g["rollout_id"], g["rows"]) for g in some] == [("r0", 2), ("r1", 2), ("r2", 1)]
        assert run("rollout", "stats", "full", "--by", "reward", *where, check=False).returncode == 1
        assert run("rollout", "stats", "nothing", *where, check=False).returncode == 4


# -- when things go wrong ----------------------------------------------------------------------------------------------------

@pytest.fixture
def proxy(server):
    running = s3_support.Proxy(types.SimpleNamespace(port=int(server.url.rsplit(":", 1)[1])))
    yield running
    running.close()


@pytest.mark.parametrize("action", [("fail", 503, "x"), ("fail", 429, "x"), ("fail", 502, "x"), ("lose",), ("deaf",)])
def test_a_put_is_tried_again_and_is_there_once(server, proxy, action):
    name = "again" + "".join(map(str, action))
    server.cli("put", name, "-", "--create", input=b"")
    left = [action, action]
    proxy.rule = lambda method, path: left.pop() if method == "POST" and left else None
    lines = b"".join(b'{"rollout_id":"r%d"}\n' % i for i in range(20))
    ids = run("rollout", "put", name, "-", "--ids", "--batch-rows", "10", "--url", proxy.url, input=lines).stdout.decode().split()
    assert len(ids) == 20 and left == [] and sum(method == "POST" for method, _ in proxy.log) == 4
    assert sorted(row["id"] for row in rows_in(server, name)) == sorted(ids)


def test_a_server_that_stays_busy_is_given_up(proxy, server):
    server.cli("put", "busy", "-", "--create", input=b"")
    proxy.rule = lambda method, path: ("fail", 503, "x")
    before = time.monotonic()
    done = run("rollout", "put", "busy", "-", "--retry-secs", "1", "--url", proxy.url, input=b'{"rollout_id":"r"}', check=False)
    assert done.returncode == 5 and 0.2 < time.monotonic() - before < 10 and len(proxy.log) >= 3
    proxy.clear()
    proxy.rule = lambda method, path: ("fail", 400, "x")
    assert run("rollout", "put", "busy", "-", "--url", proxy.url, input=b'{"rollout_id":"r"}', check=False).returncode == 1
    assert len(proxy.log) == 1, "what is wrong with a request does not get better"


class Cutting(http.server.BaseHTTPRequestHandler):
    """Answers 503 with Retry-After first, then sends a payload piece by piece, cutting the connection in between."""
    protocol_version, payload, log = "HTTP/1.1", bytes(range(256)) * 400, []

    def do_GET(self):
        wanted = self.headers.get("Range")
        Cutting.log.append((time.monotonic(), wanted))
        if len(Cutting.log) == 1:
            self.send_response(503)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = int(wanted[len("bytes="):-1]) if wanted else 0
        rest = self.payload[start:]
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(rest)))
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(self.payload) - 1}/{len(self.payload)}")
        self.end_headers()
        self.wfile.write(rest[:40_000])
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_a_blob_goes_on_where_the_connection_broke(tmp_path):
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cutting)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        run("rollout", "blob", "rl", "x", "-o", tmp_path / "out", "--url", f"http://127.0.0.1:{httpd.server_port}")
    finally:
        httpd.shutdown()
        httpd.server_close()
    assert (tmp_path / "out").read_bytes() == Cutting.payload
    assert [wanted for _, wanted in Cutting.log] == [None, None, "bytes=40000-", "bytes=80000-"]
    assert Cutting.log[1][0] - Cutting.log[0][0] >= 1, "as Retry-After said"


class Fenced(http.server.BaseHTTPRequestHandler):
    """A load balancer's two instances: the first has lost its shard."""
    bodies, codes = [], ["SHARD_FENCED", "SHARD_FENCED", None, "CONFLICT"]

    def do_POST(self):
        Fenced.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        code = self.codes[len(self.bodies) - 1]
        text = json.dumps({"error": {"code": code, "message": "not now"}} if code else {"version": 2, "ids": ["x"], "count": 1})
        self.send_response(409 if code else 201)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def test_a_fenced_instance_is_asked_again_and_a_conflict_is_not():
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fenced)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        where = ["--url", f"http://127.0.0.1:{httpd.server_port}"]
        assert run("rollout", "put", "rl", "-", "--ids", *where, input=b'{"rollout_id":"r"}').stdout == b"x\n"
        done = run("rollout", "put", "rl", "-", *where, input=b'{"rollout_id":"r"}', check=False)
    finally:
        httpd.shutdown()
        httpd.server_close()
    assert done.returncode == 6 and b"not now" in done.stderr
    assert len(Fenced.bodies) == 4 and len(set(Fenced.bodies[:3])) == 1, "the same ids each time"


def test_tls_and_a_name_that_must_fit(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=lake.test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "key.pem").chmod(0o600)
    with Rollout(tmp_path / "data", "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")) as running:
        url = running.url.replace("http:", "https:")
        trust = ["--ca", tmp_path / "cert.pem", "--url", url]
        run("rollout", "put", "rl", "-", "--create", *trust, input=b'{"id":"x","rollout_id":"r"}')
        assert run("rollout", "list", "rl", "--columns", "id", "--format", "ndjson", *trust).stdout == b'{"id":"x"}\n'
        assert run("rollout", "list", "--retry-secs", "0", "--url", url, check=False).returncode == 5
        assert run("rollout", "list", "--retry-secs", "0", "--url", running.url, check=False).returncode == 5
        assert running.stop() == 0


def test_a_stop_cuts_what_does_not_end_and_is_no_failure(tmp_path):
    with Rollout(tmp_path / "data", "--drain-secs", "2") as running:
        running.cli("put", "rl", "-", "--create", input=b'{"rollout_id":"r"}')
        host, port = running.ready["rollout"].rsplit(":", 1)
        with socket.create_connection((host, int(port))) as slow: # an upload that never ends
            slow.sendall(b"POST /api/v1/rollouts/rl/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 1000\r\n\r\n{")
            time.sleep(0.2)
            before = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - before < 4
        assert len(ndjson(run("rollout", "list", "rl", "--format", "ndjson", "--data-dir", tmp_path / "data").stdout)) == 1


def test_callers_of_the_other_servers_are_not_let_in_by_accident(tmp_path):
    (tmp_path / "principals").write_text("[]")
    (tmp_path / "principals").chmod(0o600)
    done = run("rollout", "--check-config", check=False, environment={"LAKE_AUTH_PRINCIPALS_FILE": str(tmp_path / "principals")})
    assert done.returncode == 2 and b"--auth-token-file" in done.stderr


def test_every_verb_on_s3(tmp_path):
    (tmp_path / "s3").mkdir()
    s3 = s3_support.Server(tmp_path / "s3")
    environment = {**s3_support.environment("http://127.0.0.1:1"), "ROLLOUT_STORAGE_ENDPOINT": s3.url}
    place = ["--data-dir", f"s3://{s3_support.BUCKET}/stores"]

    def there(*arguments, **more):
        return run("rollout", *arguments, *place, environment=environment, **more)
    try:
        there("put", "rl", "-", "--create", "--instance-id", "rollout-9", input=b'{"id":"one","rollout_id":"r"}\n')
        there("put", "rl", "-", input=b'{"id":"two","rollout_id":"r","policy_version":"v1"}\n')
        assert there("list").stdout == b"rl\n"
        assert [row["id"] for row in ndjson(there("list", "rl", "--order", "id", "--format", "ndjson").stdout)] == ["one", "two"]
        assert json.loads(there("get", "rl", "two").stdout)["policy_version"] == "v1"
        assert json.loads(there("adopt", "rl", "rollout-9", "--yes", "--json").stdout)["rows"] == 1
        assert json.loads(there("merge", "rl", "--json").stdout) == {"reclaimed": 1}
        assert json.loads(there("gc", "--grace-secs", "0", "--json").stdout)["directories"] == 2
        report = ndjson(there("fsck", "--json").stdout)[0]
        assert (report["base_rows"], report["generations"], report["damage"]) == (2, 0, [])
    finally:
        s3.close()
