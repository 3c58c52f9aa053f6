"""test_readme.py - the README does what it says: its blocks run in order, as a reader would paste them.

Only ports change. A line that ends in & is a server; a block that starts Metasrv comes after `lake serve` was ended,
as the text says.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import lake

README = (lake.ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PORTS = ("50051", "50052")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Reader:
    """Somebody in a fresh checkout who follows the page."""

    def __init__(self, home):
        self.home, self.servers, self.output = home, [], ""
        (home / "build").mkdir()
        (home / "build" / "lake").symlink_to(pathlib.Path(lake.LAKE).resolve())
        (home / "third_party").symlink_to(lake.ROOT / "third_party")
        self.ports = {port: free_port() for port in PORTS}
        self.environment = {**os.environ, "LAKE_ENDPOINT": f"grpc://127.0.0.1:{self.ports[PORTS[0]]}"}

    def follow(self, language, text):
        for port in PORTS:
            text = text.replace(port, self.ports[port])
        if text.rstrip().endswith("&"):
            self.start(text.rstrip()[:-1])
        elif language == "sh":
            self.run(["bash", "-euo", "pipefail", "-c", text])
        elif language == "python":
            self.run([sys.executable, "-W", "error::DeprecationWarning", "-c", text])
        elif language == "java":
            (self.home / "Example.java").write_text(text)
        else:
            assert language == "text", f"nobody tries blocks of {language}"

    def run(self, command):
        done = subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
        self.output += done.stdout

    def start(self, command):
        if " meta " in command:
            self.stop()
        if "--addr" not in command:
            command += f" --addr 127.0.0.1:{self.ports[PORTS[0]]}"
        self.servers.append(subprocess.Popen(["bash", "-c", "exec " + command.strip()], cwd=self.home, env=self.environment))
        port = int(re.search(r"--addr 127\.0\.0\.1:(\d+)", command).group(1))
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            assert self.servers[-1].poll() is None and time.monotonic() < deadline, f"did not start: {command}"
            time.sleep(0.02)

    def stop(self):
        while self.servers:
            server = self.servers.pop()
            server.send_signal(signal.SIGTERM)
            assert server.wait(40) == 0


@pytest.fixture
def reader(tmp_path):
    one = Reader(tmp_path)
    yield one
    for server in one.servers:
        server.kill()
        server.wait()


def test_every_block_runs_in_order(reader):
    for language, text in BLOCKS:
        reader.follow(language, text)
    for said in ("created table robots.steps", "appended 4 rows to robots.steps", " elbow | 3 | 0.95", " wrist | 1 | NULL",
                 '"position":0.95', "'top': [0.12, 0.95]", "['episode', 't', 'joint', 'position'] 1", "4 rows",
                 "LAKE_QUERY_MAX_CONCURRENT"):
        assert said in reader.output, f"{said!r} is not in\n{reader.output}"
    reader.stop()
    assert {language for language, _ in BLOCKS} == {"text", "sh", "python", "java"}


def test_what_it_points_to_exists():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(links) >= 7
    assert [link for link in links if not (lake.ROOT / link).exists()] == []
    assert {"demo", "test", "deps", "help", "bench"} <= set(re.findall(r"\bmake ([a-z-]+)", README))
    targets = set(re.findall(r"^([a-z-]+):", (lake.ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"[`\n]make ([a-z-]+)", README)) <= targets


def test_the_settings_it_names_exist(server):
    listed = server.run("help", "settings").stdout.decode()
    assert [name for name in re.findall(r"LAKE_[A-Z_]+", README) if name not in listed] == []
