"""test_api.py - the HTTP API of one instance: what is answered, and what is stored after it."""
import gzip
import hashlib
import json
import random
import socket
import threading
import time

import pyarrow as pa
import pytest

import rollout
import shards

RECORDS = "/api/v1/rollouts/{}/records"


def test_an_empty_directory_is_healthy(tmp_path):
    with rollout.Instance(tmp_path) as fresh:
        answer = fresh.call("GET", "/api/v1/health", 200)
        assert answer.json == {"status": "ok"} and answer.headers["content-type"].startswith("application/json")
        assert fresh.call("GET", "/api/v1/rollouts", 200).json == {"stores": []}
        assert fresh.call("GET", "/api/v1/ready").status == 200


def test_a_store_is_created_once(instance):
    created = instance.create("once")
    assert created["name"] == "once" and created["version"] >= 1
    assert created["uri"].endswith("/once.rollout.lance")
    again = instance.request("POST", "/api/v1/rollouts", json_body={"name": "once"})
    assert (again.status, again.code) == (409, "ALREADY_EXISTS")
    assert instance.call("GET", "/api/v1/rollouts/once", 200).json["uri"] == created["uri"]
    assert "once" in [store["name"] for store in instance.call("GET", "/api/v1/rollouts", 200).json["stores"]]


def test_names_that_could_leave_the_directory_are_refused(instance):
    for name in ("", "..", ".hidden", "a/b", "a b", "é", "_registry", "_stats", "x" * 129, "nul\0"):
        answer = instance.request("POST", "/api/v1/rollouts", json_body={"name": name})
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), name
    for path in ("%2e%2e", "%2e%2e%2fetc"):
        assert instance.request("GET", f"/api/v1/rollouts/{path}").status in (400, 404)


def test_a_deleted_store_is_gone_and_its_name_is_free(instance):
    instance.create("brief")
    instance.add("brief", rollout.records(range(3)))
    assert instance.call("DELETE", "/api/v1/rollouts/brief", 204).body == b""
    for method, path in (("GET", "brief"), ("DELETE", "brief"), ("GET", "brief/records"), ("GET", "brief/records/r0")):
        answer = instance.request(method, f"/api/v1/rollouts/{path}")
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), path
    assert not [path for path in instance.store_path("brief").rglob("*") if path.is_file()]
    instance.create("brief")
    assert instance.list("brief") == []


def test_a_minimal_record_gets_the_defaults(instance, store):
    answer = instance.add(store, {"id": "a", "rollout_id": "t"})
    assert (answer["count"], answer["ids"]) == (1, ["a"]) and answer["version"] >= 1
    record = instance.get(store, "a")
    created = record.pop("created_at")
    assert created.endswith("Z") and created.startswith("20")
    assert record == {"id": "a", "rollout_id": "t", "problem_id": "t", "role": "assistant", "content_type": "text/plain",
                      "sequence_order": 0}


def test_a_record_with_every_member_comes_back_as_it_was(instance, store):
    sent = rollout.everything(1)
    assert instance.put_blobs(store, [sent], [("0", b"\0\1\2\3\xff")]).status == 201
    assert instance.get(store, sent["id"]) == {**sent, "created_at": "2026-11-30T07:35:03.064554Z"}
    text = instance.call("GET", RECORDS.format(store), 200).body.decode()
    assert '"advantage":0.1,' in text and '"reward":-1.25' in text, "floats have the shortest form that is theirs"
    assert "binary_payload" not in text and text.count("null") == 1, "the one within metadata"
    blob = instance.blob(store, sent["id"])
    assert (blob.status, blob.body) == (200, b"\0\1\2\3\xff")
    assert blob.headers["content-type"] == "application/octet-stream" and blob.headers["content-length"] == "5"


def test_one_request_is_one_generation_and_is_seen_whole_or_not_at_all(instance, store):
    seen, done = set(), threading.Event()

    def poll():
        with instance.client() as reader:
            while not done.is_set():
                seen.add(len(reader.list(store)))
    poller = threading.Thread(target=poll)
    poller.start()
    assert instance.add(store, rollout.records(range(1, 1001)))["count"] == 1000
    done.set()
    poller.join()
    assert seen <= {0, 1000}
    assert len(instance.list(store)) == 1000
    assert len(shards.one(instance.store_path(store), "rollout-0").generations) == 1


