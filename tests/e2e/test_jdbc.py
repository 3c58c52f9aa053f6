"""test_jdbc.py - the Flight SQL JDBC driver connects, selects and walks the metadata, unmodified."""
import subprocess

import pyarrow as pa

import lake

DRIVER = next((lake.ROOT / "third_party" / "java").glob("flight-sql-jdbc-driver-*.jar"))


def run(server):
    source = lake.ROOT / "tests" / "e2e" / "Jdbc.java"
    done = subprocess.run(
        ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", str(DRIVER), str(source),
         f"jdbc:arrow-flight-sql://127.0.0.1:{server.port}/?useEncryption=false"],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_driver_connects_selects_and_lists(server):
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("s", pa.utf8())])
    server.create("jdbc.numbers", schema)
    server.append("jdbc.numbers", pa.record_batch([pa.array([0, 1, 2, 3]), pa.array(["a", "b", None, "d"])], schema=schema))
    lines = run(server)
    assert lines[:3] == ["select|0|a", "select|1|b", "select|2|null"]
    for line in ("sum|6", "error|true", "prepared|3", "product|lake|true", "catalog|lake", "table|jdbc|numbers|TABLE",
                 "column|n", "column|s", "tabletype|TABLE", "keywords|true", "functions|true"):
        assert line in lines, line
    assert lines.count("prepared|3") == 2
    assert any(line.startswith("schema|") and "jdbc" in line for line in lines)
