"""test_bench.py - every benchmark runs, and its figures have the published form (on small data: the values mean nothing)."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import lake

KEYS = ["name", "unit", "ours", "peer", "ratio", "target", "met", "floor", "note"]
SCANNER = pathlib.Path(lake.LAKE).resolve().parent / "bench/lance_scan"


@pytest.mark.skipif(not SCANNER.exists(), reason="bench/lance_scan is not built")
def test_every_benchmark_runs_on_small_data():
    done = subprocess.run([sys.executable, lake.ROOT / "bench/run.py", "--smoke"], capture_output=True, text=True,
                          timeout=300, env={**os.environ, "LAKE_BIN": str(lake.LAKE)})
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (lake.ROOT / "build/bench-smoke.json").read_text().splitlines()]
    programs = list((lake.ROOT / "bench").glob("*_bench.py"))
    assert len(rows) >= len(programs) and all(list(row) == KEYS for row in rows)
    assert all(row["ours"] > 0 and row["target"] for row in rows)
    assert all(row["met"] is not None or row["floor"] is not None for row in rows)
