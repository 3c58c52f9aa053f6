#!/usr/bin/env python3
"""run.py [--smoke] [NAME...] - runs bench/*_bench.py, prints a table, writes build/bench.json.

Each program measures lake and its peer alternately, in one run, and prints one JSON object a line:
  name    what was measured                unit    of ours, peer and floor
  ours    lake's figure                    peer    the reference's, or null
  ratio   over 1: lake is better           target  what we promise: "<= 6" of ours, or ">= 0.8x" of the ratio
  met     whether target is reached; null when only the machine stands in the way: floor misses target too
  floor   what this machine allows at best, measured in the same run, or null
  note    machine, durability, samples: what a reader must know to repeat it

--smoke: small data and few samples, to see that the programs run; writes build/bench-smoke.json, whose figures mean
nothing.
Exit 1: a program failed. A missed target is printed, not fatal: this machine may be busy.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure

HEADER = f"{'what':<52} {'unit':<8} {'ours':>9} {'peer':>9} {'ratio':>6} {'target':>8}"


def run(program):
    """Prints the program's rows as they come; (rows, whether it ended well)."""
    rows = []
    with subprocess.Popen([sys.executable, program], cwd=measure.ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            row = json.loads(line)
            if tuple(row) != measure.KEYS:
                print(f"{program.name}: these keys, in this order: {measure.KEYS}; got {tuple(row)}")
                process.kill()
                return rows, False
            rows.append(row)
            show(row)
    return rows, process.returncode == 0


def number(value):
    return "-" if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def show(row):
    word = {True: "", False: "  missed", None: "  machine's floor"}[row["met"]] if row["target"] else ""
    print(f"{row['name']:<52} {row['unit']:<8} {number(row['ours']):>9} {number(row['peer']):>9} "
          f"{number(row['ratio']):>6} {row['target'] or '-':>8}{word}", flush=True)


def main():
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--smoke" in sys.argv[1:]:
        os.environ["LAKE_BENCH_SMOKE"] = "1"
    programs = [path for path in sorted(pathlib.Path(__file__).parent.glob("*_bench.py"))
                if not names or path.stem.removesuffix("_bench") in names]
    print(f"machine: {measure.machine()}\n{HEADER}", flush=True)
    failed, all_rows = [], []
    for program in programs:
        rows, good = run(program)
        all_rows += rows
        if not good:
            failed.append(program.name)
            print(f"{program.name} FAILED", flush=True)
    out = measure.BUILD / ("bench-smoke.json" if os.environ.get("LAKE_BENCH_SMOKE") else "bench.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in all_rows))
    print(f"wrote {out.relative_to(measure.ROOT)}: {len(all_rows)} figures" +
          (f"; failed: {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
