"""test_streams.py - large messages in, messages of a good size out, and readers that are slow or leave."""
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

import lake

WIDE = 768  # floats a row: 3 KiB


@pytest.fixture(scope="module")
def wide(server):
    rows = 20_000
    values = pa.array(np.arange(rows * WIDE, dtype="float32"))
    table = pa.table({"id": pa.array(range(rows)), "e": pa.FixedSizeListArray.from_arrays(values, WIDE)})
    with server.adbc(**{"adbc.flight.sql.client_option.with_max_msg_size": str(128 << 20)}) as connection:
        with connection.cursor() as cursor:
            assert cursor.adbc_ingest("wide", table, mode="create", db_schema_name="streams") == rows
    return table


def test_one_batch_larger_than_an_append_is_taken_whole(server):
    rows = 3_000_000
    numbers = np.arange(rows, dtype="int64")
    table = pa.table({"a": numbers, "b": numbers * 0.5, "c": numbers % 7})  # 72 MB in one message
    with server.adbc(**{"adbc.flight.sql.client_option.with_max_msg_size": str(128 << 20)}) as connection:
        with connection.cursor() as cursor:
            assert cursor.adbc_ingest("one_batch", table, mode="create", db_schema_name="streams") == rows
    sums = server.sql("SELECT count(*) AS n, sum(a)::BIGINT AS a, sum(c)::BIGINT AS c FROM streams.one_batch")
    assert sums.to_pylist() == [{"n": rows, "a": int(numbers.sum()), "c": int((numbers % 7).sum())}]


def test_wide_rows_come_in_messages_that_go_clients_take(server, wide):
    with server.adbc() as connection, connection.cursor() as cursor:  # its limit is 16 MiB a message
        cursor.execute("SELECT id, e FROM streams.wide")
        got = cursor.fetch_arrow_table().sort_by("id")
    assert got.column("id").to_pylist() == wide.column("id").to_pylist()
    assert got.column("e").combine_chunks().flatten().equals(wide.column("e").combine_chunks().flatten())


def test_messages_are_neither_tiny_nor_huge(server):
    with server.flight() as client:
        for text in ("SELECT a, b FROM streams.one_batch", "SELECT a + 1 AS x, b FROM streams.one_batch"):
            info = client.get_flight_info(lake.query_descriptor(text))
            sizes = [chunk.data.nbytes for chunk in client.do_get(info.endpoints[0].ticket)]
            assert max(sizes) <= 8 << 20
            assert sum(sizes) / len(sizes) >= 64 << 10


def test_a_slow_reader_gets_everything_and_holds_up_nobody(server):
    with server.flight() as slow, server.flight() as fast:
        info = slow.get_flight_info(lake.query_descriptor("SELECT a, b, c FROM streams.one_batch"))
        reader = slow.do_get(info.endpoints[0].ticket)
        rows = reader.read_chunk().data.num_rows
        began = time.monotonic()
        while time.monotonic() - began < 2:
            assert lake.execute(fast, "SELECT 1 AS x").num_rows == 1
            time.sleep(0.05)
        assert rows + reader.read_all().num_rows == 3_000_000


def test_readers_that_leave_cost_nothing_that_stays(server):
    def leave():
        with server.flight() as client:
            info = client.get_flight_info(lake.query_descriptor("SELECT a, b, c FROM streams.one_batch"))
            reader = client.do_get(info.endpoints[0].ticket)
            reader.read_chunk()
            reader.cancel()

    def memory():
        with open(f"/proc/{server.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def threads():
        with open(f"/proc/{server.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("Threads"))

    for _ in range(5):
        leave()
    before, threads_before = memory(), threads()
    for _ in range(10):
        group = [threading.Thread(target=leave) for _ in range(4)]
        for thread in group:
            thread.start()
        for thread in group:
            thread.join()
    time.sleep(0.5)
    assert memory() < before + 64 * 1024
    assert threads() <= threads_before + 8
    with server.flight() as client, pytest.raises((flight.FlightCancelledError, flight.FlightTimedOutError)):
        options = flight.FlightCallOptions(timeout=0.2)
        for _ in range(50):
            lake.execute(client, "SELECT sum(x.c * y.c) FROM streams.one_batch x JOIN streams.one_batch y USING (c)",
                         options)
