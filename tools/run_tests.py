#!/usr/bin/env python3
"""run_tests.py - builds and runs the tests; prints what fails, and one line of totals at the end.

  --static             tidy, stand-alone headers, format, generated docs: one test each
  --build NAME...      configure and build a preset first; a failed build counts as one failure
  --unit               every program in build/asan/tests.txt, and those with LK_TSAN in their first 30
                       lines in build/tsan too; each cmocka test function counts as one
  --pytest DIRECTORY.. every test_*.py below; *_pylance7* and *_pylance1* run in the environment of
                       that pylance, all others in venv-main; a file with LK_SERIAL in its first 30
                       lines runs alone
  --only TEXT          only programs and files whose name contains TEXT
  --list-tsan          print the build targets of the concurrency tests

The exit status is 0 only when nothing failed. Commands run two at a time, or as many as --jobs says.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
THIRD_PARTY = ROOT / "third_party"
TIMEOUT_SECS = 14400 if os.environ.get("LAKE_TEST_FULL") else 1200
SANITIZER = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "LSAN_OPTIONS": f"suppressions={ROOT}/tools/lsan.supp:print_suppressions=0",
    "TSAN_OPTIONS": f"suppressions={ROOT}/tools/tsan.supp:halt_on_error=1:second_deadlock_stack=1"
                    ":ignore_noninstrumented_modules=1",
}


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, counts, output, seconds):
        passed, failed, skipped = counts
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        if failed:
            print(f"\n--- FAILED {name} ({failed} of {passed + failed}, {seconds:.1f} s)\n{output.rstrip()}\n")
        elif passed + skipped:
            print(f"ok  {name}: {passed} passed" + (f", {skipped} skipped" if skipped else "")
                  + f" ({seconds:.1f} s)")
        sys.stdout.flush()

    def line(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run(command, environment=None, timeout=TIMEOUT_SECS):
    """Runs a command; (exit status, output). A hang is a failure, and its children end with it."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = -1
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        text = out.read().decode(errors="replace")
    return status, text + (f"\nno end after {timeout} s" if status == -1 else "")


def whole(command, environment=None):
    """A command that is one test."""
    status, output = run(command, environment)
    return ((1, 0, 0) if status == 0 else (0, 1, 0)), output


def cmocka(command, environment):
    """A cmocka program: its TAP lines are the counts; dying half way is one more failure."""
    status, output = run(command, {**environment, "CMOCKA_MESSAGE_OUTPUT": "TAP"})
    lines = re.findall(r"^(ok|not ok)\b(.*)$", output, re.M)
    skipped = sum("# SKIP" in rest for _, rest in lines)
    failed = sum(word == "not ok" and "# SKIP" not in rest for word, rest in lines)
    passed = len(lines) - skipped - failed
    if status != 0 and failed == 0:
        failed, output = 1, output + f"\nexit status {status}"
    if status == 0 and not lines:
        passed = 1 # a program that is one test
    return (passed, failed, skipped), output


def pytest(path):
    name = re.search(r"_(pylance[17])", path.stem)
    python = THIRD_PARTY / f"venv-{name.group(1) if name else 'main'}/bin/python"
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        environment = {"LAKE_BIN": os.environ.get("LAKE_BIN", str(ROOT / "build/lake")), "PYTHONDONTWRITEBYTECODE": "1"}
        status, output = run([python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider",
                              f"--junit-xml={report.name}", path], environment)
        try:
            suite = xml.parse(report.name).getroot().find("testsuite")
            count, failed, skipped = (sum(int(suite.get(key, 0)) for key in keys.split("+"))
                                      for keys in ("tests", "failures+errors", "skipped"))
        except (xml.ParseError, AttributeError):
            count, failed, skipped = 0, 0, 0
    if status not in (0, 5) and failed == 0:
        failed, count = 1, count + 1
    return (max(count - failed - skipped, 0), failed, skipped), output


def head_has(path, word):
    with open(path, errors="replace") as file:
        return any(word in line for _, line in zip(range(30), file))


def tsan_targets():
    tests = sorted((ROOT / "src").glob("*/*_test.c"))
    return [f"test_{path.parent.name}_{path.stem[:-5]}" for path in tests if head_has(path, "LK_TSAN")]


def build(preset):
    """Configures and builds a preset, as far as it goes."""
    directory = ROOT / "build" if preset == "default" else ROOT / "build" / preset
    status, output = run(["cmake", "--preset", preset])
    if status != 0:
        return (0, 1, 0), output
    targets = {"default": [], "asan": ["unit_tests"], "tsan": tsan_targets()}.get(preset, [])
    if preset == "tsan" and not targets:
        return (0, 0, 0), ""
    status, output = run(["ninja", "-C", directory, "-k", "0", *targets])
    failures = "\n".join(line for line in output.splitlines() if not re.match(r"^\[\d+/\d+\] ", line))
    return ((0, 0, 0) if status == 0 else (0, 1, 0)), failures


def static_checks():
    python = sys.executable
    sources = [path for top in ("src", "include", "tests", "bench") for pattern in ("*.c", "*.h", "*_shim.cc")
               for path in sorted((ROOT / top).rglob(pattern))]
    yield "tidy", [python, "tools/tidy.py"]
    yield "headers stand alone", [python, "tools/check_headers.py"]
    yield "generated docs", [python, "tools/gen_docs.py", "--check"]
    if sources:
        yield "format (make format)", ["clang-format", "--dry-run", "-Werror", "--ferror-limit=2", *sources]


def unit_programs():
    no_aslr = [shutil.which("setarch"), os.uname().machine, "-R"] if shutil.which("setarch") else []
    concurrent_ones = set(tsan_targets())
    for preset in ("asan", "tsan"):
        directory = ROOT / "build" / preset
        listed = directory / "tests.txt"
        for line in listed.read_text().splitlines() if listed.exists() else []:
            program, *arguments = line.split()
            name = pathlib.Path(program).name
            if preset == "tsan" and name not in concurrent_ones:
                continue
            if not (directory / program).exists():
                continue # did not build; that was counted
            yield f"{preset} {name}", [*no_aslr, directory / program, *arguments]


def pytest_files(directories):
    for directory in directories:
        yield from sorted((ROOT / directory).rglob("test_*.py"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--build", action="append", default=[], metavar="PRESET")
    parser.add_argument("--unit", action="store_true")
    parser.add_argument("--pytest", nargs="+", default=[], metavar="DIRECTORY")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list-tsan", action="store_true")
    options = parser.parse_args()
    if options.list_tsan:
        print(" ".join(tsan_targets()))
        return 0

    totals = Totals()

    def timed(name, function, *arguments):
        start = time.monotonic()
        counts, output = function(*arguments)
        return name, counts, output, time.monotonic() - start

    for preset in options.build:
        print(f"building: {preset}")
        sys.stdout.flush()
        totals.add(*timed(f"build {preset}", build, preset))

    together, alone = [], []
    for name, command in static_checks() if options.static else []:
        together.append((name, whole, command))
    for name, command in unit_programs() if options.unit else []:
        if options.only in name:
            together.append((name, cmocka, command, SANITIZER))
    for path in pytest_files(options.pytest):
        if options.only in path.name:
            (alone if head_has(path, "LK_SERIAL") else together).append((str(path.relative_to(ROOT)), pytest, path))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(timed, *job) for job in together]):
            totals.add(*future.result())
    for job in alone:
        totals.add(*timed(*job))
    print(totals.line())
    return 1 if totals.failed or totals.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
