"""test_references.py - the published lance-context 0.6.3 and 0.6.7, and pylance's LSM scanner, on stores of ours and theirs;
their clients against our server."""
import datetime
import itertools
import time

import lance
import pytest

import oracle
import rollout
import shards

numbers = itertools.count()
NEWER = ("model_input_string", "model_output_string", "rationale", "problem_text", "user_metadata")


def url(instance):
    return f"http://{instance.address}"


def order(records):
    return sorted(records, key=lambda record: record["id"])


def same(ours, theirs):
    """Their embedded lists have no order; ours is compared by id. Members that 0.6.3 does not know are left out."""
    return order([{key: value for key, value in record.items() if key not in NEWER} for record in ours]) == \
        order([{key: value for key, value in record.items() if key not in NEWER} for record in theirs])


def same_fields(ours, theirs):
    """Names, types and order; 0.6.7 says beside each row that it was not deleted."""
    return [(field.name, field.type) for field in ours] == \
        [(field.name, field.type) for field in theirs if field.name != "_tombstone"]


@pytest.fixture
def older(tmp_path):
    """An instance whose stores have the 31 columns that 0.6.3 writes."""
    with rollout.Instance(tmp_path / "older", tmp_path / "data", extra=["--schema-profile", "v031"]) as running:
        yield running


def fill(instance, store):
    full = [rollout.everything(number) for number in range(3)]
    assert instance.put_blobs(store, full, [(str(number), b"blob%d" % number) for number in range(3)]).status == 201
    instance.add(store, rollout.records(range(50), reward=0.1, output_tokens=[1, 2], output_logprobs=[-0.1, -0.25]))
    instance.add(store, rollout.records(range(50, 60), content="x", policy_version="v1"))


def test_a_store_of_ours_reads_the_same_in_the_published_one(instance, store, reference):
    fill(instance, store)
    path = instance.store_path(store)
    theirs = reference.open(path)
    for merged in (False, True):
        assert same(instance.list(store), theirs.list())
        for identity in ("all-0", "r7", "r55"):
            assert same([instance.get(store, identity)], [theirs.get(identity)])
        assert theirs.get("nope") is None
        assert theirs.get_blob("all-2") == instance.blob(store, "all-2").body == b"blob2"
        if not merged:
            instance.merge(store)
            theirs = reference.open(path)


def test_pylance_opens_every_generation_and_its_scanner_finds_the_same_ids(instance, store):
    fill(instance, store)
    path = instance.store_path(store)
    shard = shards.one(path, "rollout-0")
    assert len(shard.generations) == 3
    found = []
    for directory in shard.paths():
        found += lance.dataset(str(directory)).to_table(columns=["id"]).column("id").to_pylist()
    assert sorted(found) == instance.ids(store)
    assert oracle.scanned_ids(path) == instance.ids(store)
    table = oracle.scanner(path).project(["id", "reward"]).filter("reward > 0").to_table()
    assert sorted(table.column("id").to_pylist()) == sorted(r["id"] for r in instance.list(store) if r.get("reward", 0) > 0)
    instance.merge(store)
    instance.add(store, rollout.records([900]))
    assert oracle.scanned_ids(path) == instance.ids(store)


def test_each_lists_and_extends_a_store_that_the_published_one_wrote(instance, reference):
    name = f"guest{next(numbers)}"
    path = instance.store_path(name)
    theirs = reference.open(path)
    theirs.add([{"id": f"t{n}", "rollout_id": "t", "reward": 0.1 * n, "metadata": {"n": n}} for n in range(20)])
    theirs.add([{"id": "blob", "rollout_id": "t", "binary_payload": b"\0\1"}])
    if reference.version == "0.6.7":
        theirs.flush()
    columns = len(lance.dataset(str(path)).schema)
    assert columns == (31 if reference.version == "0.6.3" else 36)
    assert same(instance.list(name), theirs.list()) and len(instance.list(name)) == 21
    assert instance.blob(name, "blob").body == b"\0\1"
    more = [{"id": f"o{n}", "rollout_id": "t", "reward": 0.25} for n in range(10)]
    instance.add(name, more)
    assert same(instance.list(name), reference.open(path).list())
    assert len(lance.dataset(str(path)).schema) == columns
    # Their shard is `default`; ours may not touch it, merged or not.
    instance.merge(name)
    assert same(instance.list(name), reference.open(path).list()) and len(instance.list(name)) == 31
    reader = reference.open(path)
    reader.add([{"id": "later", "rollout_id": "t"}])
    if reference.version == "0.6.7":
        reader.flush()
    assert instance.get(name, "later")["rollout_id"] == "t"


