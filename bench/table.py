#!/usr/bin/env python3
"""table.py - puts the figures of build/bench.json into bench/README.md, all of them, and into README.md those it names."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = "| What | unit | lake | peer | ratio | target |\n|---|---|---|---|---|---|\n"


def number(value):
    return "" if value is None else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


def line(row):
    figures = (number(row[key]) for key in ("ours", "peer", "ratio"))
    missed = ", missed" if row["met"] is False else ""
    return f"| {row['name']} | {row['unit']} | {' | '.join(figures)} | {row['target']}{missed} |\n"


def put(readme, choose):
    """choose: the lines between the marks as they are -> the names to show."""
    mark = re.compile(r"(<!-- bench: [^\n]*-->\n\n)(.*?)(\n<!-- /bench -->)", re.S)
    text = readme.read_text()
    found = mark.search(text)
    names = choose(re.findall(r"^\| ([^|]*) \| ", found[2], re.M)[1:])
    table = HEAD + "".join(line(rows[name]) for name in names)
    readme.write_text(text[:found.start(2)] + table + text[found.end(2):])


rows = {row["name"]: row for row in map(json.loads, (ROOT / "build/bench.json").read_text().splitlines())}
put(ROOT / "bench/README.md", lambda named: list(rows))
put(ROOT / "README.md", lambda named: named)
