#!/usr/bin/env python3
"""run.py [--quick] [NAME...] - runs bench/*_bench.py, prints a table, writes build/bench.json.

Each program measures lake and its peer in the same run and prints one JSON object a line:
  name    what was measured                     ours, peer   the two figures (peer may be null)
  unit    of both, with the direction that      ratio        ours to peer; larger is better
          is better: "MB/s", "ms lower"         target       the ratio that we promise, or null
  floor   the ratio below which the run fails,  note         what a reader must know to repeat it
          or null                               met          whether target is reached
ratio and met are worked out here when a program leaves them out. Exit 1: a program failed or a ratio is
below its floor. --quick sets LAKE_BENCH_QUICK=1: small data, to see that the programs run.
"""
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEYS = ("name", "unit", "ours", "peer", "ratio", "target", "met", "floor", "note")


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} x {model}, {memory:.0f} GiB, Linux {platform.release()}"


def complete(row):
    """Fills in what follows from the rest, and refuses a row that says too little."""
    missing = {"name", "unit", "ours"} - row.keys()
    unknown = row.keys() - set(KEYS)
    if missing or unknown:
        raise ValueError(f"missing {sorted(missing)}, unknown {sorted(unknown)}")
    row = {key: row.get(key) for key in KEYS}
    if row["ratio"] is None and row["peer"] and row["ours"]:
        lower = row["unit"].endswith(" lower")
        row["ratio"] = row["peer"] / row["ours"] if lower else row["ours"] / row["peer"]
    if row["met"] is None and row["target"] is not None and row["ratio"] is not None:
        row["met"] = row["ratio"] >= row["target"]
    return row


def run(program):
    """(rows, whether it ended well)"""
    environment = {**os.environ, "LAKE_BIN": os.environ.get("LAKE_BIN", str(ROOT / "build/lake"))}
    result = subprocess.run([sys.executable, program], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            text=True, env=environment)
    rows, good = [], result.returncode == 0
    for line in result.stdout.splitlines():
        if not line.startswith("{"):
            continue
        try:
            rows.append(complete(json.loads(line)))
        except ValueError as problem:
            print(f"{program.name}: {problem}: {line}", file=sys.stderr)
            good = False
    return rows, good


def number(value):
    return "-" if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def main():
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--quick" in sys.argv[1:]:
        os.environ["LAKE_BENCH_QUICK"] = "1"
    programs = [path for path in sorted((ROOT / "bench").glob("*_bench.py"))
                if not names or path.stem.removesuffix("_bench") in names]
    print(f"machine: {machine()}")
    print(f"{'what':<44} {'unit':<14} {'ours':>10} {'peer':>10} {'ratio':>7} {'target':>7}")
    failed, all_rows = False, []
    for program in programs:
        rows, good = run(program)
        failed = failed or not good
        if not good:
            print(f"{program.name} FAILED")
        for row in rows:
            below = row["floor"] is not None and row["ratio"] is not None and row["ratio"] < row["floor"]
            failed = failed or below
            word = "  BELOW FLOOR" if below else "  missed" if row["met"] is False else ""
            print(f"{row['name']:<44} {row['unit']:<14} {number(row['ours']):>10} {number(row['peer']):>10} "
                  f"{number(row['ratio']):>7} {number(row['target']):>7}{word}", flush=True)
        all_rows += rows
    out = ROOT / "build/bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in all_rows))
    print(f"wrote {out.relative_to(ROOT)}: {len(all_rows)} figures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
