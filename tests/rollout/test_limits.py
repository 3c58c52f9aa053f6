"""test_limits.py - what one instance takes and what it refuses: bombs, stalled and large uploads, idle connections, budgets,
who may do what. LK_SERIAL"""
import gzip
import json
import os
import resource
import select
import socket
import time

import pyarrow as pa
import pytest

import rollout

MIB = 2**20
RECORDS = "/api/v1/rollouts/{}/records"


def connect(instance, timeout=30):
    host, port = instance.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout)


def head(store, size, content_type="application/json", **more):
    lines = [f"POST {RECORDS.format(store)} HTTP/1.1", "Host: x", f"Content-Type: {content_type}",
             f"Content-Length: {size}", *(f"{name.replace('_', '-')}: {value}" for name, value in more.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_answer(connection):
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(65536)
        if not piece:
            return got
        got += piece
    top, rest = got.split(b"\r\n\r\n", 1)
    size = next((int(line.split(b":")[1]) for line in top.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    while len(rest) < size:
        piece = connection.recv(65536)
        if not piece:
            break
        rest += piece
    return top + b"\r\n\r\n" + rest


def pack(coding, content):
    return gzip.compress(content, 9) if coding == "gzip" else bytes(pa.compress(content, "zstd", asbytes=True))


@pytest.mark.parametrize("coding, repeats, limit", [("gzip", 16, 512 * MIB), ("zstd", 160, 1024 * MIB)])
def test_a_bomb_is_refused_and_takes_no_memory(tmp_path, coding, repeats, limit):
    with rollout.Instance(tmp_path, extra=["--max-body", str(limit)]) as instance:
        instance.create("rl")
        instance.add("rl", rollout.records(range(10)))
        record = pack(coding, b'{"records":[{"id":"a","rollout_id":"t"}]}')
        for filling in (b"\0", b" "): # no JSON from its first byte on, and JSON to its last
            packed = pack(coding, filling * (64 * MIB)) * repeats + record # frames may follow each other
            assert len(packed) <= 1.1 * MIB, "one of gzip cannot be smaller"
            before, start = instance.peak(), time.monotonic()
            answer = instance.request("POST", RECORDS.format("rl"), packed,
                                      {"Content-Type": "application/json", "Content-Encoding": coding})
            assert (answer.status, answer.code) == (413, "TOO_LARGE")
            assert instance.peak() - before < 64 * MIB, "what it would become is never held"
            assert time.monotonic() - start < 30
        assert len(instance.list("rl")) == 10


def test_ten_thousand_idle_connections_cost_little_and_the_next_is_served(tmp_path):
    count = rollout.count(2000, 10000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with rollout.Instance(tmp_path) as instance:
        instance.create("rl")
        before, open_ones = instance.resident(), []
        try:
            for _ in range(count):
                connection = connect(instance)
                connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
                open_ones.append(connection)
            for connection in open_ones:
                assert read_answer(connection).startswith(b"HTTP/1.1 200")
            assert instance.resident() <= 200 * MIB
            assert instance.resident() - before <= count * 16 * 1024
            instance.add("rl", rollout.records([1]))
            assert instance.ids("rl") == ["r1"]
        finally:
            for connection in open_ones:
                connection.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_stalled_upload_is_ended_at_the_idle_limit_and_its_slot_is_free(tmp_path):
    environment = {"REQUEST_BODY_IDLE_TIMEOUT_SECS": "1"}
    with rollout.Instance(tmp_path, environment=environment, extra=["--rollout-max-inflight-blob-bytes", str(MIB)]) as instance:
        instance.create("rl")
        descriptors = len(os.listdir(f"/proc/{instance.pid}/fd"))
        for _ in range(3): # each would take the whole budget if it were not given back
            with connect(instance) as connection:
                connection.sendall(head("rl", 900_000, "multipart/form-data; boundary=b") + b"--b\r\n")
                start = time.monotonic()
                answer = read_answer(connection)
                assert answer.startswith(b"HTTP/1.1 408 ") and b'"REQUEST_TIMEOUT"' in answer
                assert 0.5 < time.monotonic() - start < 5
        assert instance.put_blobs("rl", [{"id": "a", "rollout_id": "t"}], [("0", bytes(900_000))]).status == 201
        assert instance.ids("rl") == ["a"]
        assert instance.metric("http_request_body_timeouts_total") == 3
        time.sleep(0.2)
        assert len(os.listdir(f"/proc/{instance.pid}/fd")) <= descriptors + 4


def test_a_slow_upload_that_never_stalls_is_served_and_others_are_not_held_up(tmp_path):
    with rollout.Instance(tmp_path, environment={"REQUEST_BODY_IDLE_TIMEOUT_SECS": "1"}) as instance:
        instance.create("rl")
        body = json.dumps({"records": rollout.records([1], content="x" * 4000)}).encode()
        slow = [connect(instance) for _ in range(200)]
        for connection in slow:
            connection.sendall(head("rl", len(body)))
        for first in range(0, len(body), len(body) // 6 + 1): # every connection sends a piece within the limit
            for connection in slow:
                connection.sendall(body[first:first + len(body) // 6 + 1])
            start = time.monotonic()
            assert instance.call("GET", "/api/v1/health").status == 200
            assert time.monotonic() - start < 0.5
            time.sleep(0.3)
        for connection in slow:
            assert read_answer(connection).startswith(b"HTTP/1.1 201 ")
            connection.close()
        assert instance.ids("rl") == ["r1"]


def test_health_and_adds_are_answered_while_readers_that_take_nothing_hold_every_worker(tmp_path):
    with rollout.Instance(tmp_path) as instance:
        instance.create("rl")
        instance.add("rl", rollout.records(range(12), content="x" * MIB)) # more than sockets take in
        slow = [socket.socket() for _ in range(96)] # there are 64 workers
        try:
            for connection in slow:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(30)
                connection.connect(("127.0.0.1", instance.port))
                connection.sendall(b"GET /api/v1/rollouts/rl/records HTTP/1.1\r\nHost: x\r\n\r\n")
            waiting = set(slow)
            while len(waiting) > 96 - 64: # whichever got the workers
                ready, _, _ = select.select(waiting, [], [], 30)
                assert ready and all(connection.recv(8) == b"HTTP/1.1" for connection in ready)
                waiting -= set(ready)
            start = time.monotonic()
            assert instance.call("GET", "/api/v1/health").status == 200
            instance.add("rl", rollout.records([99]))
            assert time.monotonic() - start < 3
        finally:
            for connection in slow:
                connection.close()


def slow_reader(instance, path="/api/v1/rollouts/rl/records"):
    """Asks for a list, and takes its first byte only."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", instance.port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    return connection


def is_cut(connection, size):
    """Takes what is left; whether that is less than the content. (That the end is missing tests/net shows.)"""
    got = 0
    try:
        while piece := connection.recv(2**20):
            got += len(piece)
    except ConnectionError:
        return True
    return got < size


@pytest.mark.parametrize("form", ["json", "ndjson", "arrow", "blob"])
def test_readers_that_take_nothing_hold_no_worker_and_are_cut_off(tmp_path, form):
    with rollout.Instance(tmp_path, extra=["--answer-idle-secs", "3"]) as instance:
        instance.create("rl")
        instance.add("rl", rollout.records(range(6), content="x" * MIB)) # more than sockets take in
        assert instance.put_blobs("rl", [{"id": "b", "rollout_id": "t"}], [("0", bytes(6 * MIB))]).status == 201
        path = "/api/v1/rollouts/rl/records" + ("/b/blob" if form == "blob" else f"?format={form}")
        slow = [slow_reader(instance, path) for _ in range(80)] # there are 64 workers
        for connection in slow:
            assert connection.recv(8) == b"HTTP/1.1" # each of them
        start = time.monotonic()
        assert len(instance.ids("rl", columns="id")) == 7
        assert time.monotonic() - start < 2
        assert not is_cut(slow[0], 6 * MIB), "who takes it gets the rest"
        deadline = time.monotonic() + 15
        while instance.metric("rollout_answer_bytes") > 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert instance.metric("rollout_answer_bytes") == 0, "what they held is free"
        assert all(is_cut(connection, 6 * MIB) for connection in slow[1:])
        for connection in slow:
            connection.close()


def test_answers_that_nobody_takes_are_within_their_bound_and_more_are_503(tmp_path):
    bound = 64 * MIB
    extra = ["--answer-idle-secs", "4", "--max-answer-bytes", str(bound)]
    with rollout.Instance(tmp_path, extra=extra) as instance:
        instance.create("rl")
        instance.add("rl", rollout.records(range(12), content="x" * MIB))
        instance.list("rl", limit=1)
        before, slow, refused = instance.resident(), [], None
        while refused is None and len(slow) < 64:
            slow.append(slow_reader(instance))
            top = slow[-1].recv(12)
            refused = slow[-1] if top == b"HTTP/1.1 503" else None
        assert refused is not None and 4 <= len(slow) <= 20, len(slow)
        said = read_answer(refused)
        assert b"retry-after: 1" in said.lower() and b"--max-answer-bytes" in said and b"OVERLOADED" in said
        assert instance.resident() - before < 2 * bound
        assert instance.call("GET", "/api/v1/health").status == 200
        instance.add("rl", rollout.records([99]))
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and instance.request("GET", "/api/v1/rollouts/rl/records").status == 503:
            time.sleep(0.2)
        assert len(instance.list("rl")) == 13, "when the others were cut off there is room"
        assert instance.metric("rollout_answer_rejections_total") >= 1
        for connection in slow:
            connection.close()


def test_a_full_blob_budget_is_said_at_once_and_later_there_is_room(tmp_path):
    with rollout.Instance(tmp_path, extra=["--rollout-max-inflight-blob-bytes", str(MIB)]) as instance:
        instance.create("rl")
        body, content_type = rollout.form([("metadata", json.dumps({"records": [{"id": "a", "rollout_id": "t"}]}).encode()),
                                           ("0", bytes(800_000))])
        with connect(instance) as first:
            first.sendall(head("rl", len(body), content_type) + body[:1000])
            time.sleep(0.2)
            with connect(instance) as second:
                start = time.monotonic()
                second.sendall(head("rl", len(body), content_type, Expect="100-continue"))
                answer = read_answer(second)
                assert time.monotonic() - start < 0.05
                assert answer.startswith(b"HTTP/1.1 503 ") and b'"OVERLOADED"' in answer
                assert b"retry-after:" in answer.lower()
            first.sendall(body[1000:])
            assert read_answer(first).startswith(b"HTTP/1.1 201 ")
        assert instance.put_blobs("rl", [{"id": "b", "rollout_id": "t"}], [("0", bytes(800_000))]).status == 201
        alone = instance.put_blobs("rl", [{"id": "c", "rollout_id": "t"}], [("0", bytes(3 * MIB))])
        assert alone.status == 201, "one that is larger than the budget is let in when it is alone"
        assert instance.metric("rollout_blob_budget_rejections_total") == 1


def test_a_client_that_goes_away_adds_all_of_its_rows_or_none(tmp_path):
    with rollout.Instance(tmp_path, extra=["--rollout-max-inflight-blob-bytes", str(MIB)]) as instance:
        instance.create("rl")
        for _ in range(3): # each would take the whole budget if it were not given back
            with connect(instance) as connection:
                connection.sendall(head("rl", 900_000, "multipart/form-data; boundary=b") + b"--b\r\n")
        deadline = time.monotonic() + 10
        while instance.put_blobs("rl", [{"id": "blob", "rollout_id": "t"}], [("0", bytes(900_000))]).status != 201:
            assert time.monotonic() < deadline, "the room of clients that went away is not given back"
            time.sleep(0.02)
        for number in range(20):
            body = json.dumps({"records": rollout.records(range(100), f"c{number}-")}).encode()
            with connect(instance) as connection:
                connection.sendall(head("rl", len(body)) + body[:len(body) if number % 2 else len(body) // 2])
        deadline = time.monotonic() + 10
        while len(instance.list("rl")) < 1001 and time.monotonic() < deadline:
            time.sleep(0.05)
        counts = {}
        for identity in set(instance.ids("rl")) - {"blob"}:
            counts[identity.split("-")[0]] = counts.get(identity.split("-")[0], 0) + 1
        assert set(counts.values()) == {100} and set(counts) == {f"c{number}" for number in range(1, 20, 2)}


def test_a_token_says_who_may_read_and_who_may_write(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("# who may do what\n" + "".join(f"{role} {name}-0123456789abcdef\n" for role, name in (
        ("read", "reader"), ("write", "writer"), ("admin", "admins"))))
    tokens.chmod(0o600)
    bearer = lambda name: {"Authorization": f"Bearer {name}-0123456789abcdef"}
    with rollout.Instance(tmp_path / "pod", extra=["--auth-token-file", str(tokens)]) as instance:
        assert instance.call("GET", "/api/v1/health", 200).json == {"status": "ok"}
        for path in ("/api/v1/rollouts", "/api/v1/rollouts/rl/records", "/metrics"):
            answer = instance.request("GET", path)
            assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")
            assert "bearer" in answer.headers["www-authenticate"].lower()
            assert instance.request("GET", path, headers={"Authorization": "Bearer wrong"}).status == 401
        instance.call("POST", "/api/v1/rollouts", 201, json_body={"name": "rl"}, headers=bearer("admins"))
        instance.add("rl", rollout.records([1]), bearer("writer"))
        answer = instance.request("POST", RECORDS.format("rl"), json_body={"records": rollout.records([2])},
                                  headers=bearer("reader"))
        assert (answer.status, answer.code) == (403, "FORBIDDEN")
        assert instance.request("DELETE", "/api/v1/rollouts/rl", headers=bearer("writer")).status == 403
        assert len(instance.call("GET", RECORDS.format("rl"), 200, headers=bearer("reader")).json["records"]) == 1


def test_a_large_blob_goes_in_and_out_within_bounds(tmp_path):
    size = rollout.count(128 * MIB, 2**30 - 4096)
    with rollout.Instance(tmp_path, extra=["--rollout-max-inflight-blob-bytes", str(2**31)]) as instance:
        instance.create("rl")
        block = os.urandom(MIB)
        lead = (b'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n' +
                json.dumps({"records": [{"id": "a", "rollout_id": "t"}]}).encode() +
                b'\r\n--b\r\nContent-Disposition: form-data; name="0"\r\n\r\n')
        with connect(instance, 300) as connection:
            connection.sendall(head("rl", len(lead) + size + 9, "multipart/form-data; boundary=b") + lead)
            for at in range(0, size, MIB):
                connection.sendall(block[:size - at])
            connection.sendall(b"\r\n--b--\r\n")
            assert read_answer(connection).startswith(b"HTTP/1.1 201 ")
        instance.restart() # what reading takes is seen alone
        instance.list("rl")
        before = instance.resident()
        host, port = instance.address.rsplit(":", 1)
        with connect(instance, 300) as connection:
            connection.sendall(f"GET {RECORDS.format('rl')}/a/blob HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            got, at, peak = b"", 0, 0
            while b"\r\n\r\n" not in got:
                got += connection.recv(65536)
            top, got = got.split(b"\r\n\r\n", 1)
            assert f"content-length: {size}" in top.decode().lower()
            while got:
                want = (block * 2)[at % MIB:at % MIB + len(got)]
                assert got == want, f"byte {at} and on"
                at += len(got)
                if at // (8 * MIB) != (at - len(got)) // (8 * MIB):
                    peak = max(peak, anonymous(instance))
                got = connection.recv(MIB // 2)
            assert at == size
        assert peak - before <= 32 * MIB, f"reading a large value held {(peak - before) / MIB:.0f} MiB"
        assert instance.client(timeout=300).merge("rl")["reclaimed"] == 1
        last = instance.blob("rl", "a", {"Range": "bytes=-7"})
        assert (last.status, last.body) == (206, (block * 2)[(size - 7) % MIB:][:7])


def test_a_row_that_is_larger_than_the_cache_is_stored_read_and_merged(tmp_path):
    with rollout.Instance(tmp_path, extra=["--rollout-cache-bytes", str(8 * MIB)]) as instance:
        instance.create("rl")
        content = os.urandom(MIB) * 32
        for number in range(3):
            instance.add("rl", rollout.records([number]))
            assert instance.put_blobs("rl", [{"id": f"w{number}", "rollout_id": "t"}], [("0", content)]).status == 201
        expected, merged = instance.list("rl"), 0
        while merged < 6: # as many at once as there is memory for
            reclaimed = instance.merge("rl")["reclaimed"]
            assert reclaimed > 0
            merged += reclaimed
        assert instance.list("rl") == expected and len(expected) == 6
        assert instance.blob("rl", "w1").body == content


def anonymous(instance):
    """Resident bytes that are no pages of files."""
    fields = dict(line.split(":", 1) for line in open(f"/proc/{instance.pid}/status"))
    return int(fields["RssAnon"].split()[0]) * 1024


def test_lists_of_other_lengths_than_the_tokens_are_refused_when_asked_for(tmp_path):
    wrong = {"id": "w", "rollout_id": "r", "output_tokens": [1, 2], "output_logprobs": [-1.0]}
    right = {"id": "r", "rollout_id": "r", "output_tokens": [1, 2], "output_logprobs": [-1.0, -2.0], "loss_mask": [1, 0]}
    with rollout.Instance(tmp_path, environment={"ROLLOUT_STRICT_ALIGNMENT": "1"}) as instance:
        instance.create("rl")
        answer = instance.try_add("rl", [wrong])
        assert answer.status == 400 and b"output_logprobs has 1 values and output_tokens 2" in answer.body
        instance.add("rl", [right])
        assert instance.ids("rl") == ["r"]
    with rollout.Instance(tmp_path) as instance:
        instance.add("rl", [wrong])


def test_lists_of_one_value_are_merged_though_they_are_larger_than_the_cache(tmp_path):
    """On disk such lists take next to nothing, and in memory all that they are."""
    tokens = "[" + ",".join(["0"] * 400_000) + "]"
    records = ",".join(f'{{"id":"r{number}","rollout_id":"t","output_tokens":{tokens}}}' for number in range(64))
    with rollout.Instance(tmp_path, extra=["--rollout-cache-bytes", str(64 * MIB)]) as instance:
        instance.create("rl")
        instance.call("POST", "/api/v1/rollouts/rl/records", 201, body=f'{{"records":[{records}]}}'.encode(),
                      headers={"Content-Type": "application/json"})
        instance.merge("rl")
        assert instance.get("rl", "r63")["output_tokens"] == [0] * 400_000
