"""Lance datasets on S3: lake beside pylance over one server, with a proxy between that loses, delays and counts."""
import json
import os
import signal
import subprocess
import threading
import time

import lance
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

import s3_support as s3

ROWS = 5000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = s3.Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.close()


@pytest.fixture
def proxy(server):
    proxy = s3.Proxy(server)
    yield proxy
    proxy.close()


@pytest.fixture
def uri(request):
    return f"s3://{s3.BUCKET}/{request.node.name.replace('[', '-').replace(']', '')}/table.lance"


def rows(start=0, count=ROWS):
    return pa.table({"a": pa.array(range(start, start + count), pa.int64()),
                     "s": [f"row {i}" for i in range(start, start + count)]})


def write_ipc(path, table):
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return path


def read_ipc(path):
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def must(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def lake_write(url, uri, path, *options):
    return json.loads(must(s3.lake(url, "lance", "write", uri, path, "--json", *options)))["version"]


def reference(server, uri, version=None):
    return lance.dataset(uri, version=version, storage_options=s3.options(server.url))


def values(server, uri):
    return sorted(reference(server, uri).to_table(columns=["a"])["a"].to_pylist())


def count(log, method, part=""):
    return sum(m == method and part in path for m, path in log)


def test_the_stores_contract_holds_on_a_real_server(server, proxy):
    program = s3.BIN.parent / "tests/test_io_store_contract"
    for number, url in enumerate((server.url, proxy.url)):
        done = subprocess.run([program, f"s3://{s3.BUCKET}/contract-{number}", url, s3.ACCESS, s3.SECRET],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_verb_works_on_a_table_of_pylance(server, uri, tmp_path):
    lance.write_dataset(rows(), uri, storage_options=s3.options(server.url))
    assert json.loads(must(s3.lake(server.url, "lance", "info", uri, "--json")))["rows"] == ROWS
    must(s3.lake(server.url, "lance", "delete", uri, "--where", "a % 2 = 1"))
    must(s3.lake(server.url, "lance", "columns", "add", uri, "--column", "note:utf8"))
    must(s3.lake(server.url, "lance", "columns", "rename", uri, "--column", "s", "--to", "text"))
    must(s3.lake(server.url, "lance", "columns", "drop", uri, "--column", "note"))
    must(s3.lake(server.url, "lance", "update", uri, "--set", "text='x'", "--where", "a < 10"))
    must(s3.lake(server.url, "lance", "tag", "create", uri, "halved", "--version", "2"))
    must(s3.lake(server.url, "lance", "tag", "move", uri, "halved", "--version", "3"))
    assert "halved" in reference(server, uri).tags.list()
    assert reference(server, uri).tags.list()["halved"]["version"] == 3
    must(s3.lake(server.url, "lance", "scan", uri, "-o", tmp_path / "out.arrow"))
    ours, theirs = read_ipc(tmp_path / "out.arrow"), reference(server, uri).to_table()
    assert ours.sort_by("a").to_pydict() == theirs.sort_by("a").to_pydict()
    assert ours["text"].to_pylist().count("x") == 5
    must(s3.lake(server.url, "lance", "restore", uri, "--version", "1"))
    assert reference(server, uri).count_rows() == ROWS
    must(s3.lake(server.url, "lance", "compact", uri))
    must(s3.lake(server.url, "lance", "cleanup", uri, "--retain", "1"))
    versions = must(s3.lake(server.url, "lance", "versions", uri)).split()
    assert "3" in versions and "2" not in versions, "a tagged version stays"
    assert reference(server, uri).to_table()["a"].to_pylist() == list(range(ROWS))
    must(s3.lake(server.url, "lance", "tag", "delete", uri, "halved"))


def test_write_creates_appends_and_overwrites(server, uri, tmp_path):
    file = write_ipc(tmp_path / "in.arrow", rows())
    assert lake_write(server.url, uri, file) == 1
    assert s3.lake(server.url, "lance", "write", uri, file).returncode == 6
    assert lake_write(server.url, uri, file, "--mode", "append") == 2
    assert reference(server, uri).count_rows() == 2 * ROWS
    lance.write_dataset(rows(9000, 10), uri, mode="append", storage_options=s3.options(server.url))
    assert lake_write(server.url, uri, file, "--mode", "overwrite", "--max-rows-per-file", 2000) == 4
    assert reference(server, uri).to_table().equals(rows())
    assert len(reference(server, uri).get_fragments()) == 3


def test_a_clone_a_branch_and_an_index_are_reached(server, uri, tmp_path):
    options = s3.options(server.url)
    dataset = lance.write_dataset(rows(), uri, storage_options=options)
    dataset.create_branch("side", 1)
    dataset.shallow_clone(uri.replace("table", "clone"), 1, storage_options=options)
    must(s3.lake(server.url, "lance", "index", "create", uri, "--column", "a"))
    must(s3.lake(server.url, "lance", "delete", f"{uri}?branch=side", "--where", "a >= 10"))
    assert reference(server, uri).count_rows(filter="a = 77") == 1
    must(s3.lake(server.url, "lance", "verify", uri, "--all"))
    for other, expected in ((f"{uri}?branch=side", 10), (uri.replace("table", "clone"), ROWS)):
        must(s3.lake(server.url, "lance", "verify", other))
        must(s3.lake(server.url, "lance", "scan", other, "-o", tmp_path / "out.arrow"))
        assert read_ipc(tmp_path / "out.arrow")["a"].to_pylist() == list(range(expected))


def test_a_large_file_goes_in_parts_and_comes_in_ranges(server, proxy, uri, tmp_path):
    random = os.urandom(36 << 20)
    table = pa.table({"b": pa.array([random[i:i + 4096] for i in range(0, len(random), 4096)])})
    file = write_ipc(tmp_path / "in.arrow", table)
    lake_write(proxy.url, uri, file)
    assert count(proxy.log, "PUT", "partNumber=5&") == 1
    assert count(proxy.log, "POST", "uploads") == 1
    assert reference(server, uri).to_table().equals(table)
    must(s3.lake(server.url, "lance", "scan", uri, "-o", tmp_path / "out.arrow"))
    assert read_ipc(tmp_path / "out.arrow").equals(table)


def test_who_writes_with_pylance_loses_nothing(server, uri, tmp_path):
    """Ours and theirs append to one table at the same time; every row that was acknowledged is there once."""
    rounds = 12 if s3.FULL else 5
    lance.write_dataset(rows(0, 1), uri, storage_options=s3.options(server.url))
    done, failures = [0], []

    def ours(writer):
        for turn in range(rounds):
            first = 1000 * (writer + 1) + turn * 10
            file = write_ipc(tmp_path / f"{writer}-{turn}.arrow", rows(first, 10))
            result = s3.lake(server.url, "lance", "write", uri, file, "--mode", "append")
            (done.extend(range(first, first + 10)) if result.returncode == 0 else failures.append(result.stderr))

    def theirs(writer):
        for turn in range(rounds):
            first = 1000 * (writer + 1) + turn * 10
            try:
                lance.write_dataset(rows(first, 10), uri, mode="append", storage_options=s3.options(server.url))
                done.extend(range(first, first + 10))
            except OSError as error:
                failures.append(str(error))

    threads = [threading.Thread(target=ours if w % 2 else theirs, args=(w,)) for w in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert values(server, uri) == sorted(done)
    assert reference(server, uri).version == 1 + 4 * rounds


# One request after another meets each of these; the call must still be done exactly once.
FAULTS = [("fail", 503, "SlowDown"), ("fail", 500, "InternalError"), ("lose",), ("deaf",)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[-1] if fault[0] == "fail" else fault[0])
def test_an_append_survives_a_fault_at_every_request(server, proxy, uri, tmp_path, fault):
    lake_write(server.url, uri, write_ipc(tmp_path / "in.arrow", rows(0, 10)))
    step, expected, fired = 0, list(range(10)), True
    while fired:
        fired, seen = False, 0

        def rule(method, path):
            nonlocal fired, seen
            seen += 1
            if seen == step + 1:
                fired = True
                return fault
            return None

        proxy.rule = rule
        more = rows(1000 * (step + 1), 5)
        version = lake_write(proxy.url, uri, write_ipc(tmp_path / "more.arrow", more), "--mode", "append")
        expected += more["a"].to_pylist()
        assert version == step + 2, "committed once"
        step += 1
    assert step > 5
    assert values(server, uri) == sorted(expected)


def test_commits_survive_a_fault_at_every_call_of_the_store(server, uri, tmp_path):
    """The faulty store in front of a real server, where the proxy does not reach: what S3 said is lost before we hear it."""
    file = write_ipc(tmp_path / "in.arrow", rows(0, 100))
    lake_write(server.url, uri, file)
    done = subprocess.run([s3.BIN.parent / "tests/fault_tool", uri, server.url, s3.ACCESS, s3.SECRET, file],
                          capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["met"] >= 150 and told["failed"] >= 120 and told["unclear"] >= 4, told
    assert reference(server, uri).count_rows() == told["rows"] == len(reference(server, uri).to_table())
    assert not must(s3.lake(server.url, "lance", "verify", uri)).startswith("damage")


def test_an_answer_that_comes_never_is_told_apart_from_a_refusal(server, proxy, uri, tmp_path):
    """The manifest's PUT is done, its answers are all lost: what is there decides."""
    file = write_ipc(tmp_path / "in.arrow", rows(0, 10))
    lake_write(server.url, uri, file)
    proxy.rule = lambda method, path: ("deaf",) if method == "PUT" and "_versions/" in path else None
    assert lake_write(proxy.url, uri, file, "--mode", "append") == 2
    assert reference(server, uri).count_rows() == 20


def test_a_write_that_arrives_late_is_the_same_write(server, proxy, uri, tmp_path):
    """The first PUT of the manifest is carried out after the second one was sent."""
    file = write_ipc(tmp_path / "in.arrow", rows(0, 10))
    lake_write(server.url, uri, file)
    late = [("late", 0.05)]
    proxy.rule = lambda method, path: late.pop() if late and method == "PUT" and "_versions/" in path else None
    assert lake_write(proxy.url, uri, file, "--mode", "append") == 2
    time.sleep(0.3)
    assert reference(server, uri).version == 2
    assert reference(server, uri).count_rows() == 20


def test_a_server_that_stays_away_is_an_error_in_time(server, proxy, uri, tmp_path):
    file = write_ipc(tmp_path / "in.arrow", rows(0, 10))
    proxy.rule = lambda method, path: ("fail", 503, "SlowDown") if method == "PUT" else None
    begun = time.monotonic()
    done = s3.lake(proxy.url, "lance", "write", uri, file, LAKE_S3_TIMEOUT_MS="1000")
    assert done.returncode == 5 and "SlowDown" in done.stderr and "tried" in done.stderr
    assert time.monotonic() - begun < 15
    done = s3.lake(f"http://127.0.0.1:{s3.free_port()}", "lance", "info", uri, LAKE_S3_TIMEOUT_MS="300")
    assert done.returncode == 5 and "is the endpoint right and up?" in done.stderr


def test_what_is_wrong_is_said(server, uri):
    if server.strict: # moto believes every signature
        done = s3.lake(server.url, "lance", "info", uri, AWS_SECRET_ACCESS_KEY="wrong")
        assert done.returncode == 3 and "AWS_SECRET_ACCESS_KEY" in done.stderr
        done = s3.lake(server.url, "lance", "info", uri, AWS_ACCESS_KEY_ID="nobody")
        assert done.returncode == 3 and "AWS_ACCESS_KEY_ID" in done.stderr
        done = s3.lake(server.url, "lance", "info", uri, AWS_REGION="moon-1")
        assert done.returncode == 2 and "AWS_REGION" in done.stderr
    done = s3.lake(server.url, "lance", "info", "s3://no-such-bucket/t.lance")
    assert done.returncode == 2 and "no-such-bucket" in done.stderr and "NoSuchBucket" in done.stderr
    done = s3.lake(server.url, "lance", "info", uri)
    assert done.returncode == 4 and "holds no Lance dataset" in done.stderr
    for name, value, word in (("AWS_ACCESS_KEY_ID", "", "AWS_ACCESS_KEY_ID"),
                              ("AWS_ENDPOINT_URL_S3", "ftp://x", "https://"),
                              ("AWS_ENDPOINT_URL_S3", "http://storage.example", "LAKE_ALLOW_INSECURE"),
                              ("LAKE_S3_ADDRESSING", "sideways", "path"),
                              ("AWS_CA_BUNDLE", "/nowhere.pem", "/nowhere.pem")):
        done = s3.lake(server.url, "lance", "info", uri, **{name: value})
        assert done.returncode == 2 and word in done.stderr, done.stderr
    done = s3.lake(server.url, "lance", "info", "s3://Not_A_Bucket/t")
    assert done.returncode == 2


def test_a_server_by_tls_must_be_who_it_says(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    server, uri = s3.Server(tmp_path, certificate, key), f"s3://{s3.BUCKET}/t.lance"
    try:
        file = write_ipc(tmp_path / "in.arrow", rows(0, 10))
        done = s3.lake(server.url, "lance", "write", uri, file)
        assert done.returncode == 2 and "AWS_CA_BUNDLE" in done.stderr, done.stderr
        must(s3.lake(server.url, "lance", "write", uri, file, AWS_CA_BUNDLE=str(certificate)))
        must(s3.lake(server.url, "lance", "verify", uri, AWS_CA_BUNDLE=str(certificate)))
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        done = s3.lake(elsewhere, "lance", "info", uri, AWS_CA_BUNDLE=str(certificate))
        assert done.returncode == 2 and "AWS_CA_BUNDLE" in done.stderr, "another name than the certificate's"
    finally:
        server.close()


def test_names_need_no_luck_to_be_signed(server, tmp_path):
    """A hive partition's '=', blanks, '+', '%', non-ASCII: what a signer of URLs as given gets wrong."""
    uri = f"s3://{s3.BUCKET}/names/d=1/a b+c/50%/caf\u00e9~(1)/t.lance"
    file = write_ipc(tmp_path / "in.arrow", rows(0, 10))
    lake_write(server.url, uri, file)
    must(s3.lake(server.url, "lance", "tag", "create", uri, "v1"))
    assert json.loads(must(s3.lake(server.url, "lance", "info", uri, "--json")))["tags"][0]["name"] == "v1"
    must(s3.lake(server.url, "lance", "delete", uri, "--where", "a = 1"))
    must(s3.lake(server.url, "lance", "cleanup", uri, "--retain", "1", "--older-than", "0s"))
    assert json.loads(must(s3.lake(server.url, "lance", "info", uri, "--json")))["rows"] == 9


def test_a_writer_that_is_killed_among_its_parts_leaves_what_a_cleanup_finds(server, proxy, uri, tmp_path):
    random = os.urandom(40 << 20)
    big = pa.table({"a": pa.array(range(len(random) // 4096), pa.int64()),
                    "s": pa.array([random[i:i + 4096].hex()[:4096] for i in range(0, len(random), 4096)])})
    file = write_ipc(tmp_path / "big.arrow", big)
    lake_write(server.url, uri, write_ipc(tmp_path / "in.arrow", rows(0, 10)))
    parts = threading.Event()

    def rule(method, path):
        if method == "PUT" and "partNumber=3&" in path:
            parts.set()
        return None

    proxy.rule, proxy.delay = rule, 0.05
    writer = subprocess.Popen([s3.BIN, "lance", "write", uri, file, "--mode", "append"],
                              env=s3.environment(proxy.url), stderr=subprocess.DEVNULL)
    assert parts.wait(60)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    proxy.rule, proxy.delay = lambda method, path: None, 0
    assert values(server, uri) == list(range(10))
    time.sleep(1.1) # uploads are dated in seconds
    proxy.log.clear()
    if server.strict: # moto dates every upload to 2010
        must(s3.lake(proxy.url, "lance", "cleanup", uri, "--retain", "1"))
        assert count(proxy.log, "DELETE", "uploadId=") == 0, "a young upload may be somebody's"
    report = json.loads(must(s3.lake(proxy.url, "lance", "cleanup", uri, "--retain", "1", "--delete-unverified",
                                     "--json")))
    assert count(proxy.log, "DELETE", "uploadId=") == 1
    assert report["files_removed"] >= 1
    assert lake_write(server.url, uri, file, "--mode", "append") == 2


def test_requests_are_few(server, proxy, uri, tmp_path):
    """Latency is what S3 costs, so what is counted is requests: they do not grow with the table's history."""
    lake_write(server.url, uri, write_ipc(tmp_path / "in.arrow", rows(0, 100)))
    one = write_ipc(tmp_path / "one.arrow", rows(0, 1))
    for _ in range(12):
        lake_write(server.url, uri, one, "--mode", "append")
    proxy.log.clear()
    must(s3.lake(proxy.url, "lance", "versions", uri))
    assert len(proxy.log) == 1
    proxy.log.clear()
    lake_write(proxy.url, uri, one, "--mode", "append")
    # the newest version's name, its manifest; data file; is it still the newest; transaction; manifest
    assert [method for method, _ in proxy.log] == ["GET", "GET", "PUT", "GET", "PUT", "PUT"]
    assert all("max-keys" in path for _, path in proxy.log if "list-type" in path)
    must(s3.lake(server.url, "lance", "write", uri, tmp_path / "in.arrow", "--mode", "overwrite"))
    proxy.log.clear()
    must(s3.lake(proxy.url, "lance", "scan", uri, "--limit", "1", "-o", tmp_path / "out.arrow"))
    # the newest version's name, its manifest, and a data file that is small enough to come whole
    assert [method for method, _ in proxy.log] == ["GET", "GET", "GET"]
    proxy.log.clear()
    must(s3.lake(proxy.url, "lance", "cleanup", uri, "--retain", "1", "--delete-unverified"))
    assert count(proxy.log, "POST", "delete=") >= 2 and count(proxy.log, "DELETE", "/data/") == 0, "by the thousand"


def test_rows_of_many_columns_come_in_as_many_rounds_as_those_of_one(server, proxy, uri, tmp_path):
    numbers = np.random.default_rng(7).integers(0, 2**60, 200_000)
    table = pa.table({f"c{i}": numbers ^ i for i in range(12)} | {
        "s": pa.StructArray.from_arrays([pa.array(numbers), pa.array([f"{n:020}" for n in numbers])], ["a", "b"])})
    lake_write(server.url, uri, write_ipc(tmp_path / "in.arrow", table))
    proxy.delay = 0.15
    proxy.clear()
    must(s3.lake(proxy.url, "lance", "take", uri, "--rows", "123456", "-o", tmp_path / "out.arrow"))
    # the newest version's name, its manifest, the file's end, where the row is in each column, and their chunks
    assert proxy.rounds() <= 5 and len(proxy.log) <= 3 + 2 * 14
    assert read_ipc(tmp_path / "out.arrow").to_pydict() == table.slice(123456, 1).to_pydict()
    proxy.clear()
    must(s3.lake(proxy.url, "lance", "scan", uri, "--filter", f"c3 = {numbers[77] ^ 3}", "-o", tmp_path / "out.arrow"))
    assert read_ipc(tmp_path / "out.arrow").to_pydict() == table.slice(77, 1).to_pydict()


def test_small_files_are_read_whole(server, proxy, uri, tmp_path):
    table = pa.table({f"c{i}": np.random.default_rng(i).random(40_000) for i in range(8)})
    lake_write(server.url, uri, write_ipc(tmp_path / "in.arrow", table), "--max-rows-per-file", 5_000)
    proxy.clear()
    must(s3.lake(proxy.url, "lance", "scan", uri, "-o", tmp_path / "out.arrow"))
    # the newest version's name, its manifest; of each file its end, and all its pages at once
    assert len(proxy.log) <= 2 + 8 * 2
    assert read_ipc(tmp_path / "out.arrow").equals(table)


def test_a_row_of_a_large_file_needs_two_requests_a_column(server, proxy, uri, tmp_path):
    count = 300_000
    table = pa.table({"a": pa.array(range(count), pa.int64()), "s": [f"{i * 7919:016x}" for i in range(count)]})
    lake_write(server.url, uri, write_ipc(tmp_path / "in.arrow", table))
    proxy.log.clear()
    must(s3.lake(proxy.url, "lance", "take", uri, "--rows", "123456", "-o", tmp_path / "out.arrow"))
    # the newest version's name, its manifest, the file's end; of each column: where the row is, and its chunk
    assert len(proxy.log) <= 3 + 2 * 2 and all(method == "GET" for method, _ in proxy.log)
    assert read_ipc(tmp_path / "out.arrow").to_pydict() == table.slice(123456, 1).to_pydict()
