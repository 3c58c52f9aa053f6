"""test_pods.py - several instances on one data directory: whose shard is whose, who sees what, who is fenced."""
import random
import threading
import time
import uuid

import pyarrow.ipc
import pytest

import rollout
import shards


@pytest.fixture
def pods(tmp_path):
    """Starts instances of one data directory; ends them."""
    started = []

    def start(identity, **more):
        started.append(rollout.Instance(tmp_path / f"pod{len(started)}", tmp_path / "data", identity, **more).start())
        return started[-1]
    yield start
    for pod in started:
        pod.__exit__()


def test_a_store_of_one_pod_is_there_for_the_other_and_a_mistyped_name_makes_nothing(pods, tmp_path):
    a, b = pods("rollout-0"), pods("rollout-1")
    a.create("rl")
    assert b.call("GET", "/api/v1/rollouts/rl", 200).json["name"] == "rl"
    before = sorted(path.name for path in (tmp_path / "data").iterdir())
    for call in (lambda: b.request("GET", "/api/v1/rollouts/nope"),
                 lambda: b.try_add("nope", rollout.records([1])),
                 lambda: b.request("GET", "/api/v1/rollouts/nope/records")):
        answer = call()
        assert (answer.status, answer.code) == (404, "NOT_FOUND")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == before
    assert b.request("POST", "/api/v1/rollouts", json_body={"name": "rl"}).status == 409
    assert [store["name"] for store in b.call("GET", "/api/v1/rollouts").json["stores"]] == ["rl"]


def test_of_two_pods_that_create_a_store_at_once_one_is_told_that_it_exists(pods):
    a, b = pods("rollout-0"), pods("rollout-1")
    for number in range(10):
        both = rollout.in_threads([lambda pod=pod: pod.request("POST", "/api/v1/rollouts", json_body={"name": f"s{number}"})
                                   for pod in (a, b)])
        assert sorted(answer.status for answer in both) == [201, 409]
        rollout.in_threads([lambda pod=pod, n=n: pod.add(f"s{number}", rollout.records([n])) for n, pod in enumerate((a, b))])
        assert a.ids(f"s{number}") == b.ids(f"s{number}") == ["r0", "r1"]


def test_a_row_that_one_pod_acknowledged_is_found_by_the_other_at_once(pods):
    both = [pods("rollout-0"), pods("rollout-1")]
    both[0].create("rl")
    random.seed(13)
    for number in range(rollout.count(120, 1000)):
        writer, reader = random.sample(both, 2)
        writer.add("rl", {"id": f"r{number}", "rollout_id": "t"})
        assert reader.get("rl", f"r{number}") is not None, f"row {number} is missed"


def test_each_instance_writes_the_shard_of_its_name(pods):
    expected = {"rollout-0": "c4118b9c-7f79-523d-9bad-381e42232c1d", "rollout-1": "56444a41-f0f6-596c-a83a-74db3c701c2e",
                "rollout-2": "3a753bd1-7403-5419-890a-9149c77b78b2", "rollout-3": "038bab8f-fc73-5b5d-9c6b-e8b4aa82d301"}
    running = [pods(name) for name in expected]
    running[0].create("rl")
    for number, pod in enumerate(running):
        pod.add("rl", rollout.records([number]))
        assert pod.call("GET", "/api/v1/ready").json["shard"] == expected[pod.identity]
    found = {shard.uuid: len(shard.generations) for shard in shards.all_of(running[0].store_path("rl"))}
    assert found == {name: 1 for name in expected.values()}
    assert all(pod.ids("rl") == ["r0", "r1", "r2", "r3"] for pod in running)