def raw(instance, store, body, **headers):
    return instance.request("POST", RECORDS.format(store), body, {"Content-Type": "application/json", **headers})


def test_what_no_record_may_be_is_refused_and_nothing_is_written(instance, store):
    instance.add(store, {"id": "a", "rollout_id": "t"})
    for body in ('{"records":[]}', '{"records":', '[]', '{}', '{"records":[{"id":"b"}]}', '{"records":[{"rollout_id":"t"}]}',
                 '{"records":[{"id":"","rollout_id":"t"}]}',
                 '{"records":[{"id":"b","rollout_id":"t","input_tokens":[2147483648]}]}',
                 '{"records":[{"id":"b","rollout_id":"t","input_tokens":[1.5]}]}',
                 '{"records":[{"id":"b","rollout_id":"t","loss_mask":[200]}]}',
                 '{"records":[{"id":"b","rollout_id":"t","reward":NaN}]}',
                 '{"records":[{"id":"b","rollout_id":"t","reward":Infinity}]}',
                 '{"records":[{"id":"b","rollout_id":"t","reward":1e39}]}',
                 '{"records":[{"id":"b","rollout_id":"t","content":"\\ud800"}]}',
                 '{"records":[{"id":"b","rollout_id":"t","binary_payload":"a"}]}',
                 '{"records":[{"id":"b","rollout_id":"t","include_in_training":"yes"}]}',
                 '{"records":[{"id":"b","rollout_id":"t","created_at":"yesterday"}]}',
                 '{"records":[{"id":"c","rollout_id":"t"},{"id":"b","rollout_id":"t","reward":"1"}]}',
                 '{"records":[{"id":"' + "x" * 1025 + '","rollout_id":"t"}]}',
                 '{"records":[{"id":"b","rollout_id":"t","metadata":' + "[" * 100 + "]" * 100 + "}]}",
                 b'{"records":[{"id":"b\xff","rollout_id":"t"}]}'):
        answer = raw(instance, store, body)
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), body
    wrong = raw(instance, store, '{"records":[{"id":"c","rollout_id":"t"},{"id":"b","rollout_id":"t","reward":"1"}]}')
    message = wrong.json["error"]["message"]
    assert "reward" in message and "1" in message, "the message names the record's number and the field"
    assert instance.ids(store) == ["a"]
    assert len(shards.one(instance.store_path(store), "rollout-0").generations) == 1


def test_a_form_with_a_fault_leaves_nothing_behind(instance, store):
    meta = lambda *more: ("metadata", json.dumps({"records": [{"id": "a", "rollout_id": "t", **extra} for extra in more]
                                                  }).encode())
    faults = {
        "the first part is not metadata": [("0", b"x"), meta({})],
        "a part without a number": [meta({}), ("zero", b"x")],
        "a number that no record has": [meta({}), ("1", b"x")],
        "a number twice": [meta({}), ("0", b"x"), ("0", b"x")],
        "another length than declared": [meta({"payload_size": 3}), ("0", b"x")],
        "a declared size and no bytes": [meta({"payload_size": 3})],
    }
    for fault, parts in faults.items():
        body, content_type = rollout.form(parts)
        answer = instance.request("POST", RECORDS.format(store), body, {"Content-Type": content_type})
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), fault
    assert instance.list(store) == []
    assert not shards.pending(instance.store_path(store))
    wrong = instance.put_blobs(store, [{"id": "a", "rollout_id": "t", "payload_checksum": "sha256:" + "0" * 64}],
                               [("0", b"x")])
    assert wrong.status == 400
    right = "sha256:" + hashlib.sha256(b"x").hexdigest()
    assert instance.put_blobs(store, [{"id": "a", "rollout_id": "t", "payload_checksum": right}], [("0", b"x")]).status == 201
    assert instance.get(store, "a")["payload_size"] == 1