def test_columns_that_appear_under_a_running_server_are_null_in_what_it_adds(older, context063, context067):
    path = older.store_path("aging")
    theirs = context063.open(path)
    theirs.add([{"id": "a", "rollout_id": "t"}])
    older.add("aging", {"id": "b", "rollout_id": "t"})
    assert len(lance.dataset(str(path)).schema) == 31
    newer = context067.open(path)
    assert len(lance.dataset(str(path)).schema) == 36, "0.6.7 adds its columns when it opens"
    older.add("aging", {"id": "c", "rollout_id": "t"})
    older.merge("aging")
    older.add("aging", {"id": "d", "rollout_id": "t"})
    expected = ["a", "b", "c", "d"]
    assert older.ids("aging") == expected
    assert sorted(record["id"] for record in context067.open(path).list()) == expected
    assert all("rationale" not in record for record in context067.open(path).list())
    newer.add([{"id": "e", "rollout_id": "t", "rationale": "why"}])
    newer.flush()
    assert older.get("aging", "e")["rationale"] == "why"


@pytest.mark.parametrize("log", ["always", "auto"])
def test_the_shard_passes_from_us_to_the_published_store_and_back(tmp_path, reference, log):
    extra = ["--schema-profile", "v031" if reference.version == "0.6.3" else "v036", "--wal", log]
    with rollout.Instance(tmp_path / "pod", identity="default", extra=extra) as pod:
        pod.create("rl")
        for number in range(3):
            pod.add("rl", rollout.records([number]))
        path = pod.store_path("rl")
        ours = shards.one(path, "default")
        theirs = reference.open(path)
        theirs.add([{"id": "x", "rollout_id": "t"}])
        if reference.version == "0.6.7":
            theirs.flush()
        now = shards.one(path, "default")
        assert now.epoch > ours.epoch and now.current_generation == ours.current_generation + 1
        assert [number for number, _ in now.generations] == [1, 2, 3, 4], "they replayed what our generations have"
        entries = now.log()
        logged = [(epoch, table.column("id").to_pylist()) for epoch, table in entries.values() if len(table)]
        own = [(ours.epoch, [f"r{number}"]) for number in range(3)] if log == "always" else []
        assert ours.replay_after == len(own) and logged == [*own, (now.epoch, ["x"])]
        fences = 0 if reference.version == "0.6.3" else 1 # an entry before the first of its own
        assert len(entries) == len(own) + fences + 1
        assert now.replay_after in {len(entries), len(entries) - fences}, "0.6.7 says one less now and then"
        if log == "always":
            assert list(entries[1][1].schema.metadata) == [b"writer_epoch"]
            assert same_fields(entries[1][1].schema, entries[len(entries)][1].schema)
        fenced = pod.try_add("rl", rollout.records([10]))
        assert (fenced.status, fenced.code) == (409, "SHARD_FENCED")
        assert pod.get("rl", "r10") is None
        pod.restart()
        pod.add("rl", rollout.records([11]))
        last = shards.one(path, "default")
        assert last.epoch > now.epoch and last.current_generation == now.current_generation + 1
        assert pod.ids("rl") == sorted(["r0", "r1", "r2", "x", "r11"])
        added = [table.column("id").to_pylist() for position, (_, table) in last.log().items() if position > len(entries)]
        assert added == ([["r11"]] if log == "always" else [])
        assert last.replay_after == len(entries) + 1 if log == "always" else last.replay_after in {len(entries), now.replay_after}
        assert sorted(record["id"] for record in reference.open(path).list()) == pod.ids("rl")


