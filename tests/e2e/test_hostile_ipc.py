"""test_hostile_ipc.py - truncated, flipped and crafted IPC streams over the wire: an error, never a crash or a row."""
import random

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import lake
import raw_grpc

SCHEMA = pa.schema([pa.field("n", pa.int64()), pa.field("s", pa.utf8()), pa.field("d", pa.dictionary(pa.int8(), pa.utf8()))])
PLAIN = pa.schema([pa.field("n", pa.int64()), pa.field("s", pa.utf8()), pa.field("d", pa.utf8())])


@pytest.fixture(scope="module")
def table(server):
    server.create("hostile.t", PLAIN)
    return server


def messages():
    rows = pa.record_batch([pa.array([1, None, 3]), pa.array(["a", "bb", None]),
                            pa.array(["x", "y", "x"]).dictionary_encode().cast(SCHEMA.field("d").type)], schema=SCHEMA)
    return lake.messages(rows)


def ingest_descriptor():
    command = lake.command("CommandStatementIngest", lake.field(1, b"\x08\x02\x10\x02"), lake.field(2, b"t"),
                           lake.field(3, b"hostile"))
    return lake.varint(1 << 3) + lake.varint(2) + lake.field(2, command)


def send(server, parts):
    return raw_grpc.put(server, [(ingest_descriptor() if i == 0 else None, header, body)
                                 for i, (header, body) in enumerate(parts)])


def rows(server):
    return server.sql("SELECT count(*) AS c FROM hostile.t").column("c").to_pylist()[0]


def test_the_stream_itself_is_good(table):
    assert send(table, messages())[0] == "OK"
    assert rows(table) == 3


def test_truncated_messages(table):
    before = rows(table)
    for index, (header, body) in enumerate(messages()):
        for cut in range(0, len(header), 7):
            parts = messages()
            parts[index] = (header[:cut], body)
            assert send(table, parts)[0] != "OK", (index, cut)
        for cut in range(0, len(body), 13):
            parts = messages()
            parts[index] = (header, body[:cut])
            assert send(table, parts)[0] != "OK", (index, cut)
    assert table.process.poll() is None
    assert rows(table) == before


def test_a_dictionary_batch_without_nodes_or_buffers(table):
    """A DictionaryBatch whose record batch has no field nodes crashed a well-known decoder."""
    parts = messages()
    before = rows(table)
    schema, dictionary, batch = parts
    header = bytearray(dictionary[0])
    crashed = 0
    for offset in range(0, len(header) - 4, 4):  # zero each word in turn: vector lengths among them
        changed = bytearray(header)
        changed[offset:offset + 4] = b"\0\0\0\0"
        code, _ = send(table, [schema, (bytes(changed), dictionary[1]), batch])
        crashed += table.process.poll() is not None
    assert crashed == 0
    assert rows(table) >= before


@pytest.mark.parametrize("seed", range(lake.count(4, 200)))
def test_flipped_bytes(table, seed):
    random.seed(seed)
    for _ in range(40):
        parts = messages()
        index = random.randrange(len(parts))
        header, body = bytearray(parts[index][0]), bytearray(parts[index][1])
        target = header if random.random() < 0.8 or not body else body
        for _ in range(random.randint(1, 4)):
            target[random.randrange(len(target))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        parts[index] = (bytes(header), bytes(body))
        send(table, parts)  # the outcome may be anything that is an answer
        assert table.process.poll() is None
    table.sql("SELECT * FROM hostile.t")


def test_no_message_at_all(table):
    assert raw_grpc.put(table, [])[0] == "INVALID_ARGUMENT"


def test_a_batch_before_the_schema(table):
    assert send(table, messages()[1:])[0] == "INVALID_ARGUMENT"
