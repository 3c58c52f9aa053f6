"""Writes seeds/arrow_ipc, arrow_schema and arrow_cast: what pyarrow writes of every type and container, type
texts, and values as text. Run by hand when a type is added; the result is committed, so that tests need no Python."""
import pathlib
import random
import sys

import pyarrow as pa

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "interop"))
from arrow_support import DICTIONARIES, NESTED, PRIMITIVES, batch  # noqa: E402


def put(target, name, data, choice=None):
    (HERE / target).mkdir(exist_ok=True)
    (HERE / target / name).write_bytes((b"" if choice is None else bytes([choice])) + bytes(data))


def ipc(batches, container="stream", **options):
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
    with make(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for rows in batches:
            writer.write_batch(rows)
    return sink.getvalue()


rng = random.Random(1)
put("arrow_ipc", "primitives", ipc([batch([pa.null(), *PRIMITIVES], rng, 3)]), 0)
put("arrow_ipc", "nested", ipc([batch(NESTED[:5], rng, 3)]), 8)
put("arrow_ipc", "deep_file", ipc([batch(NESTED[5:], rng, 3)], "file"), 0)
put("arrow_ipc", "file_as_stream", ipc([batch([pa.int32(), pa.string()], rng, 2)] * 2, "file"), 4)
put("arrow_ipc", "zstd", ipc([batch([pa.int32(), pa.string()], rng, 40)], compression="zstd"), 8)
put("arrow_ipc", "lz4", ipc([batch([pa.list_(pa.int16()), DICTIONARIES[0]], rng, 40)], compression="lz4"), 2)
put("arrow_ipc", "lz4_refused", ipc([batch([pa.int32()], rng, 40)], compression="lz4"), 1)
put("arrow_ipc", "dictionaries", ipc([batch(DICTIONARIES[:3], rng, 4) for _ in range(2)]), 2)
put("arrow_ipc", "inner_dictionaries_file", ipc([batch(DICTIONARIES[3:], rng, 4)], "file"), 10)
first, second = pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b", "c"]).dictionary_encode()
deltas = [pa.record_batch([x], ["d"]) for x in (first, second)]
put("arrow_ipc", "deltas", ipc(deltas, emit_dictionary_deltas=True), 0)
put("arrow_ipc", "deltas_file", ipc(deltas, "file", emit_dictionary_deltas=True), 10)
put("arrow_ipc", "old_framing", ipc([batch([pa.int8()], rng, 2)], use_legacy_format=True), 0)

fields = [*PRIMITIVES[::3], *NESTED, *DICTIONARIES]
schema = pa.schema([pa.field(f"c{i}", kind, i % 2 == 0, {"k": str(i)}) for i, kind in enumerate(fields)], {"a": "b"})
put("arrow_schema", "message", schema.serialize(), 0)
put("arrow_schema", "bare", schema.serialize().to_pybytes()[8:], 0)
for number, text in enumerate([
        "int64?", "timestamp[us,Europe/Berlin]", "decimal256(76,-3)?", "fixed_size_list<float32>(768)",
        "struct<a:int64,\"b \"\"c\":utf8?,f:file?>", "map<utf8,list<time64[ns]?>?>", "dictionary<int8,large_utf8>",
        "large_list<fixed_size_binary(16)>?", "list<list<list<list<duration[s]>>>>"]):
    put("arrow_schema", f"type_{number}", text.encode(), 1)
    put("arrow_schema", f"column_{number}", b"name:" + text.encode(), 2)

for number, text in enumerate([
        "-12.50e-1", "9" * 40, "0.00000000000000000000000000000000000001", "2024-02-29T23:59:59.999999999+05:30",
        "1:02:03.5", "true", "NaN", "-0001-01-01 00:00", "abc"]):
    put("arrow_cast", str(number), text.encode())