def test_a_body_above_the_limit_is_refused_before_it_is_sent(instance, store):
    host, port = instance.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(f"POST {RECORDS.format(store)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {2**30 + 1}\r\nExpect: 100-continue\r\n\r\n".encode())
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ") and b'"TOO_LARGE"' in answer
    with socket.create_connection((host, int(port)), 10) as connection:
        body = b'{"records":[{"id":"a","rollout_id":"t"}]}'
        connection.sendall(f"POST {RECORDS.format(store)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_other_media_types_are_refused_as_json(instance, store):
    answer = instance.request("POST", RECORDS.format(store), "id,rollout_id\na,t\n", {"Content-Type": "text/csv"})
    assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert answer.headers["content-type"].startswith("application/json")


def test_a_missing_id_is_a_null_record_and_no_blob(instance, store):
    instance.add(store, {"id": "a", "rollout_id": "t"})
    assert instance.call("GET", RECORDS.format(store) + "/nope", 200).json == {"record": None}
    for identity in ("nope", "a"):
        answer = instance.blob(store, identity)
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), "a null payload is no blob either"
    empty = instance.put_blobs(store, [{"id": "e", "rollout_id": "t"}], [("0", b"")])
    assert empty.status == 201
    answer = instance.blob(store, "e")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")


def test_a_part_of_a_blob_is_a_206_and_beyond_its_end_a_416(instance, store):
    content = bytes(range(256)) * 40
    assert instance.put_blobs(store, [{"id": "a", "rollout_id": "t"}], [("0", content)]).status == 201
    part = instance.blob(store, "a", {"Range": "bytes=5-9"})
    assert (part.status, part.body) == (206, content[5:10])
    assert part.headers["content-range"] == f"bytes 5-9/{len(content)}"
    assert instance.blob(store, "a", {"Range": "bytes=-3"}).body == content[-3:]
    assert instance.blob(store, "a", {"Range": "bytes=10000-"}).body == content[10000:]
    beyond = instance.blob(store, "a", {"Range": "bytes=999999-"})
    assert beyond.status == 416 and beyond.headers["content-range"] == f"bytes */{len(content)}"
    head = instance.blob(store, "a", method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(content)))
    tag = head.headers["etag"]
    assert instance.blob(store, "a", {"Range": "bytes=0-0", "If-Range": tag}).status == 206
    assert instance.blob(store, "a", {"Range": "bytes=0-0", "If-Range": '"other"'}).status == 200
    assert head.headers["x-content-type-options"] == "nosniff"


def test_unknown_filters_and_wrong_types_are_refused(instance, store):
    instance.add(store, {"id": "a", "rollout_id": "t", "include_in_training": True})
    for filters in ({"colour": "red"}, {"include_in_training": "true"}, {"role": 7}, {"created_at": "x"}):
        answer = instance.request("GET", RECORDS.format(store) + "?filters=" + rollout.urllib.parse.quote(json.dumps(filters)))
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), filters
    for query in ("filters={", "filters=[]", "limit=-1", "limit=x", "offset=-1", "offset=1.5", "columns=nope",
                  "order=sideways", "cursor=forged"):
        answer = instance.request("GET", RECORDS.format(store) + "?" + query)
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), query
    assert instance.ids(store, filters={"include_in_training": True}) == ["a"]


def test_the_same_row_again_is_a_success_and_another_one_is_a_conflict(instance, store):
    row = {"id": "a", "rollout_id": "t", "reward": 0.5}
    assert instance.add(store, row)["count"] == 1
    assert instance.add(store, row)["ids"] == ["a"]
    assert instance.add(store, [row, row])["count"] == 2
    other = instance.try_add(store, [{"id": "b", "rollout_id": "t"}, {**row, "reward": 0.75}])
    assert (other.status, other.code) == (409, "CONFLICT") and "a" in other.json["error"]["message"]
    twice = instance.try_add(store, [{"id": "c", "rollout_id": "t"}, {"id": "c", "rollout_id": "u"}])
    assert (twice.status, twice.code) == (400, "INVALID_REQUEST")
    assert instance.list(store, columns="id,reward") == [{"id": "a", "reward": 0.5}]
    assert len(shards.one(instance.store_path(store), "rollout-0").generations) == 1


