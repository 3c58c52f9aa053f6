"""test_memory.py - adds without end, merged as they come: what an instance holds stays bounded and flat. LK_SERIAL"""
import lance

import rollout
import shards

MIB = 2**20


def test_memory_is_flat_over_many_adds_with_merges(tmp_path):
    total = rollout.count(5000, 100_000)
    with rollout.Instance(tmp_path, extra=["--rollout-merge-after-generations", "20"]) as instance:
        instance.create("rl")
        marks = []

        def write(worker):
            with instance.client() as client:
                for number in range(worker, total, 8):
                    client.add("rl", {"id": f"r{number}", "rollout_id": f"t{number // 8}", "content": "x" * 200,
                                      "output_tokens": list(range(64)), "output_logprobs": [-0.5] * 64})
                    if worker == 0 and number // 8 % (total // 80) == 0:
                        marks.append(instance.resident())
        rollout.in_threads([lambda worker=worker: write(worker) for worker in range(8)])
        assert max(marks) <= 300 * MIB, [mark // MIB for mark in marks]
        half = marks[len(marks) // 2:]
        assert max(half) - min(half) <= 48 * MIB, [mark // MIB for mark in marks]
        instance.close() # a connection that was idle for so long is closed by now
        instance.merge("rl")
        assert shards.pending(instance.store_path("rl")) == 0
        assert lance.dataset(str(instance.store_path("rl"))).count_rows() == total
        seen = 0
        for page in pages(instance, "rl", limit=2000, columns="id"):
            seen += len(page)
        assert seen == total
        assert instance.peak() <= 300 * MIB
        assert len(lance.dataset(str(instance.store_path("rl"))).get_fragments()) <= 64, "small fragments are folded"


def pages(instance, store, **query):
    cursor = {}
    while True:
        page = instance.page(store, **query, **cursor)
        yield page["records"]
        if not page.get("next_cursor"):
            return
        cursor = {"cursor": page["next_cursor"]}


def test_a_retired_shard_with_many_generations_still_lists(tmp_path):
    generations = rollout.count(300, 10_000)
    with rollout.Instance(tmp_path / "old", tmp_path / "data", "rollout-9") as old:
        old.create("rl")
        for number in range(generations):
            old.add("rl", rollout.records([number]))
        assert len(shards.one(old.store_path("rl"), "rollout-9").generations) == len(old.list("rl")) == generations
        assert old.stop() == 0
    with rollout.Instance(tmp_path / "new", tmp_path / "data", "rollout-0") as new:
        new.add("rl", rollout.records([generations]))
        assert len(new.list("rl")) == generations + 1
        assert new.get("rl", "r0")["id"] == "r0"
