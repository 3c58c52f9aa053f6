"""test_failures.py - crashes, ends under load, damage, storage that fails: what survives, and what is said. LK_SERIAL"""
import http.client
import random
import threading
import time

import pytest

import rollout
import shards


def test_acknowledged_rows_survive_kill_9_at_random_moments(tmp_path):
    random.seed(23)
    with rollout.Instance(tmp_path / "pod", extra=["--rollout-merge-after-generations", "3"]) as pod:
        pod.create("rl")
        acknowledged, attempted, stop = set(), set(), threading.Event()

        def write(worker):
            number = 0
            client = pod.client(timeout=10)
            while not stop.is_set():
                rows = rollout.records(range(number, number + 2), f"w{worker}-")
                number += 2
                attempted.update(row["id"] for row in rows)
                try:
                    if client.try_add("rl", rows).status == 201:
                        acknowledged.update(row["id"] for row in rows)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.01)
        threads = [threading.Thread(target=write, args=(worker,), daemon=True) for worker in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(rollout.count(15, 150)):
            time.sleep(random.uniform(0.01, 0.3))
            known = set(acknowledged)
            pod.restart()
            ids = pod.ids("rl")
            assert known <= set(ids) <= attempted and len(ids) == len(set(ids))
        stop.set()
        for thread in threads:
            thread.join(20)
        pod.restart()
        ids = pod.ids("rl")
        assert acknowledged <= set(ids) <= attempted and len(ids) == len(set(ids)) and acknowledged
        pod.merge("rl")
        assert pod.ids("rl") == ids
        shards.check_chain(shards.one(pod.store_path("rl"), "rollout-0"))
        assert rollout.command("fsck", "--data-dir", pod.data_dir).returncode == 0


def test_a_takeover_of_many_log_entries_is_as_quick_as_a_flush_and_survives_kills(tmp_path):
    """Rows that are in the log alone, an entry each; processes that die while they bring them back."""
    random.seed(29)
    extra = ["--visibility", "deferred", "--rollout-flush-interval-secs", "20"] # it looks once a second
    with rollout.Instance(tmp_path / "pod", extra=extra) as pod:
        pod.create("rl")
        pod.ids("rl")
        time.sleep(1.5) # the first look shows what there is at once
        pod.add("rl", {"id": "claims", "rollout_id": "t"})
        names = [f"r{number:05}" for number in range(rollout.count(80, 2000))]
        for name in names:
            pod.add("rl", {"id": name, "rollout_id": "t"})
        path, kills = pod.store_path("rl"), rollout.count(4, 30)
        entries = len(shards.one(path, "rollout-0").log())
        assert entries >= len(names) and len(pod.ids("rl")) <= 1
        for _ in range(kills):
            pod.restart()
            pod.ids("rl") # opens the store, whose log is replayed a second later
            time.sleep(random.uniform(0.95, 1.1))
            pod.kill()
        pod.start()
        end = time.monotonic() + 30
        while pod.ids("rl") != sorted(["claims", *names]):
            assert time.monotonic() < end, "acknowledged rows are still unseen"
            time.sleep(0.05)
        shard = shards.one(path, "rollout-0")
        assert len(shard.generations) <= 2 + entries // 1024 + kills and shard.replay_after >= entries
        shards.check_chain(shard)
        assert rollout.command("fsck", "--data-dir", pod.data_dir).returncode == 0


def test_sigterm_under_load_loses_no_acknowledged_row_and_exits_0(tmp_path):
    with rollout.Instance(tmp_path / "pod", extra=["--rollout-merge-after-generations", "5"]) as pod:
        pod.create("rl")
        acknowledged, refused = set(), []

        def write(worker):
            with pod.client(timeout=30) as client:
                for number in range(10_000):
                    try:
                        answer = client.try_add("rl", rollout.records([number], f"w{worker}-"))
                    except (OSError, http.client.HTTPException):
                        return
                    if answer.status != 201:
                        refused.append(answer)
                        return
                    acknowledged.add(f"w{worker}-{number}")
        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        start = time.monotonic()
        assert pod.stop() == 0 and time.monotonic() - start <= 25
        for thread in threads:
            thread.join()
        assert all(answer.status == 503 and answer.headers.get("connection") == "close" for answer in refused)
        pod.start()
        assert acknowledged <= set(pod.ids("rl")) and len(acknowledged) > 16


def damage(path, way):
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2] if way == "cut" else
                     content[:len(content) // 3] + bytes([content[len(content) // 3] ^ 255]) + content[len(content) // 3 + 1:])


@pytest.mark.parametrize("way", ["cut", "gone"])
def test_a_damaged_generation_is_named_and_nothing_else_suffers(tmp_path, way):
    with rollout.Instance(tmp_path / "pod") as pod:
        for store in ("hurt", "fine"):
            pod.create(store)
            for number in range(3):
                pod.add(store, rollout.records([number]))
        path = pod.store_path("hurt")
        file = next((shards.one(path, "rollout-0").paths()[1] / "data").iterdir())
        assert rollout.command("fsck", "--data-dir", pod.data_dir).returncode == 0
        assert pod.stop() == 0
        file.unlink() if way == "gone" else damage(file, way)
        pod.start()
        answer = pod.request("GET", "/api/v1/rollouts/hurt/records")
        if way == "cut":
            message = answer.json["error"]["message"]
            assert answer.status == 500 and (file.name in message or file.parent.parent.name in message), answer
        else: # it may have been merged and collected just now: to be asked again
            assert (answer.status, answer.code) == (503, "STORAGE_UNAVAILABLE") and answer.headers["retry-after"], answer
        assert len(pod.list("fine")) == 3
        checked = rollout.command("fsck", "--data-dir", pod.data_dir)
        assert checked.returncode != 0 and file.parent.parent.name in checked.stdout + checked.stderr
        assert pod.try_add("fine", rollout.records([9])).status == 201


def test_a_flipped_byte_drops_no_row_in_silence(tmp_path):
    far_apart = lambda number: [{"id": chr(97 + number) * 6, "rollout_id": "t", "reward": number / 4}] # no id is a flip of another
    random.seed(31)
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for number in range(4):
            pod.add("rl", far_apart(number))
            if number == 1:
                pod.merge("rl")
        path = pod.store_path("rl")
        generation = shards.one(path, "rollout-0").paths()[0]
        base = min((path / "_versions").glob("*.manifest")) # names count down
        files = [base, *(path / "data").iterdir(), *(file for file in generation.rglob("*") if file.is_file())]
        said = 0
        for _ in range(rollout.count(60, 600)):
            file = random.choice(files)
            content = file.read_bytes()
            at = random.randrange(len(content))
            file.write_bytes(content[:at] + bytes([content[at] ^ random.randrange(1, 256)]) + content[at + 1:])
            pod.restart()
            answer = pod.request("GET", "/api/v1/rollouts/rl/records")
            if answer.status == 200: # what no sum protects is read as it is; it is as many rows
                assert len(answer.json["records"]) == 4, f"byte {at} of {file}"
            else:
                message = answer.json["error"]["message"]
                assert answer.status in (500, 503), f"byte {at} of {file}: {answer}"
                assert any(name in message for name in (file.name, generation.name, "data/", "this is no rollout store")), \
                    f"byte {at} of {file}: {message}"
                said += 1
            file.write_bytes(content)
        pod.restart()
        assert len(pod.list("rl")) == 4 and said > 0


def test_a_file_of_the_table_that_is_missing_is_named(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        pod.add("rl", rollout.records([1]))
        pod.merge("rl")
        version = pod.version("rl")
        pod.add("rl", rollout.records([2]))
        assert pod.stop() == 0
        file = next((pod.store_path("rl") / "data").iterdir())
        file.unlink()
        pod.start()
        for path in ("", "?order=none", "?columns=id", "/r1", "/r1/blob"): # a compaction may have removed it: ask again
            answer = pod.request("GET", "/api/v1/rollouts/rl/records" + path)
            assert (answer.status, answer.code) == (503, "STORAGE_UNAVAILABLE") and answer.headers["retry-after"], answer
            assert file.name in answer.json["error"]["message"]
        pinned = pod.request("GET", f"/api/v1/rollouts/rl/records?version={version}") # and this one never comes back
        assert (pinned.status, pinned.code) == (410, "GONE") and file.name in pinned.json["error"]["message"]
        refused = pod.try_add("rl", rollout.records([1])) # whether it is equal cannot be said
        assert refused.status == 503 and file.name in refused.json["error"]["message"]
        assert pod.get("rl", "r2")["id"] == "r2", "what does not need it is read"


def test_a_damaged_newest_shard_manifest_is_no_empty_shard(tmp_path):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for number in range(3):
            pod.add("rl", rollout.records([number]))
        shard = shards.one(pod.store_path("rl"), "rollout-0")
        assert pod.stop() == 0
        damage(shard.path(shard.version), "cut")
        pod.start()
        answer = pod.request("GET", "/api/v1/rollouts/rl/records")
        assert answer.status == 500 and ".binpb" in answer.json["error"]["message"], answer


@pytest.mark.parametrize("hint", [None, b"", b"{}", b'{"version":1}', b'{"version":4000}', b"no json"])
def test_hints_are_only_hints(tmp_path, hint):
    with rollout.Instance(tmp_path / "pod") as pod:
        pod.create("rl")
        for number in range(5):
            pod.add("rl", rollout.records([number]))
        pod.merge("rl")
        pod.add("rl", rollout.records([5]))
        assert pod.stop() == 0
        path = pod.store_path("rl")
        for hinted in (path / "_versions/latest_version_hint.json",
                       path / "_mem_wal" / shards.of_instance("rollout-0") / "manifest/version_hint.json"):
            hinted.unlink(missing_ok=True) if hint is None else hinted.write_bytes(hint)
        pod.start()
        assert len(pod.list("rl")) == 6
        pod.add("rl", rollout.records([6]))
        assert len(pod.list("rl")) == 7


def test_storage_that_fails_is_a_503_and_never_an_acknowledgement(tmp_path):
    (tmp_path / "s3").mkdir()
    server = rollout.s3_support.Server(tmp_path / "s3")
    proxy = rollout.s3_support.Proxy(server)
    environment = rollout.s3_support.environment(proxy.url, LAKE_S3_TIMEOUT_MS="2000")
    try:
        with rollout.Instance(tmp_path / "pod", f"s3://{rollout.s3_support.BUCKET}/d", environment=environment) as pod:
            pod.create("rl")
            pod.add("rl", rollout.records([0]))
            for number, fault in enumerate([("fail", 503, "SlowDown"), ("fail", 500, "InternalError"), ("lose",)], 1):
                proxy.rule = lambda method, path: fault if method == "PUT" else None
                answer = pod.try_add("rl", rollout.records([number]))
                assert (answer.status, answer.code) == (503, "STORAGE_UNAVAILABLE") and answer.headers["retry-after"]
                proxy.rule = lambda method, path: None
                assert pod.ids("rl") == ["r0"]
            random.seed(5)
            proxy.rule = lambda method, path: random.choice(
                [None] * 8 + [("fail", 503, "SlowDown"), ("lose",), ("deaf",)])
            kept = {"r0"}
            for number in range(10, 40): # every tenth request is lost, refused, or obeyed and not answered
                if pod.try_add("rl", rollout.records([number])).status == 201:
                    kept.add(f"r{number}")
            proxy.rule = lambda method, path: None
            ids = set(pod.ids("rl"))
            assert kept <= ids <= {f"r{number}" for number in (0, *range(10, 40))} and len(kept) > 15
            objects = tmp_path / "s3/data" / rollout.s3_support.BUCKET / "d"
            shards.check_chain(shards.one(objects / "rl.rollout.lance", "rollout-0"))
            assert pod.request("DELETE", "/api/v1/rollouts/rl").status == 204
            assert not [path for path in objects.rglob("*") if path.is_file()], "a removal leaves no object"
    finally:
        proxy.close()
        server.close()


@pytest.mark.parametrize("call", ["mkdir", "fdatasync", "renameat2"])
def test_a_full_disk_is_a_503_and_reads_go_on(tmp_path, call):
    with rollout.Instance(tmp_path / "pod", tmp_path / "data") as pod:
        for store in ("rl", "old"):
            pod.create(store)
            for number in range(3):
                pod.add(store, rollout.records([number]))
    full = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error=ENOSPC"]
    with rollout.Instance(tmp_path / "full", tmp_path / "data", prefix=full) as pod:
        for answer in (pod.try_add("rl", rollout.records([3])), pod.request("POST", "/api/v1/rollouts/rl/merge"),
                       pod.request("POST", "/api/v1/rollouts", json_body={"name": "more"})):
            assert (answer.status, answer.code) == (503, "STORAGE_UNAVAILABLE") and answer.headers["retry-after"], answer
            assert "full" in answer.json["error"]["message"]
        assert pod.ids("rl") == ["r0", "r1", "r2"] and pod.get("rl", "r1")["id"] == "r1"
        assert pod.request("DELETE", "/api/v1/rollouts/old").status == 204, "what makes room needs none"
        assert not pod.store_path("old").exists()
    assert not list((tmp_path / "data").rglob("*.tmp*")), "what could not be written is removed"
    with rollout.Instance(tmp_path / "pod", tmp_path / "data") as pod:
        pod.add("rl", rollout.records([3]))
        pod.merge("rl")
        assert pod.ids("rl") == ["r0", "r1", "r2", "r3"]
        pod.create("more")


def test_many_generations_are_told_of_once_and_refused_where_a_bound_was_set(tmp_path):
    bounds = ["--rollout-wal-pending-warn-generations", "3", "--rollout-wal-pending-max-generations", "5"]
    with rollout.Instance(tmp_path / "pod", extra=bounds) as pod:
        pod.create("rl")
        for number in range(5):
            pod.add("rl", rollout.records([number]))
            pod.list("rl")
        told = lambda: [line for line in pod.tail(20000).splitlines() if "many unmerged generations" in line]
        assert len(told()) == 1 and "merged" in told()[0] and shards.of_instance("rollout-0") in told()[0]
        pod.add("rl", rollout.records([5]))
        refused = pod.request("GET", "/api/v1/rollouts/rl/records")
        assert (refused.status, refused.code) == (503, "STORAGE_UNAVAILABLE") and "merge it" in refused.json["error"]["message"]
        pod.merge("rl")
        assert len(pod.list("rl")) == 6
        for number in range(6, 9):
            pod.add("rl", rollout.records([number]))
            pod.list("rl")
        assert len(told()) == 2


def test_a_clock_that_steps_back_changes_no_order_of_copies(tmp_path):
    with rollout.Instance(tmp_path / "pod", extra=["--on-conflict", "accept"]) as pod:
        pod.create("rl")
        pod.add("rl", {"id": "x", "rollout_id": "t", "created_at": "2030-01-01T00:00:00Z", "reward": 1.0})
        pod.add("rl", {"id": "x", "rollout_id": "t", "created_at": "2020-01-01T00:00:00Z", "reward": 2.0})
        assert pod.get("rl", "x")["reward"] == 2.0
        pod.merge("rl")
        assert pod.get("rl", "x")["reward"] == 2.0 and len(pod.list("rl")) == 1