def test_arrow_and_json_bodies_store_equal_rows_and_lists_come_as_arrow(instance, store):
    sent = [{key: value for key, value in rollout.everything(n).items() if key not in ("payload_size", "metadata")}
            for n in range(3)]
    instance.add(store, sent)
    json_rows = instance.list(store)
    got = instance.call("GET", RECORDS.format(store), 200, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert got.headers["content-type"].startswith("application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(got.body).read_all()
    assert table.num_rows == 3 and "binary_payload" not in table.column_names
    assert table.schema.field("role").type == pa.dictionary(pa.int8(), pa.string())
    assert table.schema.field("created_at").type == pa.timestamp("us")
    assert table.schema.field("output_logprobs").type.value_type == pa.float32()

    twin = store + "-arrow"
    instance.create(twin)
    sink = pa.BufferOutputStream()
    shuffled = table.select(list(reversed(table.column_names)))
    with pa.ipc.new_stream(sink, shuffled.schema) as writer:
        writer.write_table(shuffled)
    answer = instance.request("POST", RECORDS.format(twin), sink.getvalue().to_pybytes(),
                              {"Content-Type": "application/vnd.apache.arrow.stream"})
    assert answer.status == 201, answer.body
    assert instance.list(twin) == json_rows
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in sent)
    third = store + "-lines"
    instance.create(third)
    assert instance.request("POST", RECORDS.format(third), lines, {"Content-Type": "application/x-ndjson"}).status == 201
    assert instance.list(third) == json_rows
    out = instance.call("GET", RECORDS.format(third), 200, headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line) for line in out.body.splitlines()] == json_rows


def lists_of(kind):
    """Token lists of 40 records in the forms that Arrow has for them: what is sent, and what the records hold."""
    rows = [list(range(n, n + 100 + 7 * (n % 5))) for n in range(40)]
    if kind == "items are null":
        rows = [row if n % 3 else [None if at % 9 == 0 else value for at, value in enumerate(row)] for n, row in enumerate(rows)]
    if kind == "some are null or empty":
        rows = [None if n % 7 == 3 else [] if n % 7 == 5 else row for n, row in enumerate(rows)]
    array = pa.array(rows, pa.list_(pa.int32()))
    if kind == "a null hides values":  # as masking an array leaves it
        rows = [row if n % 4 else None for n, row in enumerate(rows)]
        mask = pa.py_buffer(sum((row is not None) << n for n, row in enumerate(rows)).to_bytes(5, "little"))
        array = pa.Array.from_buffers(array.type, len(rows), [mask, array.buffers()[1]], children=[array.values])
    if kind == "another type":
        array = array.cast(pa.large_list(pa.int64()))
    return array, rows


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("kind", ["plain", "items are null", "some are null or empty", "a null hides values", "another type",
                                  "several batches", "a slice"])
def test_lists_that_are_most_of_an_arrow_body_are_stored_as_they_came(instance, store, kind, coding):
    array, rows = lists_of(kind)
    floats = pa.array([row and [value and value / 4 for value in row] for row in rows], pa.list_(pa.float32()))
    ids = [f"{n:03}" for n in range(len(rows))]
    table = pa.table({"output_logprobs": floats, "id": ids, "rollout_id": ["r"] * len(ids), "output_tokens": array})
    table = table.slice(11, 20) if kind == "a slice" else table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=9 if kind == "several batches" else None)
    body = sink.getvalue().to_pybytes()
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    if coding == "gzip":
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    for again in range(2):  # the second time, every row is compared with the one that is there
        answer = instance.request("POST", RECORDS.format(store), body, headers)
        assert answer.status == 201, answer.body
    wanted = {key: (rows[n], floats[n].as_py()) for n, key in enumerate(ids)}
    found = {row["id"]: (row.get("output_tokens"), row.get("output_logprobs")) for row in instance.list(store)}
    assert found == {key: wanted[key] for key in table.column("id").to_pylist()}


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_long_answer_as_arrow_has_every_value_of_every_batch(instance, store, coding):
    """Megabytes in several batches and pieces: lists with nulls and empty ones, texts, a dictionary with each batch."""
    sent, dice = [], random.Random(7)
    for number in range(6000):
        tokens = None if number % 11 == 0 else [dice.randrange(150_000) for _ in range(dice.randrange(90))]
        sent.append({"id": f"r{number:05}", "rollout_id": f"t{number % 7}", "role": ("assistant", "user")[number % 2],
                     "content": "x" * dice.randrange(300), "output_tokens": tokens,
                     "output_logprobs": tokens and [-token / 65536 for token in tokens],
                     "advantage": None if number % 5 == 0 else number / 4})
    for at in range(0, len(sent), 2000):
        instance.add(store, sent[at:at + 2000])
    for _ in range(2): # rows of generations, and merged ones
        got = instance.call("GET", RECORDS.format(store) + "?order=none&columns=" + ",".join(sent[0]), 200,
                            headers={"Accept": "application/vnd.apache.arrow.stream", "Accept-Encoding": coding})
        body = gzip.decompress(got.body) if coding == "gzip" else got.body
        with pa.ipc.open_stream(body) as stream:
            batches = list(stream)
        assert len(body) > 2 << 20
        rows = [row for batch in batches for row in batch.select(list(sent[0])).to_pylist()]
        assert sorted(rows, key=lambda row: row["id"]) == sent
        instance.merge(store)


