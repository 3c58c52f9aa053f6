#!/usr/bin/env python3
"""gen_docs.py [--check] - writes docs/SETTINGS.md and docs/ERRORS.md from the tables the program is built from.

With --check nothing is written: a page that differs is shown as a diff, and the exit status is 1.
"""
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^([A-Z]\w*)\((.*)\)\s*(?:/\*.*\*/)?\s*$", re.M)
FIELD = re.compile(r'\s*((?:"(?:\\.|[^"\\])*"\s*)+|[^,"]+)\s*(?:,|$)')
NOTE = "<!-- Made by tools/gen_docs.py from {}; change that and run `make docs`. -->\n"


def rows(path):
    """The macro calls of an X-table: (macro, [fields]), strings without their quotes, NULL as None."""
    text = re.sub(r"\\\n|(?<=,)\n\s+", " ", path.read_text()) if path.exists() else ""
    for macro, inside in ROW.findall(text):
        fields = []
        for field in FIELD.findall(inside):
            field = field.strip()
            if field.startswith('"'):
                field = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', field)).replace('\\"', '"')
            fields.append(None if field == "NULL" else field)
        yield macro, fields


def cell(text):
    return text.replace("|", "\\|")


def settings():
    """N(field, name, default, min, max, unit, help); S(field, name, default, help); P(field, name, help)."""
    page = ["# Settings\n", NOTE.format("src/base/config.def"),
            "Settings are read once, from the environment, when a process starts. A value that is malformed or out\n"
            "of range stops the process and names the setting. `lake help settings` prints this list.\n",
            "| Setting | Default | Range | Meaning |", "|---|---|---|---|"]
    for macro, row in rows(ROOT / "src/base/config.def"):
        if macro == "S" and len(row) == 4:
            default = "" if row[2] is None else f"`{row[2]}`"
            page.append(f"| `{row[1]}` | {default} | text | {cell(row[3])} |")
        elif macro == "P" and len(row) == 3:
            page.append(f"| `{row[1]}` | | secret text | {cell(row[2])} |")
        elif len(row) == 7:
            unit = f" {row[5]}" if row[5] else ""
            page.append(f"| `{row[1]}` | {row[2]}{unit} | {row[3]} to {row[4]} | {cell(row[6])} |")
        else:
            raise SystemExit(f"src/base/config.def: cannot read {macro}({', '.join(map(str, row))})")
    return "\n".join(page) + "\n"


def errors():
    """X(NAME, grpc code, text)."""
    page = ["# Errors\n", NOTE.format("src/base/errors.def"),
            "Every failure that a client can see: the gRPC status code and the exact text. The text never holds\n"
            "input; what went wrong in detail is in the server's log.\n",
            "| Name | gRPC status | Text |", "|---|---|---|"]
    for macro, row in rows(ROOT / "src/base/errors.def"):
        if len(row) < 3:
            raise SystemExit(f"src/base/errors.def: cannot read {macro}({', '.join(map(str, row))})")
        page.append(f"| `{row[0]}` | {row[1]} | {cell(row[2])} |")
    return "\n".join(page) + "\n"


def main():
    stale = False
    for name, text in {"docs/SETTINGS.md": settings(), "docs/ERRORS.md": errors()}.items():
        path = ROOT / name
        old = path.read_text() if path.exists() else ""
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif old != text:
            stale = True
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "tables"))
    if stale:
        print("the pages above are out of date; run: make docs")
    return 1 if stale else 0


sys.exit(main())
