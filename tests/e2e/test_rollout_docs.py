"""test_rollout_docs.py - docs/ROLLOUT.md and docs/OPERATIONS.md do what they say: their blocks run in order, as a reader would
paste them; Python blocks run with the published client. Only ports change."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest
import yaml

import lake

PAGES = {name: (lake.ROOT / "docs" / name).read_text() for name in ("ROLLOUT.md", "OPERATIONS.md")}
CONFIG = (lake.ROOT / "src/base/config.def").read_text()


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Reader:
    def __init__(self, home, client):
        self.home, self.client, self.servers, self.output, self.port = home, client, [], "", free_port()
        (home / "build").mkdir()
        (home / "build" / "lake").symlink_to(pathlib.Path(lake.LAKE).resolve())
        (home / "deploy").symlink_to(lake.ROOT / "deploy")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ROLLOUT_URL": f"http://127.0.0.1:{self.port}"}

    def follow(self, language, text):
        text = text.replace("127.0.0.1:3000", f"127.0.0.1:{self.port}")
        if text.rstrip().endswith("&"):
            self.start(text.rstrip()[:-1])
        elif language in ("sh", "python"):
            shell = ["bash", "-euo", "pipefail", "-c", text]
            command = shell if language == "sh" else [self.client, "-W", "error::DeprecationWarning", "-c", text]
            done = subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
            self.output += done.stdout
        else:
            assert language == "text", f"nobody tries blocks of {language}"

    def start(self, command):
        self.servers.append(subprocess.Popen(["bash", "-c", f"exec {command.strip()} --port {self.port}"], cwd=self.home,
                                             env=self.environment))
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", int(self.port))) != 0:
            assert self.servers[-1].poll() is None and time.monotonic() < deadline, f"did not start: {command}"
            time.sleep(0.02)

    def close(self):
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            assert server.wait(40) == 0


@pytest.fixture
def follow(tmp_path):
    readers = []

    def run(page, client="context067", python_blocks=None):
        """Follows the page to its end, or to the end of its first blocks of Python."""
        reader = Reader(tmp_path, lake.ROOT / f"third_party/venv-{client}/bin/python")
        readers.append(reader)
        for language, text in blocks(page):
            if python_blocks == 0:
                break
            reader.follow(language, text)
            python_blocks = python_blocks - 1 if language == "python" and python_blocks else python_blocks
        reader.close()
        return reader.output
    yield run
    for reader in readers:
        for server in reader.servers:
            if server.poll() is None:
                server.kill()
                server.wait()


def test_the_client_page_runs(follow):
    output = follow("ROLLOUT.md")
    for said in ("put 1 record into math in 1 add", "'r2-0'] [87, 284, 18] 7", "['r2-1'] ['assistant', 'grade', 'artifact']",
                 "1 rows to train on", "4 ['id', 'output_tokens', 'output_logprobs', 'advantage']", "came: ['r3-0']"):
        assert said in output, f"{said!r} is not in\n{output}"


def test_its_first_python_runs_with_the_older_client_too(follow):
    assert "'r2-0'] [87, 284, 18] 7" in follow("ROLLOUT.md", "context063", python_blocks=1)


def test_the_operations_page_runs(follow):
    output = follow("OPERATIONS.md")
    for said in ("instance rollout-0", "sound", "adopted rollout-1", "would remove"):
        assert said in output, f"{said!r} is not in\n{output}"


def test_settings_and_flags_that_the_pages_name_exist():
    known = set(re.findall(r'^[NSP]\(\w+,\s+"(\w+)"', CONFIG, re.M))
    text = "".join(PAGES.values())
    named = set(re.findall(r"\b(?:LAKE|ROLLOUT|AWS)_[A-Z0-9_]+[A-Z0-9]\b", text)) | {"INSTANCE_ID"}
    assert named - known == set()
    commands = [["serve"], ["rollout"], ["lance", "cleanup"], *(["rollout", verb] for verb in ("put", "list", "get", "blob", "merge", "stats", "fsck",
                                                                         "adopt", "gc"))]
    help_text = "".join(subprocess.run([lake.LAKE, *command, "--help"], capture_output=True, text=True).stdout
                        for command in commands)
    of_others = {"--from-literal"} # kubectl's
    assert {flag for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text) if flag not in help_text} == of_others


@pytest.fixture
def metrics(tmp_path):
    """What /metrics says of an instance that took an add."""
    reader = Reader(tmp_path, "")
    reader.start("build/lake rollout --data-dir rollouts --instance-id rollout-0")
    try:
        reader.follow("sh", "echo '{\"rollout_id\":\"r\"}' | build/lake rollout put rl - --create")
        url = f"http://127.0.0.1:{reader.port}/metrics"
        return subprocess.run(["curl", "-s", url], capture_output=True, text=True).stdout
    finally:
        reader.close()


def test_metrics_that_the_operations_page_names_exist(metrics):
    named = set(re.findall(r"`((?:rollout|http)_[a-z_]+(?:total|seconds|bytes|generations|depth|open))", PAGES["OPERATIONS.md"]))
    assert len(named) >= 12
    assert {name for name in named if f"# TYPE {name} " not in metrics} == set()


def test_alerts_ask_for_metrics_and_labels_that_exist(metrics):
    groups = yaml.safe_load((lake.ROOT / "deploy/prometheus/rollout.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 7
    for rule in rules:
        assert rule["annotations"]["summary"] and rule["expr"].count("(") == rule["expr"].count(")")
        named = re.findall(r"((?:rollout|http)_[a-z_]+)(?:\{(\w+)=)?", rule["expr"])
        assert named
        for name, label in named:
            assert re.search(rf"^{name}{rf'{{.*{label}=' if label else r'[ {]'}", metrics, re.M), (name, label)


def test_links_lead_somewhere():
    for page, text in PAGES.items():
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (lake.ROOT / "docs" / link).exists(), f"{page}: {link}"


def test_the_records_table_has_every_column():
    columns = re.findall(r"^X\((\w+),", (lake.ROOT / "src/rollout/records.def").read_text(), re.M)
    table = re.search(r"^## Records$.*?^## ", PAGES["ROLLOUT.md"], re.M | re.S).group(0)
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert len(columns) == 36 and sorted(named) == sorted(columns)