def test_a_request_has_65536_records_at_most(instance, store):
    lines = [b'{"id":"%d","rollout_id":"t"}\n' % number for number in range(65537)]
    post = lambda count: instance.request("POST", RECORDS.format(store), b"".join(lines[:count]),
                                          {"Content-Type": "application/x-ndjson"})
    refused = post(65537)
    assert (refused.status, refused.code) == (400, "INVALID_REQUEST") and "65536" in refused.json["error"]["message"]
    assert instance.list(store) == []
    assert post(65536).status == 201
    assert len(instance.list(store, columns="id", order="none")) == 65536


def test_numbers_that_json_has_not_come_in_by_arrow_and_go_out_as_null(instance, store):
    table = pa.table({"id": ["a"], "rollout_id": ["t"], "reward": pa.array([float("nan")], pa.float32()),
                      "output_logprobs": pa.array([[float("-inf"), 1.0]], pa.list_(pa.float32()))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert instance.request("POST", RECORDS.format(store), sink.getvalue().to_pybytes(), headers).status == 201
    got = instance.get(store, "a")
    assert got["reward"] is None and got["output_logprobs"] == [None, 1.0]


def test_a_deferred_add_is_seen_within_the_interval_or_when_its_flush_is_asked_for(tmp_path):
    extra = ["--visibility", "deferred", "--rollout-flush-interval-secs", "4"]
    with rollout.Instance(tmp_path, extra=extra) as deferred:
        deferred.create("rl")
        path = RECORDS.format("rl")
        post = lambda name, query="": deferred.request("POST", path + query, json_body={"records": [{"id": name, "rollout_id": "t"}]})
        assert post("claims", "?flush").status == 201
        time.sleep(0.6) # at its start the sealer looks once whether an earlier process left something
        assert post("a").status == 201
        assert deferred.ids("rl") == ["claims"]
        deadline = time.monotonic() + 5
        while deferred.ids("rl") != ["a", "claims"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for number, query in enumerate(("?flush", "?flush=true", "?flush=1")):
            assert post(f"f{number}", query).status == 201
            assert f"f{number}" in deferred.ids("rl")
        assert post("last").status == 201
        deferred.restart()
        deferred.request("POST", path + "?flush", json_body={"records": [{"id": "z", "rollout_id": "t"}]})
        assert deferred.ids("rl") == ["a", "claims", "f0", "f1", "f2", "last", "z"], "what was acknowledged outlives kill -9"


def test_the_short_paths_are_the_same_routes(instance, store):
    assert instance.call("POST", f"/rollouts/{store}", 201, json_body={"records": [{"id": "a", "rollout_id": "t"}]})
    assert instance.call("GET", f"/rollouts/{store}/a", 200).json["record"]["id"] == "a"
    assert instance.put_blobs(store, [{"id": "b", "rollout_id": "t"}], [("0", b"xyz")]).status == 201
    assert instance.call("GET", f"/rollouts/{store}/b/blob", 200).body == b"xyz"


def test_unknown_paths_and_methods_are_json_errors(instance, store):
    answer = instance.request("GET", "/nowhere")
    assert (answer.status, answer.code) == (404, "NOT_FOUND")
    answer = instance.request("PUT", RECORDS.format(store))
    assert answer.status == 405 and "GET" in answer.headers["allow"] and "POST" in answer.headers["allow"]
    assert answer.json["error"]["message"]
    assert instance.request("HEAD", f"/api/v1/rollouts/{store}").body == b""
    assert instance.request("GET", "/api/v1/health", headers={"X": "y" * 40000}).status == 431


def test_an_equal_idempotency_key_gets_the_first_answer(instance, store):
    first = instance.add(store, {"id": "a", "rollout_id": "t"}, {"Idempotency-Key": "k1"})
    again = instance.add(store, {"id": "a", "rollout_id": "t"}, {"Idempotency-Key": "k1"})
    other = instance.request("POST", RECORDS.format(store), json_body={"records": [{"id": "b", "rollout_id": "t"}]},
                             headers={"Idempotency-Key": "k1"})
    assert again == first and (other.status, other.code) == (409, "CONFLICT") and instance.ids(store) == ["a"]


def test_requests_in_a_pipeline_are_answered_in_order(instance, store):
    host, port = instance.address.rsplit(":", 1)
    instance.add(store, rollout.records(range(5)))
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"".join(f"GET {RECORDS.format(store)}/r{n} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for n in range(5)))
        got = b""
        while got.count(b"HTTP/1.1 200") < 5 or not got.endswith(b"}}"):
            piece = connection.recv(65536)
            assert piece, got
            got += piece
    found = [json.loads(text.split(b"HTTP/1.1")[0])["record"]["id"] for text in got.split(b"\r\n\r\n")[1:]]
    assert found == [f"r{n}" for n in range(5)]


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_compressed_bodies_are_taken_and_given(instance, store, coding):
    body = json.dumps({"records": rollout.records(range(100), content="same " * 20)}).encode()
    packed = bytes(pa.compress(body, coding, asbytes=True))
    assert raw(instance, store, packed, **{"Content-Encoding": coding}).status == 201
    plain = instance.call("GET", RECORDS.format(store), 200)
    squeezed = instance.call("GET", RECORDS.format(store), 200, headers={"Accept-Encoding": coding})
    assert squeezed.headers["content-encoding"] == coding and len(squeezed.body) < len(plain.body) / 4
    assert bytes(pa.decompress(squeezed.body, len(plain.body), coding, asbytes=True)) == plain.body
    broken = raw(instance, store, packed[:-9], **{"Content-Encoding": coding})
    assert (broken.status, broken.code) == (400, "INVALID_REQUEST")
    assert raw(instance, store, body, **{"Content-Encoding": "br"}).status == 415


@pytest.mark.parametrize("method, path, known", [
    ("GET", "/api/v1/rollouts/{}/records?limt=5", "known are limit, offset, filters, order, columns, cursor, version"),
    ("GET", "/api/v1/rollouts/{}/records?limit=5&polic%79=v7", '\\"policy\\"'),
    ("GET", "/api/v1/rollouts/{}/records/x?limit=5", "known are version"),
    ("GET", "/api/v1/rollouts/{}/records/x/blob?limit=5", "known are version, ct"),
    ("GET", "/api/v1/rollouts/{}/trajectories/x?limit=5", "known are version, format"),
    ("GET", "/api/v1/rollouts/{}/tail?limit=5", "known are cursor, timeout_ms"),
    ("GET", "/api/v1/rollouts/{}/stats?by=role", "known are group_by"),
    ("GET", "/api/v1/rollouts/{}?version=1", "this request has none"),
    ("GET", "/api/v1/rollouts?limit=1", "this request has none"),
    ("POST", "/api/v1/rollouts/{}/records?flsh=true", "known are flush"),
])
def test_a_parameter_that_a_route_does_not_know_is_refused_by_name(instance, store, method, path, known):
    answer = instance.request(method, path.format(store), json_body=None if method == "GET" else {"records": []})
    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert known in answer.body.decode() and "there is no parameter" in answer.body.decode()
    assert instance.request("GET", "/api/v1/health?probe=1").status == 200, "probes and proxies add their own"


def test_what_is_refused_before_a_route_is_known_says_what_to_do(instance, store):
    def said(raw):
        host, port = instance.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 20) as connection:
            connection.sendall(raw)
            got = b""
            while piece := connection.recv(65536):
                got += piece
        top, body = got.split(b"\r\n\r\n", 1)
        error = json.loads(body)["error"]
        return int(top.split()[1]), error["code"], error["message"]
    post = f"POST /api/v1/rollouts/{store}/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    assert said(post + b"Content-Length: 99999999999\r\n\r\n") == (413, "TOO_LARGE",
        "the body is larger than 1073741824 bytes, the most that is taken here; send the records in several requests, or "
        "raise --max-body")
    assert said(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40000 + b"\r\n\r\n")[::2] == (431,
        "the request line and the header fields may have 32768 bytes together; send filters and ids in several requests")
    assert said(b"GET / HTTP/1.1\r\n\r\n") == (400, "INVALID_REQUEST", "a request has one Host field")
    assert said(post + b"Transfer-Encoding: chunked\r\n\r\nnonsense")[:2] == (400, "INVALID_REQUEST")
