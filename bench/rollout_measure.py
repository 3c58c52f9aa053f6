"""rollout_measure.py - what the benches of the rollout store share: the published store as the peer, a lake that serves
rollouts, the load generator, and what a durable write costs on this machine."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import measure

VERSIONS = ("0.6.3", "0.6.7")
LAKE = pathlib.Path(os.environ.get("LAKE_BIN", measure.BUILD / "lake"))


def tool(name, *words):
    """Runs a program of bench/ that prints one JSON object."""
    done = subprocess.run([measure.TOOLS / name, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


# -- the published store ---------------------------------------------------------------------------
def peer_python(version):
    """The Python of an environment that has this lance-context, or None."""
    for info in (measure.ROOT / "third_party").glob(f"venv-*/lib/python*/site-packages/lance_context-{version}.dist-info"):
        return info.parents[3] / "bin/python"
    return None


class Peer(measure.Helper):
    def __init__(self, version, directory):
        self.version = version
        super().__init__(peer_python(version), measure.ROOT / "bench/rollout_peer.py", directory)
        self.read()

    def ask_json(self, line):
        return json.loads(self.ask(line))


@contextlib.contextmanager
def peers(directory):
    """A Peer of every published version that is installed; its store lies in a directory of its own."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Peer(version, directory / f"peer-{version}.rollout.lance"))
               for version in VERSIONS if peer_python(version)]


# -- what a durable write costs here ---------------------------------------------------------------
def fsync_ms(directory, rounds=50):
    """Median milliseconds of 8 KiB more in an open file, made durable; and of a new file with its name in the directory."""
    path = pathlib.Path(directory) / "fsync-cost"
    path.mkdir()
    folder = os.open(path, os.O_RDONLY)
    kept = os.open(path / "kept", os.O_CREAT | os.O_WRONLY, 0o644)

    def append():
        os.write(kept, bytes(8192))
        os.fdatasync(kept)

    def create(number):
        new = os.open(path / str(number), os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(new, bytes(8192))
        os.fdatasync(new)
        os.close(new)
        os.fsync(folder)
    appended = [measure.seconds(append) * 1000 for _ in range(rounds)]
    created = [measure.seconds(create, number) * 1000 for number in range(rounds)]
    os.close(kept)
    os.close(folder)
    return measure.median(appended), measure.median(created)


def fsync_note(directory):
    append, create = fsync_ms(directory, measure.size(50, 5))
    return create, f"a durable append costs {append:.2f} ms here, a new durable file with its name {create:.2f} ms"


# -- a server --------------------------------------------------------------------------------------
class Server:
    def __init__(self, directory, *words, env=None):
        self.process = subprocess.Popen(
            [LAKE, "rollout", "serve", "--host", "127.0.0.1", "--port", "0", "--data-dir", directory,
             *(() if "--instance-id" in words else ("--instance-id", "rollout-0")), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **(env or {})})
        self.address, self.said = None, []
        end = time.monotonic() + 30
        while self.address is None and time.monotonic() < end:
            line = self.process.stdout.readline()
            if not line:
                break
            self.said.append(line)
            if found := re.search(r"(127\.0\.0\.1:[1-9][0-9]*)", line):
                self.address = found.group(1)
        if self.address is None:
            self.close()
            raise SystemExit(f"lake rollout serve said no address: {''.join(self.said)}")

    def close(self):
        self.process.terminate()
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def load(self, store, **settings):
        """What rollout_load measured."""
        return tool("rollout_load", self.address, store, *(f"{name}={value}" for name, value in settings.items()))

    def rss_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024


@contextlib.contextmanager
def served(directory, *words, env=None):
    server = Server(directory, *words, env=env)
    try:
        yield server
    finally:
        server.close()


def busy_note():
    return f"others used {measure.wait_for_quiet():.0%} of the cores"


__all__ = ["Peer", "Server", "busy_note", "fsync_ms", "fsync_note", "peer_python", "peers", "served", "tool"]
if __name__ == "__main__":
    sys.exit("this is a module")