def collected(pod, path, identity):
    """Merges and waits until all manifests but the newest are empty: kept by name, as docs/decisions/0010 has it."""
    pod.merge("rl")
    deadline = time.monotonic() + 30
    while True:
        shard = shards.one(path, identity)
        if shard.emptied() == shard.versions[:-1]:
            return shard
        assert time.monotonic() < deadline, shard.emptied()
        time.sleep(0.1)


def test_the_published_stores_read_and_write_a_shard_whose_manifests_were_emptied(tmp_path, reference):
    profile = "v031" if reference.version == "0.6.3" else "v036"
    extra = ["--schema-profile", profile, "--collect-grace-secs", "1"]
    with rollout.Instance(tmp_path / "pod", identity="default", extra=extra) as pod:
        pod.create("rl")
        for number in range(40):
            pod.add("rl", rollout.records([number]))
        path = pod.store_path("rl")
        ours = collected(pod, path, "default")
        assert len(ours.versions) > 40 and ours.path(ours.version).stat().st_size < 100
        pod.add("rl", rollout.records(range(40, 45)))
        assert sorted(record["id"] for record in reference.open(path).list()) == pod.ids("rl")
        (path / "_mem_wal" / ours.uuid / "manifest/version_hint.json").unlink()
        assert sorted(record["id"] for record in reference.open(path).list()) == pod.ids("rl"), "no hint: it counts from 1"
        theirs = reference.open(path)
        theirs.add([{"id": "x", "rollout_id": "t"}])
        if reference.version == "0.6.7":
            theirs.flush()
        now = shards.one(path, "default")
        assert now.version > ours.version + 1 and now.epoch > ours.epoch
        assert now.current_generation == ours.current_generation + 2
        assert pod.get("rl", "x")["rollout_id"] == "t"
        assert pod.try_add("rl", rollout.records([100])).code == "SHARD_FENCED"
        pod.restart()
        pod.add("rl", rollout.records([101]))
        shards.check_chain(shards.one(path, "default"))
        assert sorted(record["id"] for record in reference.open(path).list()) == pod.ids("rl")
        assert len(pod.ids("rl")) == 47


def test_pylance_scans_and_writes_a_store_whose_manifests_were_emptied(tmp_path):
    with rollout.Instance(tmp_path / "pod", extra=["--collect-grace-secs", "1"]) as pod:
        pod.create("rl")
        for number in range(20):
            pod.add("rl", rollout.records([number]))
        path = pod.store_path("rl")
        collected(pod, path, "rollout-0")
        for number in range(20, 23):
            pod.add("rl", rollout.records([number]))
        assert oracle.scanned_ids(path) == pod.ids("rl") and len(pod.ids("rl")) == 23


def test_a_claim_replays_only_log_entries_that_no_generation_has(tmp_path):
    with rollout.Instance(tmp_path / "pod", extra=["--wal", "always"]) as pod:
        pod.create("rl")
        for number in range(4):
            pod.add("rl", rollout.records([number]))
        before = shards.one(pod.store_path("rl"), "rollout-0")
        assert before.replay_after == 4 == len(before.log())
        pod.kill()
        # A writer that acknowledges what is logged died before the manifest that lists its rows.
        before.path(before.version).unlink()
        (before.directory / "manifest/version_hint.json").unlink()
        pod.restart()
        pod.add("rl", rollout.records([9]))
        after = shards.one(pod.store_path("rl"), "rollout-0")
        rows = [lance.dataset(str(path)).to_table(columns=["id"]).column("id").to_pylist() for path in after.paths()]
        assert rows == [["r0"], ["r1"], ["r2"], ["r3"], ["r9"]]
        assert after.replay_after == 5 and after.log()[5][0] == after.epoch > before.epoch


