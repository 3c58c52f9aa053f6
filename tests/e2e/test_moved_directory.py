"""test_moved_directory.py - a data directory is moved while lake is stopped: everything in it is still there."""
import lance
import pyarrow as pa

import lake

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def rows(*values):
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def test_a_moved_data_directory_is_the_same_lake(tmp_path):
    identity = lake.uuid7()
    with lake.Server(tmp_path / "old" / "data") as server:
        server.create("moved.t", SCHEMA)
        assert server.append("moved.t", rows(1, 2), identity) == 2
        assert server.stop() == 0
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "data").rename(tmp_path / "new" / "elsewhere")
    with lake.Server(tmp_path / "new" / "elsewhere") as server:
        assert server.sql("SELECT id FROM moved.t ORDER BY id").column("id").to_pylist() == [1, 2]
        assert server.append("moved.t", rows(1, 2), identity) == 2 # a repeat, over the move
        assert server.append("moved.t", rows(3)) == 3
        location = server.resolve("moved.t")["location"]
        assert location.startswith(str(tmp_path / "new" / "elsewhere" / "tables"))
        assert lance.dataset(location).count_rows() == 3
