"""Each rule of tools/tidy.py is broken once, and must be reported with file and line."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = '/* a.c - an example. */\n#include "base/err.h"\n\nint lk_a(void)\n{\n    return 1;\n}\n'


@pytest.fixture
def tidy(tmp_path):
    """Writes a small tree, then runs tidy over it: (exit status, what it printed)."""
    def run(files, rooms="base:\nkv:   base\nnet:  base\nsql:  base\n"):
        settings = '/* config.def */\nX(a, "LAKE_KNOWN", 1)\n'
        for name, text in {"tools/rooms.txt": rooms, "src/base/config.def": settings, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        result = subprocess.run([sys.executable, ROOT / "tools/tidy.py", tmp_path], capture_output=True, text=True)
        return result.returncode, result.stdout
    return run


def test_a_clean_tree_passes(tidy):
    assert tidy({"src/kv/a.c": CLEAN}) == (0, "tidy: ok\n")


def test_a_cycle_in_the_rooms_is_reported(tidy):
    status, out = tidy({}, rooms="base: kv\nkv:   base\n")
    assert status == 1 and out == "tools/rooms.txt:1: 'base' may only use rooms listed above it, not 'kv'\n"


def body(text):
    return "/* a.c - an example. */\n" + text + "\n"


@pytest.mark.parametrize("name, text, line, message", [
    ("base/a.c", body('#include "kv/kv.h"'), 2, "room 'base' may not use room 'kv'"),
    ("kv/a.c", body('#include "base/x_priv.h"'), 2, "base/x_priv.h is private to its room"),
    ("kv/a.c", body('#include "kv.h"'), 2, 'write #include "room/kv.h"'),
    ("shed/a.c", CLEAN, 1, "room 'shed' is not in tools/rooms.txt"),
    ("kv/a.c", "int lk_a(void);\n", 1, "start with a comment"),
    ("kv/a.c", body('static const char *name = "LAKE_KNOWN";'), 2, "settings are named in base/config.def only"),
    ("kv/a.c", body('static const char *name = "INSTANCE_ID";'), 2, "settings are named in base/config.def only"),
    ("kv/a.c", body('static const char *help = "set ROLLOUT_STRAY";'), 2, "ROLLOUT_STRAY is not in base/config.def"),
    ("kv/a.c", body('static const char *help = "set LAKE_STRAY";'), 2, "LAKE_STRAY is not in base/config.def"),
    ("kv/a.c", body("int x = getenv(y);"), 2, "only main.c reads the environment"),
    ("kv/a.c", body("strcpy(a, b);"), 2, "strcpy is banned"),
    ("kv/a.c", body("/* TODO later */"), 2, "write TODO(#issue) or do it now"),
    ("kv/a.c", body("int f(void)\n{\n" + "    x();\n" * 81 + "}"), 3, "function of 82 lines (limit 80)"),
    ("kv/a.c", body("\n" * 800), 800, "802 lines; split it"),
    ("kv/a.c", body("#include <grpc/grpc.h>"), 2, "gRPC is used only by net/, serve/"),
    ("kv/a.c", body('#include "duckdb_v2.h"'), 2, "DuckDB is used only by sql/"),
    ("kv/a.c", body("#include <curl/curl.h>"), 2, "curl is used only by net/"),
    ("sql/a.c", body("#include <protobuf-c/protobuf-c.h>"), 2, "protobuf is used only by"),
    ("net/a.h", body("#include <grpc/grpc.h>"), 2, "a header that other rooms can see shows gRPC"),
])
def test_a_broken_rule_is_reported(tidy, name, text, line, message):
    status, out = tidy({f"src/{name}": text})
    assert status == 1
    assert any(found.startswith(f"src/{name}:{line}: ") and message in found for found in out.splitlines()), out


def test_a_message_may_name_a_setting_that_exists(tidy):
    assert tidy({"src/kv/a.c": body('const char *text = "LAKE_KNOWN must be a file";')})[0] == 0


def test_words_in_comments_and_strings_are_no_calls(tidy):
    assert tidy({"src/kv/a.c": body('/* never strcpy(a, b) */\nint a; /* nor system(x) */\nx("sprintf(");')})[0] == 0