def test_the_first_claim_of_a_shard_has_the_published_bytes(tmp_path, context063):
    with rollout.Instance(tmp_path / "pod", identity="default") as pod:
        pod.create("rl")
        pod.add("rl", rollout.records([1]))
        shard = shards.one(pod.store_path("rl"), "default")
        golden = bytes.fromhex("0801100130015a120a10" + shard.uuid.replace("-", ""))
        assert shard.path(1).read_bytes() == golden
        assert shard.path(1).name == "1" + "0" * 63 + ".binpb"
    theirs = context063.open(tmp_path / "theirs.rollout.lance")
    theirs.add([{"id": "a", "rollout_id": "t"}])
    assert shards.one(tmp_path / "theirs.rollout.lance", "default").path(1).read_bytes() == golden


def test_the_published_client_runs_unmodified_against_our_server(instance, reference):
    name = f"client{next(numbers)}"
    with pytest.raises(oracle.OracleError, match="NOT_FOUND"):
        reference.connect(url(instance), name)
    store = reference.connect(url(instance), name, create=True)
    odd = "a/b c'\";--é"
    added = store.add([{"id": odd, "rollout_id": "t", "binary_payload": b"\xff\0raw"}, {"id": "plain", "rollout_id": "t"}])
    assert added["count"] == 2 and added["ids"] == [odd, "plain"]
    assert store.get(odd)["id"] == odd and store.get_blob(odd) == b"\xff\0raw"
    assert store.get("missing") is None and store.get_blob("missing") is None
    assert sorted(record["id"] for record in store.list()) == sorted([odd, "plain"])
    assert len(store.list(limit=1)) == 1 and len(store.list(limit=5, offset=1)) == 1
    full = rollout.everything(7)
    del full["payload_size"]
    store.add(full)
    got = store.get(full["id"])
    assert datetime.datetime.fromisoformat(got["created_at"]) == datetime.datetime.fromisoformat(full["created_at"])
    assert same([{**got, "created_at": ""}], [{**full, "created_at": ""}])
    assert store.version() >= 1
    store.checkout(instance.version(name))
    reference.connect(url(instance), name).add({"rollout_id": "no id"})
    assert len(instance.list(name)) == 4
    with pytest.raises(oracle.OracleError):
        store.add([{"id": odd, "rollout_id": "another"}])


def test_the_published_learner_gets_the_rows_that_it_filters_for(instance, context067):
    name = f"learner{next(numbers)}"
    instance.create(name)
    instance.add(name, [{"id": f"r{n}", "rollout_id": f"t{n % 3}", "sequence_order": n, "policy_version": f"v{n % 2}",
                         "include_in_training": n % 4 == 0} for n in range(40)])
    filters = {"policy_version": "v0", "include_in_training": True}
    rows = context067.ask("snippet", url(instance), name, filters)
    assert sorted(row["sequence_order"] for row in rows) == list(range(0, 40, 4))
    store = context067.connect_async(url(instance), name)
    assert [row["sequence_order"] for row in store.get_trajectory("t1")] == [n for n in range(40) if n % 3 == 1]


def test_unequal_copies_of_an_id_are_resolved_as_in_the_published_lists(tmp_path, context063, context067):
    accept = ["--on-conflict", "accept"]
    with rollout.Instance(tmp_path / "a", tmp_path / "data", "rollout-0", accept) as a, \
            rollout.Instance(tmp_path / "b", tmp_path / "data", "rollout-1", accept) as b:
        a.create("rl")
        for value, pod in enumerate((a, a, b, a)):
            pod.add("rl", {"id": "x", "rollout_id": "t", "reward": float(value), "policy_version": f"v{value}"})
        path = a.store_path("rl")
        for step in range(3):
            ours = a.get("rl", "x")["reward"]
            older, newer = ([record["reward"] for record in other.open(path).list()] for other in (context063, context067))
            assert older == [ours] == [record["reward"] for record in b.list("rl")]
            # Between copies of two shards 0.6.7 takes now this one, now that one.
            assert newer == [ours] or (step == 0 and newer == [2.0]), newer
            newest = a.get("rl", "x")["policy_version"]
            stale = next(f"v{n}" for n in range(4) if f"v{n}" != newest)
            assert a.list("rl", filters={"policy_version": stale}) == [], "an older copy does not come back by a filter"
            (a.merge, b.merge, lambda _: None)[step]("rl")
