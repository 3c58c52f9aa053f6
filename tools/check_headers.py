#!/usr/bin/env python3
"""check_headers.py - every header compiles by itself, so that including it never needs another first."""
import concurrent.futures
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",
         "-Wstrict-prototypes", "-Wvla", "-Wswitch-enum", "-Werror", "-Wno-unused-function",
         "-Isrc", "-Iinclude", "-isystem", "third_party/nanoarrow/include", "-isystem", "third_party/duckdb/include"]


def check(header):
    # Included from a source file, because a header as main file draws warnings of its own.
    text = f'#include "{header.relative_to(ROOT)}"\nextern const int lk_empty;\n'
    result = subprocess.run(["gcc", *FLAGS, "-I.", "-fsyntax-only", "-x", "c", "-"], cwd=ROOT, input=text,
                            capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def main():
    headers = sorted([*(ROOT / "src").rglob("*.h"), *(ROOT / "include").rglob("*.h")])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [text for text in pool.map(check, headers) if text]
    print("".join(problems) or f"headers: {len(headers)} stand alone")
    return 1 if problems else 0


sys.exit(main())
