"""rollout_read_bench.py - reading a rollout store: lists over generations that nobody merged and over merged rows, single
records, payloads, a learner's scan. In process (rollout_reads.c) and over HTTP; the embedded published stores in turns.
"""
import base64
import http.client
import json
import os
import socket
import threading
import time

import rollout_measure as rollout

import measure

ROUNDS = measure.size(5, 1)
GENERATIONS = measure.size(200, 10)
MANY = measure.size(4096, 20)
BLOB = measure.size(16 << 20, 2 << 20)
CLIENTS = 8


def fill(directory, **settings):
    rollout.tool("rollout_adds", directory, "fsync=never", *(f"{name}={value}" for name, value in settings.items()))
    return directory


def reads(directory, *words):
    return rollout.tool("rollout_reads", directory, *words)


def median(samples, name):
    return measure.median([sample[name] for sample in samples])


def request(connection, path):
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {body[:200]}")
    return body


# -- lists -----------------------------------------------------------------------------------------
def lists(directory, peers):
    """P1, P2 (in process), P4: over generations that nobody merged."""
    store = fill(directory / "unmerged.rollout.lance", adds=GENERATIONS)
    for peer in peers:
        peer.ask_json(f"add {GENERATIONS} 1 0")
    mine, *theirs = measure.in_turns(ROUNDS, lambda: reads(store, "limit=200"),
                                     *(lambda peer=peer: peer.ask_json("list")[0] for peer in peers))
    slow = min((measure.median(took) for took in theirs), default=None)
    busy = rollout.busy_note()
    measure.report(f"list over {GENERATIONS} unmerged generations, fresh process", "ms", median(mine, "cold_ms"), slow,
                   target="<= 20", note=f"opened anew, page cache warm, as JSON; {busy}")
    measure.report(f"list over {GENERATIONS} unmerged generations, warm, in process", "ms", median(mine, "warm_ms"), slow,
                   target="<= 3", note=busy)
    gets = [peer.ask_json("get peer-0-0")[0] for peer in peers]
    measure.report(f"get over {GENERATIONS} unmerged generations", "ms", median(mine, "get_ms"), min(gets, default=None),
                   target="<= 0.5", note=busy)
    many = reads(fill(directory / "many.rollout.lance", adds=MANY), "limit=200")
    measure.report(f"get over {MANY} unmerged generations", "ms", many["get_ms"], target="<= 1",
                   note=f"a list of 200 of them: {many['cold_ms']:.0f} ms fresh, {many['warm_ms']:.1f} ms warm; {busy}")


def merged(directory, peers):
    """P3: 200 merged rows, the same store read by all."""
    store = fill(directory / "merged.rollout.lance", adds=GENERATIONS, merge=GENERATIONS)
    mine, *theirs = measure.in_turns(ROUNDS, lambda: reads(store, "limit=200"),
                                     *(lambda peer=peer: peer.ask_json(f"list {store}") for peer in peers))
    assert all(rows == GENERATIONS for took in theirs for _, rows in took)
    peer = min((measure.median([ms for ms, _ in took]) for took in theirs), default=None)
    busy = rollout.busy_note()
    measure.report("list of 200 merged rows, warm", "ms", median(mine, "warm_ms"), peer, target="<= 2",
                   note=f"in process, as JSON; peer: the same store, its handle opened anew; {busy}")
    measure.report("list of 200 merged rows, fresh process", "ms", median(mine, "cold_ms"), peer, target="<= 5",
                   note=f"in process, as JSON; peer: the same store, its handle opened anew; {busy}")


def over_http(directory):
    """P2: the same 200 generations by a warm server."""
    data = directory / "served"
    fill(data / "s.rollout.lance", adds=GENERATIONS)
    with rollout.served(data) as server:
        connection = http.client.HTTPConnection(server.address)
        path = "/api/v1/rollouts/s/records?limit=200"
        rows = len(json.loads(request(connection, path))["records"])
        took = [measure.seconds(request, connection, path) * 1000 for _ in range(measure.size(50, 3))]
        connection.close()
    measure.report(f"list over {GENERATIONS} unmerged generations, warm, over HTTP", "ms", measure.median(took),
                   target="<= 3", note=f"{rows} rows, one connection, Python's client; {rollout.busy_note()}")


# -- a learner's scan ------------------------------------------------------------------------------
LEARNER = "output_tokens,output_logprobs,advantage"


def page_cache_gb_per_s(directory):
    """The table's own files, read from the page cache piece by piece into one buffer by one thread."""
    buffer, read, start = bytearray(1 << 20), 0, time.perf_counter()
    for path in (directory / "data").iterdir():
        with open(path, "rb", buffering=0) as file:
            while got := file.readinto(buffer):
                read += got
    return read / (time.perf_counter() - start) / 1e9


def receive_all(connection):
    """Bytes until the peer closes, into one buffer."""
    buffer, received = bytearray(1 << 20), 0
    while got := connection.recv_into(buffer):
        received += got
    return received


