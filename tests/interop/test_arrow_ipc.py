"""lake's Arrow IPC against pyarrow, both ways: every type, nulls, slices, nesting, dictionaries, compression,
streams and files; filter, take and concat against pyarrow's own."""
import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from arrow_support import DICTIONARIES, EVERYTHING, NESTED, FULL, ToolError, array, batch, read, tool, write

CONTAINERS = ["stream", "file"]
SEEDS = range(200 if FULL else 4)


def same(ours, theirs):
    """Equal as pyarrow sees it, with NaN equal to itself."""
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.num_rows == theirs.num_rows
    for name in theirs.column_names:
        left, right = ours[name], theirs[name]
        if not left.equals(right):  # NaN differs from itself there; Python's text form does not
            assert str(left.to_pylist()) == str(right.to_pylist()), name


def kept(table, modulus, remainder):
    """The rows that `arrow_tool filter` keeps."""
    rows = np.arange(table.num_rows, dtype=np.uint64)
    return table.filter(pa.array((rows * np.uint64(2654435761) >> np.uint64(7)) % modulus < remainder))


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_type_comes_back_as_pyarrow_wrote_it(tmp_path, container, seed):
    rng = random.Random(seed)
    batches = [batch(EVERYTHING, rng, count, rng.choice([0, 0.2, 1])) for count in (100, 0, 1, 37)]
    write(tmp_path / "in", batches, container=container)
    tool("slice", tmp_path / "in", tmp_path / "out", container)
    same(read(tmp_path / "out", container), pa.Table.from_batches(batches))


@pytest.mark.parametrize("skip,drop,batchwise", [(0, 5, 0), (8, 3, 0), (1, 1, 0), (13, 0, 0), (0, 5, 1), (13, 2, 1)])
def test_slices_are_realigned(tmp_path, skip, drop, batchwise):
    rng = random.Random(7)
    batches = [batch(EVERYTHING, rng, 100) for _ in range(2)]
    write(tmp_path / "in", batches)
    tool("slice", tmp_path / "in", tmp_path / "out", "file", skip, drop, batchwise)
    want = pa.Table.from_batches([b.slice(skip, 100 - skip - drop) for b in batches])
    same(read(tmp_path / "out", "file"), want)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_compressed_input_is_read(tmp_path, codec, container):
    rng = random.Random(3)
    batches = [batch(EVERYTHING + DICTIONARIES, rng, 500), ]
    write(tmp_path / "in", batches, container=container, compression=codec)
    tool("slice", tmp_path / "in", tmp_path / "out", "stream")
    same(read(tmp_path / "out"), pa.Table.from_batches(batches))


def test_metadata_and_flags_survive(tmp_path):
    schema = pa.schema([
        pa.field("a b.c\"d", pa.int8(), nullable=False, metadata={"k": "v", "bytes": b"\x00\xff"}),
        pa.field("", pa.map_(pa.string(), pa.int8(), keys_sorted=True)),
        pa.field("é", pa.list_(pa.field("element", pa.int8(), nullable=False))),
        pa.field("o", pa.dictionary(pa.int8(), pa.string(), ordered=True)),
    ], metadata={"table": "x"})
    rows = pa.record_batch([pa.array([1], pa.int8()), array(schema[1].type, random.Random(1), 1),
                            pa.array([[1, 2]], schema[2].type),
                            pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), ["x"], ordered=True)], schema)
    write(tmp_path / "in", [rows])
    tool("slice", tmp_path / "in", tmp_path / "out", "file")
    assert read(tmp_path / "out", "file").schema.equals(schema, check_metadata=True)


def test_old_framing_and_metadata_v4_are_read(tmp_path):
    rows = batch(EVERYTHING, random.Random(5), 20)
    for options in ({"use_legacy_format": True}, {"metadata_version": pa.ipc.MetadataVersion.V4}):
        write(tmp_path / "in", [rows], **options)
        tool("slice", tmp_path / "in", tmp_path / "out")
        same(read(tmp_path / "out"), pa.Table.from_batches([rows]))


