"""test_foreign_commit.py - reading a table in place is always safe; a version that somebody else writes into it is
found before the next append, never published, and reported as foreign_commit."""
import lance
import pyarrow as pa
import pytest

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def rows(*values):
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def test_a_version_of_somebody_else_stops_appends_and_shows_nowhere(server):
    server.create("shared.t", SCHEMA)
    assert server.append("shared.t", rows(1, 2)) == 2
    location = server.resolve("shared.t")["location"]
    assert lance.dataset(location).to_table().column("id").to_pylist() == [1, 2]

    lance.write_dataset(pa.table([pa.array([99], pa.int64())], schema=SCHEMA), location, mode="append")
    with pytest.raises(pa.ArrowException, match="foreign_commit"):
        server.append("shared.t", rows(3))
    assert server.sql("SELECT id FROM shared.t ORDER BY id").column("id").to_pylist() == [1, 2]
    with pytest.raises(pa.ArrowException, match="foreign_commit"): # not only once
        server.append("shared.t", rows(3))
    assert server.resolve("shared.t")["current_version"] == 2


def test_other_tables_are_not_concerned(server):
    server.create("shared.u", SCHEMA)
    assert server.append("shared.u", rows(1)) == 2
    assert server.append("shared.u", rows(2)) == 3


def test_a_reader_in_place_sees_every_version_that_was_acknowledged(server):
    server.create("shared.v", SCHEMA)
    location = server.resolve("shared.v")["location"]
    for value in range(20):
        version = server.append("shared.v", rows(value))
        assert lance.dataset(location).version == version
        assert lance.dataset(location, version=version).count_rows() == value + 1
