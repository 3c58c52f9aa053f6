"""test_learners.py - what a learner does beyond one list: counts by policy version, waiting for new rows, projections,
trajectories."""
import base64
import io
import json
import os
import threading
import time

import pyarrow as pa
import pyarrow.parquet as parquet

import rollout


def test_counts_by_policy_version_are_those_of_the_rows(instance, store):
    rows = [{"id": f"r{n}", "rollout_id": "t", **({"policy_version": f"v{n % 3}"} if n % 7 else {})} for n in range(100)]
    instance.add(store, rows[:60])
    instance.merge(store)
    instance.add(store, rows[60:])
    answer = instance.call("GET", f"/api/v1/rollouts/{store}/stats?group_by=policy_version", 200).json
    expected = {}
    for row in rows:
        name = row.get("policy_version")
        expected[name] = expected.get(name, 0) + 1
    assert {group["value"]: group["rows"] for group in answer["groups"]} == expected


def test_a_tail_waits_for_new_rows_and_gives_each_once(instance, store):
    instance.add(store, rollout.records(range(5)))
    path = f"/api/v1/rollouts/{store}/tail"
    cursor, got = instance.call("GET", path + "?timeout_ms=1", 200).json["next_cursor"], [] # from now on
    late = threading.Timer(0.5, lambda: [instance.client().add(store, rollout.records([number])) for number in (5, 6)])
    late.start()
    start, deadline = time.monotonic(), time.monotonic() + 20
    with instance.client() as client:
        while len(got) < 2 and time.monotonic() < deadline:
            page = client.call("GET", f"{path}?cursor={cursor}", 200).json
            got += [record["id"] for record in page["records"]]
            cursor = page["next_cursor"]
    assert got == ["r5", "r6"] and 0.4 <= time.monotonic() - start < 10


def test_a_projection_has_its_columns_and_the_payload_only_by_name(instance, store):
    assert instance.put_blobs(store, [{"id": "a", "rollout_id": "t", "reward": 0.5}], [("0", b"xyz")]).status == 201
    assert instance.list(store, columns="reward,id") == [{"id": "a", "reward": 0.5}]
    path = f"/api/v1/rollouts/{store}/records?columns=id,binary_payload"
    for form in ("", "&format=arrow", "&payload=outline"):
        refused = instance.request("GET", path + form)
        assert (refused.status, refused.code) == (400, "INVALID_REQUEST"), form
    arrow = instance.call("GET", path + "&payload=inline&format=arrow", 200).body
    file = instance.call("GET", path + "&payload=inline&format=parquet", 200).body
    for table in (pa.ipc.open_stream(arrow).read_all(), parquet.read_table(io.BytesIO(file))):
        assert table.to_pylist() == [{"id": "a", "binary_payload": b"xyz"}]
    assert instance.blob(store, "a").body == b"xyz"


def test_payloads_in_texts_are_base64(instance, store):
    payloads = {f"p{size:07}": os.urandom(size) for size in (1, 2, 3, 48 * 1024 - 1, 48 * 1024, 48 * 1024 + 1, 700_001)}
    instance.add(store, [{"id": "empty", "rollout_id": "t", "binary_payload": ""}, {"id": "none", "rollout_id": "t"}])
    for identity, payload in payloads.items():
        assert instance.put_blobs(store, [{"id": identity, "rollout_id": "t"}], [("0", payload)]).status == 201
    path = f"/api/v1/rollouts/{store}/records?payload=inline&columns="
    for merged in (False, True):
        for columns in ("id,binary_payload", "binary_payload,reward,id"):
            whole = instance.call("GET", path + columns, 200).json["records"]
            lines = instance.call("GET", path + columns + "&format=ndjson", 200).body.splitlines()
            assert [json.loads(line) for line in lines] == whole
            got = {record["id"]: base64.b64decode(record["binary_payload"], validate=True)
                   for record in whole if "binary_payload" in record}
            assert got == {**payloads, "empty": b""} and len(whole) == len(got) + 1
        alone = instance.call("GET", path + "binary_payload&order=id", 200).json["records"]
        assert len(alone) == 9 and alone[0] == {"binary_payload": ""} and alone[1] == {}
        if not merged:
            instance.merge(store)


def test_a_trajectory_comes_in_its_order(instance, store):
    instance.add(store, [{"id": f"r{n}", "rollout_id": f"t{n % 2}", "sequence_order": -n} for n in range(10)])
    answer = instance.call("GET", f"/api/v1/rollouts/{store}/trajectories/t1", 200).json
    assert [record["id"] for record in answer["records"]] == ["r9", "r7", "r5", "r3", "r1"]


def test_the_default_order_is_stable_and_other_orders_are_by_name(instance, store):
    rows = [{"id": f"r{n:02}", "rollout_id": f"t{n % 4}", "sequence_order": n % 3,
             "created_at": f"2026-01-01T00:00:0{n % 5}Z"} for n in range(40)]
    instance.add(store, rows[20:])
    instance.add(store, rows[:20])
    expected = sorted(rows, key=lambda row: (row["created_at"], row["rollout_id"], row["sequence_order"], row["id"]))
    assert [record["id"] for record in instance.list(store)] == [row["id"] for row in expected]
    assert [record["id"] for record in instance.list(store, order="id")] == [row["id"] for row in rows]
    assert sorted(record["id"] for record in instance.list(store, order="none")) == [row["id"] for row in rows]
    assert instance.list(store, limit=0) == [] and json.dumps(instance.list(store, offset=1000)) == "[]"