def test_a_stream_on_standard_input_and_a_file_through_it(tmp_path):
    import subprocess
    from arrow_support import TOOL
    rows = batch(EVERYTHING, random.Random(5), 20)
    for container in CONTAINERS:
        write(tmp_path / "in", [rows, rows], container=container)
        with open(tmp_path / "in", "rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=-1) as pipe:
            subprocess.run([TOOL, "slice", "-", tmp_path / "out", "stream"], stdin=pipe.stdout, check=True)
        same(read(tmp_path / "out"), pa.Table.from_batches([rows, rows]))


# -- dictionaries ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", SEEDS)
def test_dictionaries_are_replaced_in_streams(tmp_path, seed):
    rng = random.Random(seed)
    batches = [batch(DICTIONARIES, rng, 50) for _ in range(3)]
    batches.insert(1, batches[0].slice(5, 20))
    write(tmp_path / "in", batches, unify_dictionaries=False)
    tool("slice", tmp_path / "in", tmp_path / "out")
    with pa.OSFile(str(tmp_path / "out")) as file:
        ours = list(pa.ipc.open_stream(file))
    assert [b.to_pylist() for b in ours] == [b.to_pylist() for b in batches]


def test_dictionary_deltas_are_joined(tmp_path):
    first = pa.array(["a", "b", "a"]).dictionary_encode()
    second = pa.DictionaryArray.from_arrays(pa.array([2, 0, None], pa.int32()), ["a", "b", "c"])
    batches = [pa.record_batch([x], ["d"]) for x in (first, second)]
    for container in CONTAINERS:
        write(tmp_path / "in", batches, container=container, emit_dictionary_deltas=True)
        for target in CONTAINERS:
            tool("slice", tmp_path / "in", tmp_path / "out", target)
            assert read(tmp_path / "out", target)["d"].to_pylist() == ["a", "b", "a", "c", "a", None]


def test_a_file_refuses_to_replace_a_dictionary(tmp_path):
    batches = [pa.record_batch([pa.array(x).dictionary_encode()], ["d"]) for x in (["a"], ["b"])]
    write(tmp_path / "in", batches)
    with pytest.raises(ToolError, match="UNSUPPORTED_FORMAT.*stream"):
        tool("slice", tmp_path / "in", tmp_path / "out", "file")


def test_an_unchanged_dictionary_is_sent_once(tmp_path):
    rows = pa.record_batch([pa.array(["abc" * 1000, "d"] * 5).dictionary_encode()], ["d"])
    write(tmp_path / "in", [rows] * 50)
    tool("slice", tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out").stat().st_size < 50 * 1000
    assert read(tmp_path / "out").num_rows == 500


@pytest.mark.parametrize("seed", SEEDS)
def test_dictionaries_decode_to_plain_values(tmp_path, seed):
    rng = random.Random(seed)
    batches = [batch(DICTIONARIES, rng, 40) for _ in range(2)]
    write(tmp_path / "in", batches)
    tool("plain", tmp_path / "in", tmp_path / "out", "file")
    out = read(tmp_path / "out", "file")
    assert out.to_pylist() == [row for b in batches for row in b.to_pylist()]
    assert out.schema.types == [
        pa.string(), pa.int64(), pa.binary(4), pa.list_(pa.string()),
        pa.struct([("d", pa.large_string()), ("e", pa.int8())]), pa.list_(pa.int16())]


# -- filter, take, concat ----------------------------------------------------------------------------------

@pytest.mark.parametrize("modulus,remainder", [(2, 1), (100, 1), (100, 99), (1, 1), (1, 0), (3, 1), (64, 40)])
def test_filter_keeps_what_pyarrow_keeps(tmp_path, modulus, remainder):
    rng = random.Random(modulus)
    table = pa.Table.from_batches([batch(EVERYTHING + DICTIONARIES[:3], rng, 333)])
    write(tmp_path / "in", table.to_batches())
    tool("filter", tmp_path / "in", tmp_path / "out", "stream", modulus, remainder)
    same(read(tmp_path / "out"), kept(table, modulus, remainder))


def test_filter_of_sliced_and_long_input(tmp_path):
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.float32(), 4),
             pa.list_(pa.int8()), pa.binary(16)]
    table = pa.Table.from_batches([batch(kinds, random.Random(1), 20_000)])
    write(tmp_path / "in", table.to_batches())
    tool("slice", tmp_path / "in", tmp_path / "cut", "stream", 13, 20)
    for modulus, remainder in ((2, 1), (10, 9), (50, 1)):
        tool("filter", tmp_path / "cut", tmp_path / "out", "stream", modulus, remainder)
        same(read(tmp_path / "out"), kept(table.slice(13, 20_000 - 33), modulus, remainder))


@pytest.mark.parametrize("seed", SEEDS)
def test_take_gives_rows_in_any_order_and_nulls(tmp_path, seed):
    kinds = [k for k in EVERYTHING if not pa.types.is_null(k)]
    rows = batch(kinds, random.Random(seed), 60)
    write(tmp_path / "in", [rows])
    tool("take", tmp_path / "in", tmp_path / "out")
    indices = pa.array([None if i % 7 == 6 else 59 - i for i in range(60)], pa.int64())
    want = [rows.column(i).take(indices) for i in range(rows.num_columns)]
    same(read(tmp_path / "out"), pa.Table.from_arrays(want, rows.schema.names))


@pytest.mark.parametrize("seed", SEEDS)
def test_concat_joins_batches_and_their_dictionaries(tmp_path, seed):
    rng = random.Random(seed)
    batches = [batch(EVERYTHING + DICTIONARIES[:3], rng, count, rng.choice([0, 0.3])) for count in (17, 0, 80, 1)]
    write(tmp_path / "in", batches, unify_dictionaries=False)
    tool("concat", tmp_path / "in", tmp_path / "out", "file")
    same(read(tmp_path / "out", "file"), pa.Table.from_batches(batches))


