"""Writes seeds/flight_pb and seeds/flight_stream: the golden messages, and puts as pyarrow would send them."""
import pathlib
import re
import struct

import pyarrow as pa

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def golden():
    """The order of targets in fuzz_flight_pb.c: LK_FLIGHT_MESSAGES, then the command, and the rest."""
    order = re.search(r"#define LK_FLIGHT_MESSAGES.*?\n\n", (ROOT / "src/flight/pb_flight.h").read_text(), re.S)
    names = re.findall(r"M\((\w+)\)", order.group(0))
    targets = {name.upper(): i for i, name in enumerate(names)}
    targets |= {"CANCEL_REQUEST": targets["CANCEL_INFO_REQUEST"], "CANCEL_RESULT": targets["CANCEL_INFO_RESULT"],
                "RENEW_REQUEST": targets["RENEW_ENDPOINT_REQUEST"], "PATH": targets["DESCRIPTOR"],
                "INFO_EMPTY": targets["INFO"], "UPDATE_RESULT": len(names) + 1, "BIND_RESULT": len(names) + 2,
                "DATA": len(names) + 3}
    text = (ROOT / "src/flight/pb_flight_golden.h").read_text()
    for name, body in re.findall(r"#define GOLDEN_(\w+) ?\\?\n?(.*?)(?=\n#define|\Z)", text, re.S):
        data = bytes.fromhex("".join(re.findall(r'"([0-9a-f]*)"', body)))
        (HERE / "flight_pb" / name.lower()).write_bytes(bytes([targets.get(name, len(names))]) + data)


def put(name, table, choice=0, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    out, first = bytes([choice]), True
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        data = field(1, b"\x08\x02\x12\x03cmd") if first else b""
        data += field(2, message.metadata.to_pybytes())
        if message.body is not None and message.body.size:
            data += field(1000, message.body.to_pybytes())
        out, first = out + struct.pack("<I", len(data)) + data, False
    (HERE / "flight_stream" / name).write_bytes(out)


golden()
flat = pa.table({"i": pa.array([1, None, 3]), "s": ["a", None, "ccc"], "b": [True, False, None],
                 "f": pa.array([1.5, 2.5, None], pa.float32())})
nested = pa.table({"l": [[1, 2], None, []], "st": [{"x": 1, "y": "q"}, None, {"x": None, "y": "r"}],
                   "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
                   "fl": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))})
words = pa.table({"d": pa.array(["x", "y", "x", None]).dictionary_encode()})
put("flat", flat)
put("nested", nested)
put("dictionary", words)
put("dictionary_decoded", words, choice=2)
put("zstd", flat, compression="zstd")
put("lz4", nested, compression="lz4")
put("lz4_refused", flat, choice=1, compression="lz4")
put("two_batches", pa.concat_tables([flat, flat]))
