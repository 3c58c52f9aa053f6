"""shards.py - reads the shards of a rollout table from its directory, by the published format alone: no code of lake's."""
import pathlib
import re
import sys
import uuid

import pyarrow.ipc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from protobuf_fields import fields # noqa: E402


def of_instance(identity):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, identity))


class Shard:
    """A shard at one version of its manifest: the newest, or the one that is asked for."""

    def __init__(self, directory, version=None):
        self.directory, self.uuid = pathlib.Path(directory), pathlib.Path(directory).name
        self.versions = sorted(int(path.name[:64][::-1], 2) for path in (self.directory / "manifest").iterdir()
                               if re.fullmatch(r"[01]{64}\.binpb", path.name))
        self.version = version or (self.versions[-1] if self.versions else 0)
        self.epoch = self.replay_after = self.spec_id = 0
        self.current_generation, self.generations, self.sealed = 1, [], False
        if self.version:
            self.read(self.path(self.version).read_bytes())

    def emptied(self):
        """Versions whose contents were collected: the names stay."""
        return [version for version in self.versions if self.path(version).stat().st_size == 0]

    def path(self, version):
        return self.directory / "manifest" / f"{version:064b}"[::-1].__add__(".binpb")

    def read(self, message):
        for number, value in fields(message):
            if number == 1:
                assert value == self.version, "a manifest names another version than its file"
            elif number == 2:
                self.epoch = value
            elif number == 3:
                self.replay_after = value
            elif number == 6:
                self.current_generation = value
            elif number == 8:
                entry = dict(fields(value))
                self.generations.append((entry[1], entry[2].decode()))
            elif number == 10:
                self.spec_id = value
            elif number == 11:
                assert str(uuid.UUID(bytes=dict(fields(value))[1])) == self.uuid, "a manifest names another shard"

    def log(self):
        """The entries of its log by position: (epoch, table)."""
        entries = {}
        for path in (self.directory / "wal").iterdir():
            reader = pyarrow.ipc.open_stream(path.read_bytes())
            assert re.fullmatch(r"[01]{64}\.arrow", path.name)
            entries[int(path.name[:64][::-1], 2)] = (int(reader.schema.metadata[b"writer_epoch"]), reader.read_all())
        return dict(sorted(entries.items()))

    def paths(self):
        return [self.directory / name for _, name in self.generations]

    def directories(self):
        """All generation directories, listed or not."""
        return sorted(path for path in self.directory.iterdir() if "_gen_" in path.name)


def all_of(path):
    """The shards of a table, by uuid."""
    root = pathlib.Path(path) / "_mem_wal"
    names = sorted(root.iterdir()) if root.exists() else []
    return [Shard(name) for name in names if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name.name)]


def one(path, identity):
    return Shard(pathlib.Path(path) / "_mem_wal" / of_instance(identity))


def pending(path):
    return sum(len(shard.generations) for shard in all_of(path))


def check_chain(shard):
    """No gap from 1 to the last, which has contents; epochs never fall; generation numbers never repeat or fall."""
    assert shard.versions == list(range(1, shard.versions[-1] + 1)), shard.versions
    epoch, current, emptied = 0, 1, set(shard.emptied())
    assert shard.versions[-1] not in emptied
    for version in shard.versions:
        if version in emptied:
            continue
        at = Shard(shard.directory, version)
        if at.epoch == 0 and shard.path(version).stat().st_size == 0: # collected since: an instance is at work
            continue
        assert at.epoch >= epoch and at.current_generation >= current, f"version {version} went back"
        numbers = [number for number, _ in at.generations]
        assert numbers == sorted(set(numbers)) and all(number < at.current_generation for number in numbers)
        epoch, current = at.epoch, at.current_generation
