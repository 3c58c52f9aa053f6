"""test_power_loss.py - the power fails at any moment: rows that were acknowledged are in files and under names that were
synced before."""
import random
import re
import shutil

import pytest

import power
import rollout


@pytest.mark.parametrize("merge_after", [0, 4])
def test_acknowledged_rows_are_on_the_disk_when_the_power_fails(tmp_path, merge_after):
    trace = tmp_path / "trace"
    with rollout.Instance(tmp_path / "pod", extra=["--rollout-merge-after-generations", str(merge_after)],
                          prefix=power.prefix(trace)) as pod:
        pod.create("rl")

        def write(worker):
            with pod.client() as client:
                for number in range(6):
                    client.add("rl", rollout.records([number], f"w{worker}-"))
        rollout.in_threads([lambda worker=worker: write(worker) for worker in range(3)])
        everything = pod.ids("rl")
        pod.kill()
    events = power.Events(trace, pod.data_dir)
    answers = [(at, set(re.findall(r"w\d-\d+", text))) for at, kind, text, _ in events.all if kind == "answer"]
    assert set().union(*(ids for _, ids in answers)) == set(everything) and len(everything) == 18
    random.seed(6)
    created = next(at for at, ids in answers if not ids)
    moments = [at for at, ids in answers if ids] + random.sample([at for at, *_ in events.all if at > created], rollout.count(20, 200))
    random.shuffle(moments)
    for number, moment in enumerate(moments[:rollout.count(6, 1000)]):
        acknowledged = set().union(*(ids for at, ids in answers if at <= moment))
        for names in (False, True):
            left = tmp_path / f"left-{number}-{names}"
            power.Disk(events, moment).copy(left / "data", names)
            with rollout.Instance(left) as after:
                ids = after.ids("rl")
                assert acknowledged <= set(ids) <= set(everything), f"lost at {moment}: {sorted(acknowledged - set(ids))}"
                assert len(ids) == len(set(ids))
                after.add("rl", rollout.records([0], "after"))
                assert after.ids("rl") == sorted([*ids, "after0"])
            shutil.rmtree(left)


def test_fsync_never_is_by_name_only(tmp_path):
    for extra, expected in (([], True), (["--fsync", "never"], False)):
        trace = tmp_path / f"trace{expected}"
        with rollout.Instance(tmp_path / f"pod{expected}", extra=extra, prefix=power.prefix(trace)) as pod:
            pod.create("rl")
            pod.add("rl", rollout.records([1]))
            assert pod.ids("rl") == ["r1"]
        synced = [text for _, _, text in power.calls(trace) if re.match(r"f(data)?sync\(", text)]
        assert bool([text for text in synced if "_mem_wal" in text]) == expected
