"""rollout.py - drives `lake rollout serve`: instances on a data directory, a client, a proxy before several of them."""
import collections
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAKE = os.environ.get("LAKE_BIN", str(ROOT / "build/lake"))
FULL = bool(os.environ.get("LAKE_TEST_FULL"))
SETTINGS = ("INSTANCE_ID", "HOSTNAME", "REQUEST_BODY_IDLE_TIMEOUT_SECS") # of the caller's own environment: not ours

sys.path.insert(0, str(ROOT / "tests/interop"))
import s3_support # noqa: E402  (an S3 server, and a proxy that delays and fails)


def count(short, full):
    """How often: the short count for `make test`, the full one for `make test-full`."""
    return full if FULL else short


class Answer(collections.namedtuple("Answer", "status headers body")):
    """What a request got. headers: names in small letters."""

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The code of an error; every error has this shape."""
        error = self.json["error"]
        assert set(error) >= {"code", "message"} and error["message"], error
        return error["code"]


class Refused(Exception):
    """An answer that was not expected."""

    def __init__(self, answer):
        super().__init__(f"{answer.status} {answer.body[:500]!r}")
        self.answer, self.status = answer, answer.status


class Client:
    """One keep-alive connection to an address. Not shared between threads."""

    def __init__(self, address, timeout=60, headers=None):
        self.address, self.timeout, self.headers, self.connection = address, timeout, headers or {}, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def request(self, method, path, body=None, headers=None, json_body=None):
        if json_body is not None:
            body, headers = json.dumps(json_body), {"Content-Type": "application/json", **(headers or {})}
        try:
            if self.connection is None:
                host, port = self.address.rsplit(":", 1)
                self.connection = http.client.HTTPConnection(host, int(port), timeout=self.timeout)
                self.connection.connect()
                self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connection.request(method, path, body, {**self.headers, **(headers or {})})
            answer = self.connection.getresponse()
            result = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
            if answer.will_close:
                self.close()
            return result
        except BaseException:
            self.close()
            raise

    def call(self, method, path, expect=(200, 201, 204), **more):
        answer = self.request(method, path, **more)
        if answer.status not in (expect if isinstance(expect, tuple) else (expect,)):
            raise Refused(answer)
        return answer

    # -- the routes ---------------------------------------------------------------------------------
    def create(self, store):
        return self.call("POST", "/api/v1/rollouts", 201, json_body={"name": store}).json

    def add(self, store, records, headers=None):
        records = records if isinstance(records, list) else [records]
        return self.call("POST", f"/api/v1/rollouts/{store}/records", 201, json_body={"records": records},
                         headers=headers).json

    def try_add(self, store, records):
        return self.request("POST", f"/api/v1/rollouts/{store}/records", json_body={"records": records})

    def page(self, store, **query):
        """A whole answer of list: records, and next_cursor where there is one."""
        query = {name: json.dumps(value) if isinstance(value, dict) else str(value) for name, value in query.items()}
        text = "?" + urllib.parse.urlencode(query) if query else ""
        return self.call("GET", f"/api/v1/rollouts/{store}/records{text}", 200).json

    def list(self, store, **query):
        return self.page(store, **query)["records"]

    def ids(self, store, **query):
        return sorted(record["id"] for record in self.list(store, **query))

    def get(self, store, identity, **query):
        text = "?" + urllib.parse.urlencode(query) if query else ""
        return self.call("GET", f"/api/v1/rollouts/{store}/records/{urllib.parse.quote(identity, safe='')}{text}",
                         200).json["record"]

    def blob(self, store, identity, headers=None, method="GET", query=""):
        return self.request(method, f"/api/v1/rollouts/{store}/records/{urllib.parse.quote(identity, safe='')}/blob"
                            + query, headers=headers)

    def put_blobs(self, store, records, parts):
        """A form as the published client sends it: the records without payloads, then a part for each payload."""
        body, content_type = form([("metadata", json.dumps({"records": records}).encode()), *parts])
        return self.request("POST", f"/api/v1/rollouts/{store}/records", body, {"Content-Type": content_type})

    def merge(self, store, expect=200):
        return self.call("POST", f"/api/v1/rollouts/{store}/merge", expect).json

    def compact(self, store, expect=200, **options):
        return self.call("POST", f"/api/v1/rollouts/{store}/compact", expect, json_body=options).json

    def version(self, store):
        return self.call("GET", f"/api/v1/rollouts/{store}", 200).json["version"]


def form(parts):
    """multipart/form-data: (body, content type)."""
    boundary = secrets.token_hex(16)
    out = b""
    for name, content in parts:
        out += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class Instance(Client):
    """`lake rollout serve`, and a client of it. Its port stays the same over restarts."""

    def __init__(self, directory, data_dir=None, identity="rollout-0", extra=(), environment=None, prefix=(),
                 headers=None):
        super().__init__("", headers=headers)
        self.directory = pathlib.Path(directory)
        self.data_dir = str(data_dir or self.directory / "data")
        self.identity, self.extra, self.prefix = identity, list(extra), list(prefix)
        kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        self.environment = {**kept, **(environment or {})}
        self.port, self.process, self.log = 0, None, None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        self.close()
        if self.log:
            self.log.close()

    def start(self, timeout=30):
        self.directory.mkdir(parents=True, exist_ok=True)
        ready = self.directory / f"ready-{secrets.token_hex(4)}.json"
        self.log = self.log or open(self.directory / f"log-{secrets.token_hex(2)}", "ab")
        named = ["--instance-id", self.identity] if self.identity else []
        command = [*self.prefix, LAKE, "rollout", "serve", "--port", str(self.port), "--data-dir", self.data_dir, *named,
                   "--ready-file", str(ready), *self.extra]
        self.close()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env=self.environment)
        deadline = time.monotonic() + timeout
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"lake rollout did not start (exit {self.process.poll()}): {self.tail()}")
            time.sleep(0.005)
        text = json.loads(ready.read_text())
        ready.unlink()
        self.pid, self.address = text["pid"], text["rollout"]
        self.port = int(self.address.rsplit(":", 1)[1])
        return self

    def tail(self, size=3000):
        return pathlib.Path(self.log.name).read_text(errors="replace")[-size:]

    def kill(self):
        """SIGKILL, as a crash."""
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(getattr(self, "pid", self.process.pid), signal.SIGKILL)
            if self.prefix: # a tracer ends with what it traces
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(10)
            self.process.kill()
            self.process.wait()

    def stop(self, timeout=40):
        """SIGTERM; the exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self.process.wait(timeout)

    def pause(self):
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def restart(self):
        self.kill()
        return self.start()

    def client(self, **more):
        """Another connection, for a thread of its own."""
        return Client(self.address, headers=self.headers, **more)

    def resident(self):
        """Bytes of memory that are its own: pages of files that it maps are the kernel's cache."""
        fields = dict(line.split(":", 1) for line in open(f"/proc/{self.pid}/status"))
        return int(fields["VmRSS"].split()[0]) * 1024

    def peak(self):
        fields = dict(line.split(":", 1) for line in open(f"/proc/{self.pid}/status"))
        return int(fields["VmHWM"].split()[0]) * 1024

    def metric(self, name):
        """The sum of a metric over its labels; None where it is not listed."""
        values = [float(line.rsplit(" ", 1)[1]) for line in self.call("GET", "/metrics", 200).body.decode().splitlines()
                  if line.startswith((name + " ", name + "{"))]
        return sum(values) if values else None

    def store_path(self, store):
        return pathlib.Path(self.data_dir) / f"{store}.rollout.lance"