def loopback_gb_per_s(size):
    """One TCP connection over loopback: a process that sends one buffer again and again, one that receives."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = os.fork()
        if sender == 0:
            connection, piece = listener.accept()[0], bytes(1 << 20)
            for sent in range(0, size, len(piece)):
                connection.sendall(piece[:size - sent])
            os._exit(0)
        with socket.create_connection(listener.getsockname()) as connection:
            start = time.perf_counter()
            received = receive_all(connection)
            took = time.perf_counter() - start
        os.waitpid(sender, 0)
    return received / took / 1e9


def arrow_gb_per_s(server, store, size):
    """A whole answer by a client that only receives it, which must be all of the `size` bytes of the columns."""
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as connection:
        start = time.perf_counter()
        connection.sendall(f"GET /api/v1/rollouts/{store}/records?order=none&columns={LEARNER} HTTP/1.1\r\nHost: {host}\r\n"
                           "Accept: application/vnd.apache.arrow.stream\r\nConnection: close\r\n\r\n".encode())
        received = receive_all(connection)
        took = time.perf_counter() - start
    if received < size:
        raise SystemExit(f"an answer of {received} bytes, of columns that have {size}")
    return received / took / 1e9


def learner(directory):
    """P11: output_tokens, output_logprobs and advantage of a million merged rows as Arrow batches; in process, over HTTP."""
    rows, batch, data = measure.size(1_000_000, 2000), measure.size(10_000, 500), directory / "learners"
    store = fill(data / "learner.rollout.lance", adds=rows // batch, rows=batch, tokens=32, varied=1,
                 merge=measure.size(20, 2))
    mine, raw = measure.in_turns(ROUNDS, lambda: reads(store, f"columns={LEARNER}", "rounds=9"),
                                 lambda: page_cache_gb_per_s(store))
    size, peak = mine[0]["bytes"], max(run["peak_mib"] for run in mine)
    measure.report(f"scan of tokens, logprobs and advantage of {rows:,} merged rows", "GB/s", median(mine, "gb_per_s"),
                   measure.median(raw), target=">= 0.8x", higher_is_better=True,
                   note=f"in process, {size / 1e6:.0f} MB as Arrow batches, peak {peak} MiB; peer: the table's files read "
                        f"from the page cache by one thread into one buffer; {rollout.busy_note()}")
    with rollout.served(data) as server:
        arrow_gb_per_s(server, "learner", size)
        mine, raw = measure.in_turns(measure.size(9, 1), lambda: arrow_gb_per_s(server, "learner", size),
                                     lambda: loopback_gb_per_s(size))
    measure.report(f"the same scan of {rows:,} merged rows over HTTP", "GB/s", measure.median(mine), measure.median(raw),
                   target=">= 0.6x", higher_is_better=True,
                   note=f"Arrow out, one connection; peer: one TCP connection over loopback, same client; "
                        f"{rollout.busy_note()}")


# -- payloads --------------------------------------------------------------------------------------
def put_blob(server, store, key, size):
    connection = http.client.HTTPConnection(server.address)
    connection.request("POST", "/api/v1/rollouts", json.dumps({"name": store}), {"Content-Type": "application/json"})
    connection.getresponse().read()
    body = json.dumps({"records": [{"id": key, "rollout_id": "r",
                                    "binary_payload": base64.b64encode(os.urandom(size)).decode()}]})
    connection.request("POST", f"/api/v1/rollouts/{store}/records", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 201:
        raise SystemExit(f"a payload was not taken: {answer.status} {text[:200]}")
    connection.close()


def drain(address, path, rounds, sizes):
    connection = http.client.HTTPConnection(address)
    buffer = bytearray(1 << 20)
    for _ in range(rounds):
        connection.request("GET", path)
        answer = connection.getresponse()
        while got := answer.readinto(buffer):
            sizes.append(got)
    connection.close()


def blobs(directory):
    """P10: 16 MiB by eight clients at once."""
    rounds = measure.size(8, 1)
    with rollout.served(directory / "blobs") as server:
        put_blob(server, "s", "b", BLOB)
        path, sizes = "/api/v1/rollouts/s/records/b/blob", []
        drain(server.address, path, 1, [])
        before = server.rss_bytes()
        threads = [threading.Thread(target=drain, args=(server.address, path, rounds, sizes)) for _ in range(CLIENTS)]
        took = measure.seconds(lambda: ([thread.start() for thread in threads], [thread.join() for thread in threads]))
        grown = (server.rss_bytes() - before) / 2**20
    measure.report(f"payload of {BLOB >> 20} MiB, {CLIENTS} clients", "GB/s", sum(sizes) / took / 1e9, target=">= 1.5",
                   higher_is_better=True, note=f"over HTTP, the clients on the same cores; the server grew by {grown:.0f} "
                                               f"MiB; {rollout.busy_note()}")
    measure.report("memory of a server that sends payloads, growth", "MiB", grown, target="<= 64",
                   note=f"{CLIENTS} clients at once")


def sparing(directory):
    """P16: a list over rows with payloads reads next to nothing of them."""
    count, size = measure.size(64, 4), measure.size(16 << 20, 1 << 20)
    data = directory / "sparing"
    with rollout.served(data) as server:
        for number in range(count):
            put_blob(server, "s", f"b{number}", size)
    mine = reads(data / "s.rollout.lance", "rounds=1", "gets=0")
    measure.report("bytes that a list reads of a store with payloads", "%", 100 * mine["read_bytes"] / (count * size),
                   target="<= 2", note=f"{mine['rows']} rows with {count * size / 2**20:.0f} MiB of payloads, two lists, "
                                       "as the kernel counts reads")


def main():
    with measure.fresh_directory() as directory, rollout.peers(directory) as peers:
        lists(directory, peers)
        merged(directory, peers)
        over_http(directory)
        learner(directory)
        blobs(directory)
        sparing(directory)


if __name__ == "__main__":
    main()
