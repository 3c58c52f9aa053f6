"""fleet.py - clients that add through a proxy to several instances while these are killed, stopped and started again, and the
check at the end: acknowledged is part of stored is part of attempted, nothing twice, every instance lists everything."""
import collections
import http.client
import os
import random
import signal
import threading
import time

import rollout


class Worker(threading.Thread):
    """Adds records through the balancer until told to stop; notes what it tried and what was acknowledged."""

    def __init__(self, address, number, store):
        super().__init__(daemon=True)
        self.address, self.number, self.store = address, number, store
        self.attempted, self.acknowledged, self.answers = set(), set(), collections.Counter()
        self.ended, self.failure = threading.Event(), None

    def run(self):
        random_ = random.Random(self.number)
        client, turn = rollout.Client(self.address, timeout=20), 0
        try:
            while not self.ended.is_set():
                size = random_.choice((1, 1, 1, 4))
                rows = [{"id": f"w{self.number}-{turn}-{row}", "rollout_id": f"w{self.number}-{turn}",
                         "sequence_order": row, "reward": row / 4} for row in range(size)]
                turn += 1
                ids = {row["id"] for row in rows}
                self.attempted |= ids
                for _ in range(random_.choice((1, 1, 2))): # some retry what failed, with the same ids
                    try:
                        answer = client.try_add(self.store, rows)
                    except (OSError, http.client.HTTPException) as lost:
                        self.answers[type(lost).__name__] += 1
                        time.sleep(0.02)
                        continue
                    self.answers[answer.status, None if answer.status == 201 else answer.code] += 1
                    if answer.status == 201:
                        assert answer.json["ids"] == [row["id"] for row in rows]
                        self.acknowledged |= ids
                        break
                    assert answer.status in (409, 429, 503), answer
                    assert answer.status != 409 or answer.code == "SHARD_FENCED", answer
                    time.sleep(0.01)
                if turn % 16 == 0:
                    client.close() # another instance next
        except BaseException as failure: # noqa: BLE001  (the check tells)
            self.failure = failure
        finally:
            client.close()


def disturb(instances, seconds, random_):
    """Kills, stops and restarts instances at random until the time is over, each way at least once; all run at the end."""
    end = time.monotonic() + seconds
    kinds = ["kill", "pause", "replace"]
    events = collections.Counter()
    while time.monotonic() < end or len(events) < len(kinds):
        victim = random_.choice(instances)
        time.sleep(random_.uniform(0.1, 0.5))
        missing = [kind for kind in kinds if not events[kind]]
        kind = random_.choice(missing or ["kill", *kinds])
        events[kind] += 1
        if kind == "kill":
            victim.kill()
            time.sleep(random_.uniform(0, 0.3))
            victim.start()
        elif kind == "pause":
            victim.pause()
            time.sleep(random_.uniform(0.05, 0.8))
            victim.resume()
        else: # an orchestrator believes the stopped one dead: another of the same name starts, then the old one wakes
            victim.pause()
            old, old_pid = victim.process, victim.pid
            victim.port = 0
            victim.start()
            with victim.client() as client:
                client.try_add(victim.store, [{"id": f"s-{events['replace']}-{old_pid}", "rollout_id": "successor"}])
            os.kill(old_pid, signal.SIGCONT)
            time.sleep(random_.uniform(0.1, 0.6)) # clients that are still connected to it are answered 409
            old.send_signal(signal.SIGKILL)
            old.wait()
            victim.replaced()
    return events


class Pod(rollout.Instance):
    """An instance behind the balancer."""

    store, balancer, place = "rl", None, 0

    def replaced(self):
        self.balancer.addresses[self.place] = self.address


def check(instances, workers, store):
    for worker in workers:
        if worker.failure:
            raise worker.failure
    attempted = set().union(*(worker.attempted for worker in workers))
    acknowledged = set().union(*(worker.acknowledged for worker in workers))
    lists = []
    for instance in instances:
        ids = [identity for identity in instance.ids(store) if not identity.startswith("s-")]
        assert len(ids) == len(set(ids)), "an id is listed twice"
        missing = acknowledged - set(ids)
        assert not missing, f"{len(missing)} acknowledged rows are lost: {sorted(missing)[:5]}"
        assert set(ids) <= attempted, sorted(set(ids) - attempted)[:5]
        groups = collections.Counter(identity.rsplit("-", 1)[0] for identity in ids)
        whole = collections.Counter(identity.rsplit("-", 1)[0] for identity in attempted)
        assert all(groups[group] == whole[group] for group in groups), "a request is stored in part"
        lists.append(ids)
    assert all(ids == lists[0] for ids in lists), "the instances list different rows"
    return acknowledged, attempted


def run(directory, data_dir, seconds, clients, extra=(), environment=None, seed=4711):
    random_ = random.Random(seed)
    pods = [Pod(directory / f"pod{number}", data_dir, f"rollout-{number}", extra, environment) for number in range(4)]
    for pod in pods:
        pod.start(60)
    balancer = rollout.Balancer([pod.address for pod in pods])
    for place, pod in enumerate(pods):
        pod.balancer, pod.place = balancer, place
    try:
        pods[0].create("rl")
        workers = [Worker(balancer.address, number, "rl") for number in range(clients)]
        for worker in workers:
            worker.start()
        events = disturb(pods, seconds, random_)
        time.sleep(0.5)
        for worker in workers:
            worker.ended.set()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive(), "a client was never answered"
        acknowledged, attempted = check(pods, workers, "rl")
        for pod in pods:
            pod.restart()
        check(pods, workers, "rl")
        answers = sum((worker.answers for worker in workers), collections.Counter())
        return pods[0].data_dir, acknowledged, attempted, events, answers
    finally:
        balancer.close()
        for pod in pods:
            pod.__exit__()
