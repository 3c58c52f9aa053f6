#!/usr/bin/env python3
"""lint.py BUILD_DIRECTORY - clang-tidy and cppcheck over src/, with the flags of a clang build."""
import concurrent.futures
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPPCHECK = ["cppcheck", "--quiet", "--std=c11", "--language=c", "--enable=warning,portability", "--inline-suppr",
            "--error-exitcode=1", "--suppress=missingInclude", "--suppress=missingIncludeSystem",
            "--suppress=normalCheckLevelMaxBranches", "--suppress=preprocessorErrorDirective",
            "--suppress=unknownMacro", "-j2", "-Isrc", "-D__GNUC__=12", "src"]


def clang_tidy(directory, source):
    result = subprocess.run(["clang-tidy", "--quiet", "-p", directory, "--warnings-as-errors=*", source],
                            cwd=ROOT, capture_output=True, text=True)
    return result.stdout if result.returncode else ""


def main(directory):
    sources = sorted(path for path in (ROOT / "src").rglob("*.c") if not path.name.endswith("_test.c"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [text for text in pool.map(lambda path: clang_tidy(directory, path), sources) if text]
    print("".join(problems), end="")
    cppcheck = subprocess.run(CPPCHECK, cwd=ROOT).returncode
    if not problems and cppcheck == 0:
        print("lint: ok")
    return 1 if problems or cppcheck else 0


sys.exit(main(sys.argv[1]))
