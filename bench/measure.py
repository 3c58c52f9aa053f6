"""measure.py - what every benchmark shares: figures as JSON lines, a quiet moment, the table, a lake server.

Samples of lake and of its peer are taken in turns, so that what else the machine does hits both alike.
"""
import contextlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TOOLS = pathlib.Path(os.environ.get("LAKE_BIN", BUILD / "lake")).resolve().parent / "bench" # lance_scan
DATA = BUILD / "bench-data" # kept between runs; remove it to make the tables anew
SMOKE = bool(os.environ.get("LAKE_BENCH_SMOKE"))
KEYS = ("name", "unit", "ours", "peer", "ratio", "target", "met", "floor", "note")

sys.path.insert(0, str(ROOT / "tests/e2e"))
import lake # noqa: E402  (the end-to-end tests' driver: servers, Flight SQL by hand)

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("value", pa.float64(), False),
                    pa.field("label", pa.int32(), False), pa.field("name", pa.utf8(), False)])


def size(full, smoke):
    return smoke if SMOKE else full


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} x {model}, {memory:.0f} GiB, Linux {platform.release()}"


# -- time ------------------------------------------------------------------------------------------
def busy(seconds=0.5):
    """The share of all cores that is in use."""
    def read():
        fields = [int(word) for word in open("/proc/stat").readline().split()[1:]]
        return sum(fields), fields[3] + fields[4]
    total, idle = read()
    time.sleep(seconds)
    total_now, idle_now = read()
    return 1 - (idle_now - idle) / max(1, total_now - total)


def wait_for_quiet(patience=None):
    """Waits until nobody else uses the machine, at most `patience` seconds; returns how busy it still is."""
    patience = float(os.environ.get("LAKE_BENCH_PATIENCE", "60")) if patience is None else patience
    end = time.monotonic() + (0 if SMOKE else patience)
    while (share := busy()) > 0.1 and time.monotonic() < end:
        pass
    return share


def seconds(call, *arguments):
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def in_turns(rounds, *samplers):
    """Calls each sampler once a round; returns one list of results each."""
    results = [[] for _ in samplers]
    for _ in range(rounds):
        for sampler, out in zip(samplers, results):
            out.append(sampler())
    return results


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


median = statistics.median


# -- figures ---------------------------------------------------------------------------------------
def holds(target, ours, ratio):
    relation, bound = target.split()
    figure = ratio if bound.endswith("x") else ours
    return figure <= float(bound.rstrip("x")) if relation == "<=" else figure >= float(bound.rstrip("x"))


def report(name, unit, ours, peer=None, target=None, floor=None, note="", higher_is_better=False):
    """Prints one figure. The ratio is over 1 where lake is better than the peer."""
    ratio = None if not peer or not ours else ours / peer if higher_is_better else peer / ours
    met = None
    if target:
        met = holds(target, ours, ratio)
        if not met and floor is not None and not holds(target, floor, None):
            met = None # nobody could, here
    text = f"{machine()}; {note}" + ("; smoke sizes, the figures mean nothing" if SMOKE else "")
    row = (name, unit, ours, peer, ratio, target, met, floor, text)
    tidy = [float(f"{value:.4g}") if isinstance(value, float) else value for value in row]
    print(json.dumps(dict(zip(KEYS, tidy))), flush=True)


# -- data ------------------------------------------------------------------------------------------
def rows(count, first=0):
    """The table of the figures: a counter, a random double, a small number, text of 16 bytes."""
    random = np.random.default_rng(first + 1)
    text = random.integers(48, 58, (count, 16), dtype=np.uint8)
    text[:, 0] = ord("k")
    offsets = np.arange(count + 1, dtype=np.int32) * 16
    name = pa.Array.from_buffers(pa.utf8(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return pa.table([pa.array(np.arange(first, first + count)), pa.array(random.random(count)),
                     pa.array(random.integers(0, 100, count).astype(np.int32)), name], schema=SCHEMA)


def batches(count, shuffled=False, step=100_000):
    """The table in order of id, or with its ids in random order; each batch fits a message of any client."""
    ids = np.random.default_rng(0).permutation(count) if shuffled else np.arange(count)
    for first in range(0, count, step):
        table = rows(min(step, count - first), first)
        yield from table.set_column(0, SCHEMA.field(0), pa.array(ids[first:first + step])).to_batches()


@contextlib.contextmanager
def kept_server():
    """lake serve on the data directory that stays between runs."""
    (DATA / "lake").mkdir(parents=True, exist_ok=True)
    with lake.Server(DATA / "lake/data") as server:
        yield server


@contextlib.contextmanager
def fresh_directory():
    """An empty directory on the disk of build/ (a temporary file system would have no fsync to measure)."""
    DATA.mkdir(parents=True, exist_ok=True)
    path = tempfile.mkdtemp(dir=DATA)
    try:
        yield pathlib.Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def ensure_table(server, count, shuffled=False):
    """bench.rows<count> or bench.shuffled<count>, ingested as any ADBC client would; returns its name."""
    name = f"{'shuffled' if shuffled else 'rows'}{count}"
    with server.adbc() as connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT count(*) AS n FROM bench.{name}")
            if cursor.fetchall() == [(count,)]:
                return f"bench.{name}"
            raise SystemExit(f"bench.{name} is half made; remove {DATA} and run this again")
        except cursor.connection.ProgrammingError:
            print(f"making bench.{name}", file=sys.stderr)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(count, shuffled))
        cursor.adbc_ingest(name, reader, mode="create", db_schema_name="bench")
    return f"bench.{name}"


def location(server, table):
    """The directory of a table, which pylance and our scanner read in place."""
    path = pathlib.Path(server.resolve(table)["location"])
    if not path.is_dir():
        raise SystemExit(f"{path} is not there; remove {DATA} and run this again")
    return path


# -- peers in a process of their own -----------------------------------------------------------------
class Helper:
    """A program that answers each line of its input with one line."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.wait()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}")
        return line.strip()

    def ask(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()


@contextlib.contextmanager
def flight_peer(count, batch_rows=65536):
    """A client of flight_peer.py."""
    with Helper(sys.executable, ROOT / "bench/flight_peer.py", count, batch_rows) as helper:
        with contextlib.closing(flight.connect(f"grpc://127.0.0.1:{helper.read()}")) as client:
            yield client
