"""test_merges.py - generations become rows of the base table: when, in which steps, and what a reader sees meanwhile."""
import json
import random
import shutil
import threading
import time

import lance
import pytest

import oracle
import rollout
import shards


@pytest.fixture
def merging(tmp_path):
    """An instance that merges after every fifth add."""
    with rollout.Instance(tmp_path / "pod", extra=["--rollout-merge-after-generations", "5"]) as running:
        running.create("rl")
        yield running


def test_the_fifth_add_merges_what_is_pending_and_no_earlier_one(merging):
    path = merging.store_path("rl")
    for number in range(1, 6):
        before = shards.one(path, "rollout-0") if number > 1 else None
        merging.add("rl", rollout.records([number]))
        shard, base = shards.one(path, "rollout-0"), lance.dataset(str(path))
        if number < 5:
            assert (len(shard.generations), base.count_rows()) == (number, 0)
    assert (len(shard.generations), base.count_rows(), len(base.get_fragments())) == (0, 5, 1)
    assert shard.replay_after >= before.replay_after and shard.epoch == before.epoch
    assert shard.current_generation == 6
    assert merging.ids("rl") == [f"r{number}" for number in range(1, 6)]
    for number in range(6, 10):
        merging.add("rl", rollout.records([number]))
    assert len(shards.one(path, "rollout-0").generations) == 4 and lance.dataset(str(path)).count_rows() == 5
    assert len(merging.list("rl")) == 9


