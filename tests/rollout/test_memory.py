"""test_memory.py - adds without end, merged as they come: what an instance holds stays bounded and flat. LK_SERIAL"""
import time

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
        end = time.monotonic() + 60  # folding is gentle: a busy machine lets it lag
        while len(lance.dataset(str(instance.store_path("rl"))).get_fragments()) > 64:
            assert time.monotonic() < end, "small fragments are folded"
            time.sleep(0.2)


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


def test_a_form_holds_little_more_than_twice_its_payloads(tmp_path):
    """Once as it came, which becomes the column, and once as the pages of its file."""
    with rollout.Instance(tmp_path) as instance:
        instance.create("rl")
        assert instance.put_blobs("rl", [{"id": "warm", "rollout_id": "t"}], [("0", bytes(MIB))]).status == 201
        whole = rollout.count(48, 768) * MIB
        for turn, sizes in enumerate(([whole], [whole // 4 + n for n in range(4)], [whole // 64 - n for n in range(64)])):
            instance.restart()
            before = instance.resident()
            records = [{"id": f"b{turn}-{n}", "rollout_id": "t"} for n in range(len(sizes))]
            parts = [(str(n), bytes([n + 1]) * size) for n, size in enumerate(sizes)]
            more = [{"id": f"e{turn}", "rollout_id": "t", "binary_payload": ""}, {"id": f"n{turn}", "rollout_id": "t"}]
            assert instance.put_blobs("rl", more[:1] + records + more[1:], [(str(int(n) + 1), part) for n, part in parts]
                                      ).status == 201
            held = instance.peak() - before
            assert held <= 2.2 * sum(sizes), f"{len(sizes)} payloads: {held / sum(sizes):.2f} times their size"
            assert instance.resident() - before <= 64 * MIB, "and nothing of it stays"
            for merged in (False, True):
                if merged:
                    instance.merge("rl")
                assert all(instance.blob("rl", f"b{turn}-{n}").body == part for n, (_, part) in enumerate(parts))
                assert instance.blob("rl", f"e{turn}").body == b"" and instance.blob("rl", f"n{turn}").status == 404
