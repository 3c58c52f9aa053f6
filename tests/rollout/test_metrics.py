"""test_metrics.py - every metric that the operations page names is there, and moves as what it counts does."""
import re
import threading
import time

import pytest

import rollout

PAGE = (rollout.ROOT / "docs/OPERATIONS.md").read_text()
NAMED = ["http_requests_total", "http_request_duration_seconds_count", "http_request_body_timeouts_total", "rollout_appends_total",
         "rollout_records_appended_total", "rollout_blob_bytes", "rollout_blob_budget_rejections_total",
         "rollout_wal_pending_generations", "rollout_wal_cleanup_total", "rollout_wal_generations_reclaimed_total",
         "rollout_flushes_total", "rollout_flush_adds_total", "rollout_flush_stage_seconds_total",
         "rollout_storage_operations_total", "rollout_fenced_total", "rollout_cache_lookups_total", "rollout_queue_depth"]


def metrics(instance):
    """name{labels} -> value"""
    text = instance.call("GET", "/metrics", 200).body.decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}


class Moves:
    """How much each metric moved while the block ran."""

    def __init__(self, instance):
        self.instance = instance

    def __enter__(self):
        self.before = metrics(self.instance)
        return self

    def __exit__(self, *_):
        after = metrics(self.instance)
        self.by = {name: value - self.before.get(name, 0) for name, value in after.items()}

    def __getitem__(self, name):
        return self.by.get(name, 0)

    def storage(self, kind, result="ok"):
        return self[f'rollout_storage_operations_total{{kind="{kind}",result="{result}"}}']


def files(instance, store="rl"):
    return {str(path) for path in instance.store_path(store).rglob("*") if path.is_file()}


def test_what_the_page_names_is_there_with_a_type_and_a_help(instance):
    text = instance.call("GET", "/metrics", 200).body.decode()
    instance.create("named")
    instance.add("named", rollout.records([1]))
    present = {re.split(r"[{ ]", line)[0] for line in instance.call("GET", "/metrics").body.decode().splitlines()
               if not line.startswith("#")}
    assert not [name for name in NAMED if name not in present]
    on_page = set(re.findall(r"`((?:http|rollout)_[a-z_]+)", PAGE))
    missing = [name for name in on_page if not any(known == name or known.startswith(name + "_") for known in present)]
    assert not missing, missing
    for name in present:
        family = re.sub(r"_(bucket|sum|count)$", "", name) if "duration" in name else name
        assert f"# TYPE {family} " in instance.call("GET", "/metrics").body.decode(), name
    assert text.count("# TYPE") == len(set(re.findall(r"# TYPE (\w+)", text))), "each once"


def test_adds_reads_and_merges_are_counted(tmp_path):
    with rollout.Instance(tmp_path) as instance:
        instance.create("rl")
        instance.add("rl", rollout.records([0]))
        before = files(instance)
        with Moves(instance) as moves:
            for number in range(1, 6):
                instance.add("rl", rollout.records([number, number + 100]))
        assert moves["rollout_appends_total"] == 5 and moves["rollout_records_appended_total"] == 10
        assert moves["rollout_flushes_total"] == 5 and moves["rollout_flush_adds_total"] == 5
        assert moves["rollout_wal_pending_generations"] == 5
        assert moves['http_requests_total{route="records",status="2xx"}'] == 5
        assert moves['http_request_duration_seconds_count{route="records"}'] == 5
        assert moves["http_request_duration_seconds_sum{route=\"records\"}"] > 0
        assert all(moves[f'rollout_flush_stage_seconds_total{{stage="{stage}"}}'] > 0 for stage in ("read", "store", "answer"))
        made = files(instance) - before
        assert len(made) <= moves.storage("write") <= len(made) + 5, "a shard's hint is written over"
        assert moves.storage("write", "error") == 0
        with Moves(instance) as moves:
            assert len(instance.list("rl")) == 11
        assert moves['rollout_cache_lookups_total{cache="generations",result="hit"}'] == 6
        assert moves['rollout_cache_lookups_total{cache="generations",result="miss"}'] == 0
        with Moves(instance) as moves:
            instance.merge("rl")
        assert moves['rollout_wal_cleanup_total{result="success"}'] == 1
        assert moves["rollout_wal_generations_reclaimed_total"] == 6 and moves["rollout_merged_records_total"] == 11
        assert moves["rollout_wal_pending_generations"] == -6
        instance.add("rl", rollout.records([50]))
        instance.restart()
        with Moves(instance) as moves:
            instance.list("rl")
        assert moves['rollout_cache_lookups_total{cache="generations",result="miss"}'] == 1, "a fresh process reads it"
        with Moves(instance) as moves:
            assert instance.request("DELETE", "/api/v1/rollouts/rl").status == 204
        assert not [name for name, by in moves.by.items() if by < 0 and "_total" in name], "no counter ever goes back"


def test_a_group_of_adds_is_one_flush_and_the_queue_is_seen(tmp_path):
    with rollout.Instance(tmp_path, extra=["--group-commit-us", "300000"]) as instance:
        instance.create("rl")
        instance.add("rl", rollout.records([0]))
        with Moves(instance) as moves:
            threads = [threading.Thread(target=lambda n=n: instance.client().add("rl", rollout.records([n]))) for n in range(1, 25)]
            for thread in threads:
                thread.start()
            time.sleep(0.15)
            depth = instance.metric("rollout_queue_depth")
            waiting = instance.metric("rollout_blob_bytes")
            for thread in threads:
                thread.join()
        assert depth >= 12 and waiting > 12 * 20
        assert moves["rollout_flush_adds_total"] == 24 and moves["rollout_flushes_total"] <= 8
        assert instance.metric("rollout_queue_depth") == 0 and instance.metric("rollout_blob_bytes") == 0


def test_writes_on_object_storage_are_those_that_it_saw(tmp_path):
    server = rollout.s3_support.Server(tmp_path / "s3")
    proxy = rollout.s3_support.Proxy(server)
    environment = rollout.s3_support.environment(proxy.url)
    try:
        with rollout.Instance(tmp_path / "pod", f"s3://{rollout.s3_support.BUCKET}/d", environment=environment) as instance:
            instance.create("rl")
            instance.add("rl", rollout.records([0]))
            time.sleep(0.5)
            proxy.clear()
            with Moves(instance) as moves:
                for number in range(1, 6):
                    instance.add("rl", rollout.records([number]))
                time.sleep(0.5) # hints are written behind the answers
            puts = [entry for entry in proxy.log if entry[0] == "PUT"]
            assert moves.storage("write") == len(puts) >= 5 * 3
            assert moves.storage("write", "error") == 0
    finally:
        proxy.close()
        server.close()
