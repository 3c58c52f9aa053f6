"""test_space.py - what a row takes on disk until it is merged. (What lists and adds cost in time is measured by bench/.)"""
import pathlib

import rollout
import shards

GENERATIONS = 20


def test_a_generation_of_one_row_takes_12_KiB_at_most_beside_its_filter(tmp_path):
    with rollout.Instance(tmp_path) as instance:
        instance.create("rl")
        for number in range(GENERATIONS):
            instance.add("rl", rollout.records([number]))
        assert len(shards.one(instance.store_path("rl"), "rollout-0").generations) == GENERATIONS
        shard = pathlib.Path(instance.store_path("rl")) / "_mem_wal"
        files = [file for file in shard.glob("*/*_gen_*/**/*") if file.is_file() and file.name != "bloom_filter.bin"]
        assert files and sum(file.stat().st_size for file in files) / GENERATIONS <= 12 << 10
        assert len(instance.ids("rl")) == GENERATIONS