@pytest.mark.parametrize("codec", [None, "lz4"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_views_arrive_as_text_and_bytes(tmp_path, container, codec):
    rng = random.Random(5)
    value = lambda: rng.choice([None, "", "twelve bytes", "thirteen byte", "é" * rng.randint(0, 300)])
    texts = [[value() for _ in range(count)] for count in (700, 0, 1, 30)]
    kinds = [(pa.string_view(), pa.string()), (pa.binary_view(), pa.binary()),
             (pa.list_(pa.string_view()), pa.list_(pa.string())),
             (pa.struct([("a", pa.string_view()), ("b", pa.binary_view())]), pa.struct([("a", pa.string()), ("b", pa.binary())]))]

    def column(text, kind):
        if pa.types.is_list(kind):
            text = [None if one is None else [one, one] for one in text]
        elif pa.types.is_struct(kind):
            text = [{"a": one, "b": one} for one in text]
        return pa.array(text, kind)

    def batches(which):
        return [pa.record_batch([column(text, kind[which]) for kind in kinds], list("abcd")) for text in texts]

    views, plain = batches(0), batches(1)
    write(tmp_path / "in", views + [views[0].slice(3, 9)], container=container, compression=codec)
    tool("slice", tmp_path / "in", tmp_path / "out", "stream")
    same(read(tmp_path / "out"), pa.Table.from_batches(plain + [plain[0].slice(3, 9)]))


# -- refused, in words -------------------------------------------------------------------------------------

@pytest.mark.parametrize("values,word", [
    (pa.array([[1]], pa.list_view(pa.int8())), "list_view"),
    (pc.run_end_encode(pa.array([1, 1, 2])), "run_end_encoded"),
    (pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]), "union"),
])
def test_types_that_lake_does_not_carry_are_named(tmp_path, values, word):
    write(tmp_path / "in", [pa.record_batch([values], ["odd"])])
    with pytest.raises(ToolError, match=f"INVALID_IPC.*'odd'.*{word}"):
        tool("slice", tmp_path / "in", tmp_path / "out")


def test_every_cut_of_a_stream_is_an_error_or_a_shorter_stream(tmp_path):
    rows = batch([pa.int32(), pa.string(), pa.list_(pa.bool_()), DICTIONARIES[0]], random.Random(2), 30)
    for container in CONTAINERS:
        write(tmp_path / "in", [rows, rows], container=container)
        whole = (tmp_path / "in").read_bytes()
        for size in random.Random(4).sample(range(len(whole)), 40):
            (tmp_path / "cut").write_bytes(whole[:size])
            try:
                tool("slice", tmp_path / "cut", tmp_path / "out")
            except ToolError as error:
                assert "INVALID_IPC" in str(error)
            else:
                assert container == "stream" and read(tmp_path / "out").num_rows in (0, 30, 60)


def test_flipped_bytes_never_crash(tmp_path):
    rows = batch(NESTED + DICTIONARIES, random.Random(2), 10)
    write(tmp_path / "in", [rows])
    whole = (tmp_path / "in").read_bytes()
    rng = random.Random(9)
    for _ in range(3000 if FULL else 150):
        broken = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(broken))
            broken[at] = rng.choice([0, 0xFF, 0x80, broken[at] ^ (1 << rng.randrange(8))])
        (tmp_path / "broken").write_bytes(broken)
        try:
            tool("slice", tmp_path / "broken", tmp_path / "out")
        except ToolError as error:
            assert "INVALID_IPC" in str(error) or "LIMIT" in str(error)
        else:
            read(tmp_path / "out")


def test_a_body_that_is_not_there_takes_no_memory(tmp_path):
    rows = pa.record_batch([pa.array([1, 2], pa.int64())], ["x"])
    write(tmp_path / "in", [rows])
    whole = bytearray((tmp_path / "in").read_bytes())
    at = whole.rfind(struct.pack("<q", 16))  # bodyLength or a buffer's length: each lie is refused
    whole[at:at + 8] = struct.pack("<q", 1 << 40)
    (tmp_path / "in").write_bytes(whole)
    with pytest.raises(ToolError, match="INVALID_IPC"):
        tool("slice", tmp_path / "in", tmp_path / "out")


def test_a_footer_that_names_a_batch_many_times_is_refused(tmp_path):
    rows = pa.record_batch([pa.array(range(1000))], ["x"])
    write(tmp_path / "in", [rows] * 40, container="file")
    whole = (tmp_path / "in").read_bytes()
    with pa.OSFile(str(tmp_path / "in")) as file:
        assert pa.ipc.open_file(file).num_record_batches == 40
    size = struct.unpack("<i", whole[-10:-6])[0]
    footer = whole[-10 - size:-10]
    first = whole.index(b"\xff\xff\xff\xff", whole.index(b"\xff\xff\xff\xff") + 4)  # the first batch
    block = footer.index(struct.pack("<q", first))
    entry = footer[block:block + 24]
    end = block + 24 * 40
    short = whole[:first + 24 + 10_000]  # one batch is left, which forty entries name
    (tmp_path / "in").write_bytes(short + footer[:block] + entry * 40 + footer[end:] + whole[-10:])
    with pytest.raises(ToolError, match="INVALID_IPC.*more than once"):
        tool("slice", tmp_path / "in", tmp_path / "out")