def test_the_instance_is_named_by_flag_then_setting_then_host(pods):
    def shard(identity, **environment):
        pod = pods(identity, environment=environment)
        ready = pod.call("GET", "/api/v1/ready", 200).json
        pod.kill()
        return ready["shard"]
    name = lambda text: str(uuid.uuid5(uuid.NAMESPACE_OID, text))
    assert shard(None, HOSTNAME="h") == name("h")
    assert shard(None) == name("default") == "02e81b29-f150-54b9-9a08-ce75944f6889"
    assert shard(None, HOSTNAME="") == name("default")
    assert shard(None, HOSTNAME="h", INSTANCE_ID="i") == name("i")
    assert shard("flag", HOSTNAME="h", INSTANCE_ID="i") == name("flag")
    assert shard(None, HOSTNAME="h", INSTANCE_ID="") == name("h")
    assert shard("node/α") == "3ee2baec-f8ff-5cfa-881b-0f335895ba14"


def test_a_pod_without_a_name_on_a_bucket_is_warned_of(tmp_path):
    (tmp_path / "s3").mkdir()
    server = rollout.s3_support.Server(tmp_path / "s3")
    environment = rollout.s3_support.environment(server.url)
    try:
        for number, (identity, warned) in enumerate(((None, True), ("rollout-0", False))):
            with rollout.Instance(tmp_path / f"pod{number}", f"s3://{rollout.s3_support.BUCKET}/d", identity,
                                  environment=environment) as pod:
                assert ("this instance is called default" in pod.tail(20000)) == warned
    finally:
        server.close()


def test_two_live_pods_of_one_name_lose_nothing_that_they_acknowledged(pods):
    both = [pods("rollout-0"), pods("rollout-0")]
    both[0].create("rl")
    kept, attempted = set(), set()
    for number in range(200):
        answer = both[number % 2].try_add("rl", rollout.records([number]))
        attempted.add(f"r{number}")
        if answer.status == 201:
            kept.add(f"r{number}")
        else:
            assert (answer.status, answer.code) == (409, "SHARD_FENCED"), answer.body
    for pod in both:
        ids = pod.ids("rl")
        assert kept <= set(ids) <= attempted and len(ids) == len(set(ids))
    shard = shards.one(both[0].store_path("rl"), "rollout-0")
    shards.check_chain(shard)
    assert shard.versions[0] == 1 and kept and shard.epoch <= 6, "a pod that was fenced does not claim at each request"


def test_a_pod_that_was_stopped_while_its_successor_claimed_is_fenced_and_its_row_is_absent(tmp_path):
    # What gives the manifest its name is held back by a tracer: the files of the generation are there, the commit is not.
    trace = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e"]
    names = "link,linkat,renameat2"
    with rollout.Instance(tmp_path / "plain", tmp_path / "data") as first:
        first.create("rl")
        first.add("rl", rollout.records([0]))
    with rollout.Instance(tmp_path / "count", tmp_path / "data", prefix=[*trace, f"trace={names}"]) as traced:
        traced.add("rl", rollout.records([1]))
    named = [line.split(None, 1) for line in open(tmp_path / "trace") if "(" in line]
    commits = [at for at, (_, text) in enumerate(named) if ".binpb" in text]
    assert len(commits) >= 2, "a claim and a commit give names"
    thread = named[commits[-1]][0] # calls are counted by thread
    held = sum(named[at][0] == thread for at in range(commits[-1] + 1))
    prefix = [*trace, f"trace={names}", "-e", f"inject={names}:delay_enter=4000000:when={held}"]
    with rollout.Instance(tmp_path / "old", tmp_path / "data", prefix=prefix) as old:
        result = []
        slow = threading.Thread(target=lambda: result.append(old.client().try_add("rl", rollout.records([2]))))
        slow.start()
        path = old.store_path("rl")
        before = len(shards.one(path, "rollout-0").directories())
        deadline = time.monotonic() + 3
        while len(shards.one(path, "rollout-0").directories()) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        assert len(shards.one(path, "rollout-0").directories()) == before + 1, "the files of the generation are written"
        old.pause()
        with rollout.Instance(tmp_path / "new", tmp_path / "data") as successor:
            successor.add("rl", rollout.records([3]))
            old.resume()
            slow.join(30)
            assert (result[0].status, result[0].code) == (409, "SHARD_FENCED")
            assert successor.ids("rl") == ["r0", "r1", "r3"]
            successor.add("rl", rollout.records([4]))
            assert successor.ids("rl") == ["r0", "r1", "r3", "r4"], "the successor is not disturbed"
            shards.check_chain(shards.one(path, "rollout-0"))