def test_replay_after_is_not_moved_by_a_merge(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for number in range(4):
            pod.add("rl", rollout.records([number]))
            assert pod.version("rl") == 2, "an add that merges nothing makes no version of the base table"
        before = shards.one(pod.store_path("rl"), "rollout-0")
        assert pod.merge("rl")["reclaimed"] == 4 and pod.version("rl") == 3
        after = shards.one(pod.store_path("rl"), "rollout-0")
        assert after.generations == [] and after.replay_after == before.replay_after
        assert (after.epoch, after.current_generation) == (before.epoch, before.current_generation)
        assert pod.merge("rl")["reclaimed"] == 0


def test_a_merge_that_ended_before_the_shard_was_drained_shows_no_row_twice(tmp_path, context063, context067):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for number in range(6):
            pod.add("rl", rollout.records([number]))
        listed = pod.list("rl")
        assert pod.stop() == 0
        path = pod.store_path("rl")
        shutil.copytree(path / "_mem_wal", tmp_path / "before")
        pod.start()
        pod.merge("rl")
        assert pod.stop() == 0
        # The base table after the merge with the shard before it: what a crash between the two commits leaves.
        shutil.rmtree(path / "_mem_wal")
        shutil.copytree(tmp_path / "before", path / "_mem_wal")
        assert lance.dataset(str(path)).count_rows() == 6 and shards.pending(path) == 6
        pod.start()
        ids = [record["id"] for record in listed]
        assert pod.list("rl") == listed
        for other in (context063, context067):
            assert sorted(record["id"] for record in other.open(path).list()) == sorted(ids)
        assert oracle.scanned_ids(path) == sorted(ids)
        pod.merge("rl")
        assert lance.dataset(str(path)).count_rows() == 6, "the second merge finds its rows in the base table"
        assert shards.pending(path) == 0
        assert pod.list("rl") == listed


def test_files_of_a_merge_that_never_committed_are_no_rows(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for number in range(6):
            pod.add("rl", rollout.records([number]))
        listed = pod.list("rl")
        assert pod.stop() == 0
        path = pod.store_path("rl")
        shutil.copytree(path, tmp_path / "before")
        pod.start()
        pod.merge("rl")
        assert pod.stop() == 0
        shutil.rmtree(path / "_mem_wal"), shutil.rmtree(path / "_versions")
        shutil.copytree(tmp_path / "before/_mem_wal", path / "_mem_wal")
        shutil.copytree(tmp_path / "before/_versions", path / "_versions")
        pod.start()
        assert pod.list("rl") == listed and shards.pending(path) == 6
        pod.merge("rl")
        assert pod.list("rl") == listed and lance.dataset(str(path)).count_rows() == 6


def test_two_pods_merge_their_shards_into_one_table_and_every_row_is_there_once(tmp_path):
    extra = ["--rollout-merge-after-generations", "1"]
    with rollout.Instance(tmp_path / "a", tmp_path / "data", "rollout-0", extra) as a, \
            rollout.Instance(tmp_path / "b", tmp_path / "data", "rollout-1", extra) as b:
        a.create("rl")
        gate = threading.Barrier(2)

        def rounds(pod, prefix):
            with pod.client() as client:
                for number in range(50):
                    gate.wait()
                    client.add("rl", rollout.records([number], prefix))
        rollout.in_threads([lambda: rounds(a, "a"), lambda: rounds(b, "b")])
        for pod in (a, b):
            pod.merge("rl")
        expected = sorted(f"{prefix}{number}" for prefix in "ab" for number in range(50))
        assert a.ids("rl") == b.ids("rl") == expected
        assert shards.pending(a.store_path("rl")) == 0
        base = lance.dataset(str(a.store_path("rl"))).to_table(columns=["id"]).column("id").to_pylist()
        assert sorted(base) == expected


def test_compaction_changes_no_row_while_pods_add_and_merge(tmp_path, context063):
    extra = ["--rollout-merge-after-generations", "2"]
    with rollout.Instance(tmp_path / "a", tmp_path / "data", "rollout-0", extra + ["--schema-profile", "v031"]) as a, \
            rollout.Instance(tmp_path / "b", tmp_path / "data", "rollout-1", extra) as b:
        a.create("rl")
        for number in range(40):
            a.add("rl", rollout.records([number], "old"))
        stop, failures = threading.Event(), []

        def write(pod, prefix):
            with pod.client() as client:
                for number in range(60):
                    client.add("rl", rollout.records([number], prefix))

        def compact():
            with a.client() as client:
                while not stop.is_set():
                    answer = client.request("POST", "/api/v1/rollouts/rl/compact", json_body={})
                    if answer.status not in (200, 409):
                        failures.append(answer)
                    stop.wait(0.02)
        compactor = threading.Thread(target=compact)
        compactor.start()
        rollout.in_threads([lambda: write(a, "a"), lambda: write(b, "b")])
        stop.set()
        compactor.join()
        assert not failures, failures[0]
        expected = sorted([f"old{n}" for n in range(40)] + [f"{p}{n}" for p in "ab" for n in range(60)])
        assert a.ids("rl") == b.ids("rl") == expected
        before = len(lance.dataset(str(a.store_path("rl"))).get_fragments())
        done = a.compact("rl")
        assert set(done) == {"fragments_removed", "fragments_added", "files_removed", "files_added"}
        after = lance.dataset(str(a.store_path("rl")))
        assert len(after.get_fragments()) == before - done["fragments_removed"] + done["fragments_added"] <= 2
        assert "__lance_mem_wal" in str(after.describe_indices() if hasattr(after, "describe_indices") else after.list_indices())
        assert a.ids("rl") == b.ids("rl") == expected
        context063.open(a.store_path("rl")).add([{"id": "guest", "rollout_id": "t"}])
        assert a.ids("rl") == sorted(expected + ["guest"])


def test_filters_answer_the_same_bytes_before_and_after_merge_and_compaction(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        random.seed(29)
        for number in range(120):
            pod.add("rl", {"id": f"r{number}", "rollout_id": f"t{number // 4}", "policy_version": random.choice("123"),
                           **({"include_in_training": random.random() < 0.5} if number % 3 else {}),
                           "reward": random.random()})
        whole = pod.list("rl")
        filters = {"policy_version": "2", "include_in_training": True}
        path = "/api/v1/rollouts/rl/records?filters=" + rollout.urllib.parse.quote(json.dumps(filters))
        fresh = pod.call("GET", path, 200)
        assert fresh.json["records"] == [record for record in whole if record.get("policy_version") == "2"
                                         and record.get("include_in_training") is True] != []
        for change in (lambda: pod.merge("rl"), lambda: pod.compact("rl"), lambda: pod.restart()):
            change()
            assert pod.call("GET", path, 200).body == fresh.body
        some = {"policy_version": {"in": ["1", "3"]}}
        assert pod.list("rl", filters=some) == [record for record in whole if record["policy_version"] in "13"]
        middle = whole[60]["created_at"]
        assert pod.list("rl", filters={"created_at": {"gte": middle}}) == whole[60:]
        assert pod.list("rl", limit=7, offset=30) == whole[30:37]


def test_pages_of_a_cursor_are_exactly_its_snapshot_while_rows_arrive_and_merge(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for first in range(0, 10000, 500):
            pod.add("rl", rollout.records(range(first, first + 500)))
        snapshot, stop, merges = pod.list("rl"), threading.Event(), []
        assert len(snapshot) == 10000
        page = pod.page("rl", limit=333)
        pages = page["records"]

        def disturb():
            with pod.client() as client:
                number = 0
                while not stop.is_set(): # in front of all others and behind them
                    client.add("rl", [{"id": f"n{number}", "rollout_id": "r0",
                                       "created_at": f"{(2020, 2100)[number % 2]}-01-01T00:00:00Z"}])
                    number += 1
                    if number % 10 == 5:
                        merges.append(client.merge("rl")["reclaimed"])
        disturber = threading.Thread(target=disturb)
        disturber.start()
        while page.get("next_cursor"):
            while len(pages) > 5000 and not merges and disturber.is_alive(): # the second half follows a merge
                time.sleep(0.01)
            page = pod.page("rl", limit=333, cursor=page["next_cursor"])
            pages += page["records"]
            assert len(pages) <= 20000
        stop.set()
        disturber.join()
        assert pages == snapshot
        assert len(pod.list("rl")) > 10005 and merges, "rows came, and were merged, meanwhile"


def test_a_version_is_the_base_table_at_that_time_and_other_readers_see_everything(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        pod.add("rl", rollout.records(range(3)))
        pod.merge("rl")
        old = pod.version("rl")
        pod.add("rl", rollout.records(range(3, 6)))
        pod.merge("rl")
        pod.add("rl", rollout.records(range(6, 9)))
        assert pod.ids("rl", version=old) == ["r0", "r1", "r2"]
        assert pod.ids("rl", version=pod.version("rl")) == [f"r{n}" for n in range(6)]
        assert pod.get("rl", "r4", version=old) is None and pod.get("rl", "r4") is not None
        with pod.client() as other:
            assert other.call("POST", "/api/v1/rollouts/rl/checkout", 200, json_body={"version": old}).json == {"version": old}
            assert len(pod.ids("rl")) == len(other.ids("rl")) == 9
        missing = pod.request("POST", "/api/v1/rollouts/rl/checkout", json_body={"version": 10**6})
        assert (missing.status, missing.code) == (404, "NOT_FOUND")
        assert pod.request("GET", "/api/v1/rollouts/rl/records?version=1000000").status == 404


def test_a_generation_that_is_flushed_during_a_merge_stays_listed(tmp_path):
    (tmp_path / "s3").mkdir()
    server = rollout.s3_support.Server(tmp_path / "s3")
    proxy = rollout.s3_support.Proxy(server)
    held, go = threading.Event(), threading.Event()
    try:
        with rollout.Instance(tmp_path / "pod", f"s3://{rollout.s3_support.BUCKET}/d",
                              environment=rollout.s3_support.environment(proxy.url)) as pod:
            pod.create("rl")
            for number in range(3):
                pod.add("rl", rollout.records([number]))
            wait = pod.client()

            def hold(method, path): # the merge's commit of the base table waits, other requests go on
                if method == "PUT" and "/_mem_wal/" not in path and "/_versions/" in path and path.split("?")[0].endswith(".manifest"):
                    held.set()
                    proxy.lock.release()
                    try:
                        go.wait(20)
                    finally:
                        proxy.lock.acquire()
                return None
            proxy.rule = hold
            merge = threading.Thread(target=lambda: wait.merge("rl"))
            merge.start()
            assert held.wait(20), "the merge commits to the base table"
            pod.add("rl", rollout.records([3]))
            go.set()
            merge.join(30)
            shard = shards.one(tmp_path / "s3/data" / rollout.s3_support.BUCKET / "d/rl.rollout.lance", "rollout-0")
            assert [number for number, _ in shard.generations] == [4]
            assert pod.ids("rl") == ["r0", "r1", "r2", "r3"]
    finally:
        go.set()
        proxy.close()
        server.close()


def test_superseded_manifests_in_a_bucket_are_emptied_and_everybody_goes_on(tmp_path):
    (tmp_path / "s3").mkdir()
    server = rollout.s3_support.Server(tmp_path / "s3")
    place = dict(data_dir=f"s3://{rollout.s3_support.BUCKET}/d", environment=rollout.s3_support.environment(server.url),
                 extra=["--collect-grace-secs", "1"])
    try:
        with rollout.Instance(tmp_path / "a", **place) as pod, rollout.Instance(tmp_path / "b", identity="b", **place) as other:
            pod.create("rl")
            for number in range(12):
                pod.add("rl", rollout.records([number]))
            first = pod.page("rl", limit=5, order="id", cursor="")
            assert len(other.ids("rl")) == 12
            pod.merge("rl")
            path = tmp_path / "s3/data" / rollout.s3_support.BUCKET / "d/rl.rollout.lance"
            deadline = time.monotonic() + 30
            shard = shards.one(path, "rollout-0")
            while shard.emptied() != shard.versions[:-1]:
                assert time.monotonic() < deadline, shard.emptied()
                time.sleep(0.1)
                shard = shards.one(path, "rollout-0")
            pod.add("rl", rollout.records([12]))
            assert len(pod.ids("rl")) == len(other.ids("rl")) == 13
            rest = other.page("rl", limit=50, order="id", cursor=first["next_cursor"])
            assert len(first["records"]) + len(rest["records"]) == 12, "the cursor's manifest is empty, its snapshot is not"
            pod.restart()
            pod.add("rl", rollout.records([13]))
            assert len(other.ids("rl")) == 14
            shards.check_chain(shards.one(path, "rollout-0"))
    finally:
        server.close()
