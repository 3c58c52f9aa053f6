"""test_demo.py - `make demo` ends well, leaves its data, and says clearly why it cannot go on."""
import os
import subprocess
import sys

import lance
import pytest

import lake

DEMO = lake.ROOT / "tools" / "demo.py"


def demo(directory, **environment):
    return subprocess.run([sys.executable, DEMO, directory], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "LAKE_BIN": lake.LAKE, **environment})


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    directory = tmp_path_factory.mktemp("demo") / "demo"
    done = demo(directory, LAKE_ENDPOINT="grpc://127.0.0.1:1")  # the caller's settings do not disturb it
    assert done.returncode == 0, done.stdout + done.stderr
    return directory, done.stdout


def test_it_loads_asks_and_reads_in_place(shown):
    _, text = shown
    assert "appended 336776 rows to nyc.flights" in text
    assert "Frontier Airlines Inc.      |     680 |         20.3" in text  # the slowest airline of the data set
    assert ", 336776)" in text  # pylance's count
    assert all(word in text for word in ("ADBC", "pyarrow", "jdbc:arrow-flight-sql://", "serve --data-dir"))


def test_the_data_it_leaves_can_be_served_and_read(shown):
    directory, _ = shown
    with lake.Server(directory / "data") as server:
        got = server.sql("SELECT count(*) AS c, sum(distance)::BIGINT AS d FROM nyc.flights").to_pylist()
        table = lance.dataset(server.resolve("nyc.flights")["location"]).to_table(columns=["distance"])
        assert got == [{"c": 336776, "d": sum(table.column("distance").to_pylist())}]
        done = demo(directory)
        assert done.returncode == 1 and "stop it first" in done.stderr
        assert server.stop() == 0


def test_it_removes_nothing_that_is_not_its_own(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    done = demo(tmp_path)
    assert done.returncode == 1 and "holds other things" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_binary_that_is_not_there_is_named(tmp_path):
    done = demo(tmp_path / "demo", LAKE_BIN=str(tmp_path / "lake"))
    assert done.returncode == 1 and "run: make" in done.stderr and not (tmp_path / "demo").exists()
