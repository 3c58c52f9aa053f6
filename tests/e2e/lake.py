"""lake.py - drives the lake binary for the end-to-end tests: servers, commands, Flight SQL clients, raw appends."""
import concurrent.futures
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import secrets
import signal
import struct
import subprocess
import sys
import time

import grpc
import pyarrow.flight as flight

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/interop")) # what several suites share
from protobuf_fields import fields # noqa: E402

LAKE = os.environ.get("LAKE_BIN", str(ROOT / "build" / "lake"))
FULL = bool(os.environ.get("LAKE_TEST_FULL"))


def count(short, full):
    """How often: the short count for `make test`, the full one for `make test-full`."""
    return full if FULL else short


class Server:
    """`lake serve` on a data directory; restartable on the same directory. The port is kept over restarts."""

    def __init__(self, data_dir, command="serve", extra=(), environment=None):
        self.data_dir = pathlib.Path(data_dir)
        self.command, self.extra, self.environment = command, list(extra), environment or {}
        self.port, self.process = 0, None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *unused):
        self.kill()

    def start(self, timeout=20):
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        ready = self.data_dir.parent / f"ready-{secrets.token_hex(4)}.json"
        self.log = open(self.data_dir.parent / "server.log", "ab")
        arguments = [] if self.command == "query" and "--data-dir" in self.extra else ["--data-dir", str(self.data_dir)]
        self.process = subprocess.Popen(
            [LAKE, self.command, *arguments, "--addr", f"127.0.0.1:{self.port}", "--ready-file", str(ready), *self.extra],
            stderr=self.log, stdout=self.log, env={**os.environ, **self.environment})
        deadline = time.monotonic() + timeout
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"lake {self.command} did not start (exit {self.process.poll()}): {self.tail()}")
            time.sleep(0.005)
        text = json.loads(ready.read_text())
        ready.unlink()
        address = text.get("query") or text["meta"]
        self.port = int(address.rsplit(":", 1)[1])
        assert text["pid"] == self.process.pid
        return self

    def tail(self):
        self.log.flush()
        return (self.data_dir.parent / "server.log").read_text()[-2000:]

    @property
    def endpoint(self):
        return f"grpc://127.0.0.1:{self.port}"

    def kill(self):
        """SIGKILL, as a crash."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self, timeout=40):
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    # -- clients ----------------------------------------------------------------------------------
    def run(self, *arguments, check=True, input=None, environment=None):
        done = subprocess.run([LAKE, *map(str, arguments)], capture_output=True, input=input,
                              env={**os.environ, "LAKE_ENDPOINT": self.endpoint, **(environment or {})}, timeout=300)
        if check and done.returncode != 0:
            raise AssertionError(f"lake {arguments} exited {done.returncode}: {done.stderr.decode()}")
        return done

    def flight(self):
        return contextlib.closing(flight.connect(self.endpoint))

    def adbc(self, **options):
        import adbc_driver_flightsql.dbapi as adbc
        return adbc.connect(self.endpoint, db_kwargs=options, autocommit=True)

    def sql(self, text):
        """One statement by pyarrow.flight, as a Table."""
        with self.flight() as client:
            return execute(client, text)

    def create(self, table, schema):
        namespace, name = table.split(".")
        body = {"namespace": namespace, "name": name,
                "schema_ipc_base64": __import__("base64").b64encode(schema.serialize().to_pybytes()).decode()}
        with self.flight() as client:
            list(client.do_action(flight.Action("create_table", json.dumps(body).encode())))

    def resolve(self, table):
        namespace, name = table.split(".")
        with self.flight() as client:
            results = list(client.do_action(flight.Action(
                "resolve", json.dumps({"namespace": namespace, "name": name}).encode())))
        return json.loads(results[0].body.to_pybytes())

    def append(self, table, rows, operation_id=None):
        with self.flight() as client:
            return append(client, table, rows, operation_id)


# -- Flight SQL by hand: the two protobuf messages that matter are an Any and one string field -----------
def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def command(kind, *fields):
    return field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{kind}".encode()) + field(2, b"".join(fields))


def query_descriptor(text):
    return flight.FlightDescriptor.for_command(command("CommandStatementQuery", field(1, text.encode())))


def execute(client, text, options=None):
    info = client.get_flight_info(query_descriptor(text), options)
    return client.do_get(info.endpoints[0].ticket, options).read_all()


# -- named appends -------------------------------------------------------------------------------------
def uuid7(milliseconds=None):
    milliseconds = int(time.time() * 1000) if milliseconds is None else milliseconds
    value = bytearray(milliseconds.to_bytes(6, "big") + secrets.token_bytes(10))
    value[6] = value[6] & 0x0F | 0x70
    value[8] = value[8] & 0x3F | 0x80
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Capture(grpc.GenericRpcHandler):
    """A server that keeps what a client sends into DoPut: the only way to see pyarrow's own FlightData bytes."""

    def __init__(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
        self.server.add_generic_rpc_handlers((self,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.messages = []

    def service(self, details):
        def take(messages, context):
            for message in messages:
                self.messages.append(dict(fields(message)))
            yield b""
        return grpc.stream_stream_rpc_method_handler(take)


@functools.cache
def capture():
    return Capture()


def messages(rows, options=None):
    """The (header, body) pairs that pyarrow sends for these rows."""
    server = capture()
    server.messages = []
    with contextlib.closing(flight.connect(f"grpc://127.0.0.1:{server.port}")) as client:
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(b"capture"), rows.schema, options)
        writer.write_batch(rows)
        writer.done_writing()
        reader.read()
        writer.close()
    return [(message[2], message.get(1000, b"")) for message in server.messages]


def digest(rows, options=None):
    hash = hashlib.sha256(b"lake.append.flight-metadata.v1\0")
    for header, body in messages(rows, options):
        for part in (header, body, b""):
            hash.update(struct.pack(">Q", len(part)) + part)
    return hash.hexdigest()


def append_descriptor(table, operation_id, payload_sha256, **more):
    namespace, name = table.split(".", 1)
    body = {"version": 1, "namespace": namespace, "table": name, "operation_id": operation_id,
            "payload_sha256": payload_sha256, **more}
    return flight.FlightDescriptor.for_command(
        field(1, b"type.googleapis.com/lake.file.Append") + field(2, json.dumps(body).encode()))


def append(client, table, rows, operation_id=None, payload_sha256=None, options=None):
    """One record batch as one named operation; returns the version."""
    operation_id = operation_id or uuid7()
    descriptor = append_descriptor(table, operation_id, payload_sha256 or digest(rows))
    writer, reader = client.do_put(descriptor, rows.schema, options)
    with writer:
        writer.write_batch(rows)
        writer.done_writing()
        result = reader.read()
    if result is None:
        raise AssertionError("no result")
    return int(result.to_pybytes())
