"""oracle.py - the published references: lance-context 0.6.3 and 0.6.7 in processes of their own environments, and pylance's
LSM scanner over the shards as their manifests list them."""
import base64
import json
import pathlib
import subprocess

import lance
import lance.mem_wal

import shards

HERE = pathlib.Path(__file__).resolve().parent
THIRD_PARTY = HERE.parents[1] / "third_party"


class OracleError(Exception):
    """What the reference raised: its class and its text."""


class Oracle:
    """A published lance-context. `open` gives an embedded store, `connect` the remote client."""

    def __init__(self, version, environment=None):
        self.version = version
        python = THIRD_PARTY / f"venv-context{version.replace('.', '')}/bin/python"
        self.process = subprocess.Popen([python, HERE / "oracle_worker.py"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)
        assert self.ask("version") == version

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)

    def ask(self, call, *arguments, **named):
        self.process.stdin.write(json.dumps([call, arguments, named], default=encode) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"lance-context {self.version} ended at {call}"
        answer = json.loads(line, object_hook=decode)
        if "error" in answer:
            raise OracleError(answer["error"])
        return answer["ok"]

    def open(self, uri, **options):
        return Store(self, self.ask("open", str(uri), **options))

    def connect(self, url, name, create=False):
        return Store(self, self.ask("connect_or_create" if create else "connect", url, name))

    def connect_async(self, url, name):
        return Store(self, self.ask("connect_async", url, name))


class Store:
    """A RolloutStore in the oracle's process: its methods by name."""

    def __init__(self, oracle, number):
        self.oracle, self.number = oracle, number

    def __getattr__(self, name):
        return lambda *arguments, **named: self.oracle.ask("call", self.number, name, *arguments, **named)


def encode(value):
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(value)


def decode(value):
    return base64.b64decode(value["$bytes"]) if "$bytes" in value else value


def scanner(path, storage_options=None):
    """pylance's LSM scanner over what the manifests of all shards list now."""
    snapshots = []
    for shard in shards.all_of(path):
        snapshot = lance.mem_wal.ShardSnapshot(shard.uuid).with_spec_id(shard.spec_id) \
            .with_current_generation(shard.current_generation)
        for number, name in shard.generations:
            snapshot = snapshot.with_sstable(number, name)
        snapshots.append(snapshot)
    return lance.mem_wal.LsmScanner.from_snapshots(lance.dataset(str(path), storage_options=storage_options), snapshots)


def scanned_ids(path):
    return sorted(scanner(path).project(["id"]).to_table().column("id").to_pylist())