def command(*arguments, environment=None, timeout=120):
    """Runs `lake rollout ...`; the finished process."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return subprocess.run([LAKE, "rollout", *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          env={**kept, **(environment or {})})


def records(numbers, prefix="r", **more):
    return [{"id": f"{prefix}{number}", "rollout_id": f"{prefix}{number // 8}", "sequence_order": number % 8, **more}
            for number in numbers]


def everything(value):
    """A record with every member set: distinct values, floats that need rounding, text of several planes."""
    number = int(value)
    return {
        "id": f"all-{number}", "rollout_id": f"traj-{number}", "problem_id": f"p-{number}", "dataset": "math é",
        "sequence_order": -number, "role": "tool", "created_at": "2026-11-30T09:35:03.064554+02:00",
        "content": "line\nbreak \u0001 \U0001f600 \"quoted\"", "content_type": "application/json",
        "model_input_string": "in", "model_output_string": "out", "rationale": "why", "problem_text": "2 + 2",
        "user_metadata": "free", "input_tokens": [1, 2, 2147483647], "output_tokens": [-2147483648, 0, 7],
        "num_input_tokens": 3, "num_output_tokens": 3, "output_logprobs": [-0.1, -1e-7, -3.4028235e38],
        "input_logprobs": [], "ref_logprobs": [0.1, 1.5, 16777216.0], "loss_mask": [-128, 0, 127],
        "advantage": 0.1, "reward": -1.25, "raw_reward": 1e10, "grader_id": "g", "score": 0.3,
        "include_in_training": True, "exclude_reason": "none", "policy_version": "v7",
        "relationships": [{"target_id": "x", "relation": "reply_to", "weight": 0.7}, {"target_id": "y", "relation": "of"}],
        "payload_size": 5, "payload_checksum": "md5:whatever", "artifact_type": "trace",
        "metadata": {"b": 1, "a": [1.5, None, "é"], "z": {"deep": True}},
    }


class Balancer:
    """A round-robin proxy of connections, as a service without affinity is: a new connection goes to the next instance
    that accepts it."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.turns = itertools.count()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def connect(self):
        for _ in self.addresses:
            address = self.addresses[next(self.turns) % len(self.addresses)]
            host, port = address.rsplit(":", 1)
            with contextlib.suppress(OSError):
                return socket.create_connection((host, int(port)), 1)
        return None

    def serve(self, client):
        server = self.connect()
        with client:
            if server is None:
                return
            with server, contextlib.suppress(OSError):
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.settimeout(60)
                while True:
                    for source in select.select([client, server], [], [], 120)[0] or [None]:
                        data = source.recv(65536) if source else b""
                        if not data:
                            return
                        (server if source is client else client).sendall(data)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def in_threads(calls):
    """Runs them side by side; their results in order, or the first failure."""
    results, failures = [None] * len(calls), []

    def run(number, call):
        try:
            results[number] = call()
        except BaseException as failure: # noqa: BLE001  (given to the caller)
            failures.append(failure)
    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
