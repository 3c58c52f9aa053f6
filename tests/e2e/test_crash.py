"""test_crash.py - kill -9 at random moments while four clients append: after every restart each acknowledged row is there
exactly once, each operation has one version, and nothing half-written is visible. LK_SERIAL"""
import random
import threading
import time

import pyarrow as pa
import pyarrow.flight as flight

import lake

SCHEMA = pa.schema([pa.field("client", pa.int64()), pa.field("operation", pa.int64()), pa.field("row", pa.int64())])
CLIENTS, ROWS = 4, 50


class Client(threading.Thread):
    """Appends operation after operation; each is retried under its id until it is acknowledged."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.server, self.number = server, number
        self.acknowledged, self.attempted, self.stop = {}, 0, threading.Event()

    def rows(self, operation):
        return pa.record_batch([pa.array([self.number] * ROWS), pa.array([operation] * ROWS), pa.array(range(ROWS))],
                               schema=SCHEMA)

    def run(self):
        while not self.stop.is_set():
            identity, rows = lake.uuid7(), self.rows(self.attempted)
            self.attempted += 1
            while not self.stop.is_set():
                try:
                    self.acknowledged[self.attempted - 1] = (identity, self.server.append("crash.t", rows, identity))
                    break
                except (flight.FlightError, pa.ArrowException):
                    time.sleep(0.02)


def check(server, clients):
    acknowledged = {(client.number, operation) for client in clients for operation in list(client.acknowledged)}
    table = server.sql("SELECT client, operation, count(*) AS c, count(DISTINCT row) AS d FROM crash.t GROUP BY ALL")
    seen = {}
    for client, operation, rows, distinct in zip(*(table.column(i).to_pylist() for i in range(4))):
        assert (rows, distinct) == (ROWS, ROWS), f"client {client} operation {operation}: {rows} rows, {distinct} distinct"
        seen[client, operation] = True
    assert acknowledged <= set(seen), f"lost: {sorted(acknowledged - set(seen))}"
    return len(seen)


def test_acknowledged_rows_survive_kill_9(own_server):
    random.seed(4711)
    own_server.create("crash.t", SCHEMA)
    clients = [Client(own_server, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for round in range(lake.count(12, 100)):
        time.sleep(random.uniform(0.02, 0.6))
        own_server.kill()
        own_server.start()
        check(own_server, clients)
    time.sleep(0.5)
    for client in clients:
        client.stop.set()
    for client in clients:
        client.join(20)
    assert check(own_server, clients) >= CLIENTS

    # A repeat of each acknowledged operation names its one version; a count shows that it added nothing.
    before = own_server.sql("SELECT count(*) AS c FROM crash.t").column("c").to_pylist()
    versions = []
    for client in clients:
        for operation, (identity, version) in random.sample(sorted(client.acknowledged.items()), min(10, len(client.acknowledged))):
            assert own_server.append("crash.t", client.rows(operation), identity) == version
        versions += [version for _, version in client.acknowledged.values()]
    assert len(versions) == len(set(versions))
    assert own_server.sql("SELECT count(*) AS c FROM crash.t").column("c").to_pylist() == before

    import lance
    assert lance.dataset(own_server.resolve("crash.t")["location"]).count_rows() == before[0]
