"""Processes that kill themselves at a storage call of each step of a flush, a merge and a collection (crash_tool.c), and the
simulated instances of tests/sim: what they print is what they found."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake")).parent / "tests"
FULL = bool(os.environ.get("LAKE_TEST_FULL"))


def run(*command):
    done = subprocess.run([TESTS / command[0], *map(str, command[1:])], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_process_that_dies_at_any_step_loses_nothing_and_leaves_nothing():
    last = run("crash_tool", 1, 1000 if FULL else 60).splitlines()[-1]
    print(last)
    words = last.split("killed at ")[1].split()
    assert all(int(count) > 0 for count in words[1::2]), last


def test_simulated_instances_keep_what_they_promise():
    assert "passed" in run("lake_sim_rollout", 1, 5000 if FULL else 60)
    run("lake_sim_rollout", "known")


def test_the_simulations_checks_notice_every_rule_that_is_left_out():
    assert "NOT CAUGHT" not in run("lake_sim_rollout", "bite")
