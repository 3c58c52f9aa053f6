"""test_fleet.py - four instances behind a round-robin proxy, 64 clients, kill -9, SIGSTOP and successors of the stopped, on a
directory and on S3. LK_SERIAL"""
import pathlib

import lance

import fleet
import oracle
import rollout
import shards


def finish(path, acknowledged, attempted, answers, least):
    assert len(acknowledged) >= least, f"too few to say anything: {len(acknowledged)} of {len(attempted)}, {answers}"
    for shard in shards.all_of(path):
        shards.check_chain(shard)
    ids = oracle.scanned_ids(path)
    assert len(ids) == len(set(ids)) and acknowledged <= set(ids), "pylance reads the same rows"
    lance.dataset(str(path)).validate()


def test_four_instances_behind_a_proxy_lose_nothing_while_they_are_killed_and_stopped(tmp_path):
    data_dir, acknowledged, attempted, events, answers = fleet.run(
        tmp_path, tmp_path / "data", rollout.count(8, 60), 64, ["--rollout-merge-after-generations", "10"])
    assert answers[409, "SHARD_FENCED"], f"those who were taken for dead are told so: {events}, {answers}"
    finish(pathlib.Path(data_dir) / "rl.rollout.lance", acknowledged, attempted, answers, rollout.count(200, 2000))


def test_the_same_on_s3(tmp_path):
    (tmp_path / "s3").mkdir()
    server = rollout.s3_support.Server(tmp_path / "s3")
    try:
        _, acknowledged, attempted, _, answers = fleet.run(
            tmp_path, f"s3://{rollout.s3_support.BUCKET}/d", rollout.count(5, 30), 32,
            ["--rollout-merge-after-generations", "10"], rollout.s3_support.environment(server.url))
        finish(tmp_path / "s3/data" / rollout.s3_support.BUCKET / "d/rl.rollout.lance", acknowledged, attempted, answers,
               rollout.count(50, 500))
    finally:
        server.close()