def test_adds_that_come_together_share_generations_and_are_seen_by_the_other_pod_when_answered(pods):
    a, b = pods("rollout-0"), pods("rollout-1")
    a.create("rl")
    a.add("rl", {"id": "first", "rollout_id": "t"})
    gate = threading.Barrier(64)

    def one(number):
        with a.client() as writer, b.client() as reader:
            writer.request("GET", "/api/v1/health"), reader.request("GET", "/api/v1/health")
            gate.wait()
            writer.add("rl", {"id": f"r{number}", "rollout_id": "t"})
            assert reader.get("rl", f"r{number}") is not None, f"row {number} was acknowledged and is not seen"
    rollout.in_threads([lambda n=n: one(n) for n in range(64)])
    assert len(a.list("rl")) == 65
    assert len(shards.one(a.store_path("rl"), "rollout-0").generations) < 65


def test_rows_of_pods_that_were_scaled_down_stay_readable(pods):
    stays = pods("rollout-0")
    stays.create("rl")
    stays.add("rl", rollout.records([0]))
    for name, numbers in (("rollout-4", range(10, 20)), ("rollout-5", range(20, 30))):
        pod = pods(name)
        for number in numbers:
            pod.add("rl", rollout.records([number]))
        assert pod.stop() == 0
    expected = sorted(f"r{number}" for number in [0, *range(10, 30)])
    assert stays.ids("rl") == expected
    stays.restart()
    assert stays.ids("rl") == expected
    assert stays.blob("rl", "r10").status == 404 and stays.get("rl", "r29")["id"] == "r29"


def test_a_pod_that_was_killed_goes_on_with_its_shard(pods):
    pod = pods("rollout-0")
    pod.create("rl")
    for number in range(5):
        pod.add("rl", rollout.records([number]))
        before = shards.one(pod.store_path("rl"), "rollout-0")
        pod.restart()
        pod.add("rl", rollout.records([100 + number]))
        after = shards.one(pod.store_path("rl"), "rollout-0")
        assert after.epoch == before.epoch + 1 and after.current_generation == before.current_generation + 1
    assert len(pod.ids("rl")) == 10
    shards.check_chain(shards.one(pod.store_path("rl"), "rollout-0"))


def test_rows_that_a_fenced_writer_logged_are_not_lost_where_our_entry_belongs(pods):
    pod = pods("rollout-0", extra=["--wal", "always"])
    pod.create("rl")
    pod.add("rl", rollout.records([0]))
    shard = shards.one(pod.store_path("rl"), "rollout-0")
    epoch, table = shard.log()[1]
    pod.restart()
    pod.add("rl", rollout.records([1])) # another epoch; what comes next is an entry of the old one, as other software
    late = table.set_column(table.column_names.index("id"), table.schema.field("id"), [["late"]]) # acknowledges rows by
    with pyarrow.ipc.new_stream(shard.directory / "wal" / f"{3:064b}"[::-1].__add__(".arrow"),
                                late.schema.with_metadata({"writer_epoch": str(epoch)})) as entry:
        entry.write_table(late)
    pod.add("rl", rollout.records([2]))
    pod.add("rl", rollout.records([3]))
    assert pod.ids("rl") == ["late", "r0", "r1", "r2", "r3"]
    pod.restart()
    pod.add("rl", rollout.records([4]))
    assert pod.ids("rl") == ["late", "r0", "r1", "r2", "r3", "r4"]
