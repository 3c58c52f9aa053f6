"""test_removal.py - a store is removed while others read it and write to it: each of them hears that it is gone, or was answered
before; nothing is lost of the store that is made again under the name. LK_SERIAL"""
import http.client
import json
import threading
import time

import pytest

import rollout

MIB = 2**20


def calls(name, number):
    """What clients do with a store: (method, path, body or None)."""
    base = f"/api/v1/rollouts/{name}"
    record = {"id": f"new-{number}", "rollout_id": "t"}
    return [("POST", f"{base}/records", json.dumps({"records": [record]})), ("GET", f"{base}/records", None),
            ("GET", f"{base}/records?format=arrow&order=none", None), ("GET", f"{base}/records?format=parquet", None),
            ("GET", f"{base}/records/r3", None), ("GET", f"{base}/records/b/blob", None), ("GET", base, None),
            ("GET", f"{base}/trajectories/r0", None), ("GET", f"{base}/stats", None),
            ("GET", f"{base}/tail?cursor=&timeout_ms=50", None), ("POST", f"{base}/merge", "{}"),
            ("POST", f"{base}/compact", "{}"), ("GET", f"{base}/compact/stats", None)]


class Crowd:
    """Clients that do one thing each, again and again; what they heard, and when."""

    def __init__(self, address, name, every=None):
        self.heard, self.stopped, self.broken = [], threading.Event(), []
        self.threads = [threading.Thread(target=self.work, args=(address, name, which))
                        for which in (every or range(len(calls(name, 0))))]
        for thread in self.threads:
            thread.start()

    def work(self, address, name, which):
        client, number = rollout.Client(address, timeout=30), 0
        while not self.stopped.is_set():
            number += 1
            method, path, body = calls(name, f"{which}-{threading.get_ident()}-{number}")[which]
            started = time.monotonic()
            try:
                answer = client.request(method, path, body, {"Content-Type": "application/json"} if body else {})
                self.heard.append((started, time.monotonic(), f"{method} {path}", answer))
            except (OSError, http.client.HTTPException) as error:
                self.broken.append((f"{method} {path}", repr(error)))
        client.close()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


def fill(instance, name):
    instance.create(name)
    instance.add(name, rollout.records(range(400), content="x" * 2000))
    instance.merge(name)
    for number in range(400, 420):
        instance.add(name, rollout.records([number], content="y" * 2000))
    assert instance.put_blobs(name, [{"id": "b", "rollout_id": "t"}], [("0", bytes(2 * MIB))]).status == 201


def outcomes(crowd, begun, done):
    """Whoever asked before the removal was done hears success or 404, who asked later 404."""
    for started, ended, what, answer in crowd.heard:
        allowed = {200, 201, 404} if started < done and ended > begun else {404} if started >= done else {200, 201}
        if "merge" in what or "compact" in what:
            allowed |= {409} if started < done else set() # another one is at it
        assert answer.status in allowed, (what, answer.status, answer.body[:300], started - begun, done - begun)
        if answer.status == 404:
            assert answer.code == "NOT_FOUND" and "no rollout store" in answer.json["error"]["message"], answer.body


@pytest.mark.parametrize("turn", range(rollout.count(4, 40)))
def test_whoever_uses_a_store_that_is_removed_hears_that_it_is_gone(tmp_path, turn):
    with rollout.Instance(tmp_path, extra=["--rollout-merge-after-generations", "8"] if turn % 2 else []) as instance:
        fill(instance, "rl")
        crowd = Crowd(instance.address, "rl", list(range(13)) * 2)
        time.sleep(0.3 + 0.05 * turn)
        begun = time.monotonic()
        assert instance.request("DELETE", "/api/v1/rollouts/rl").status == 204
        done = time.monotonic()
        time.sleep(0.3)
        crowd.stop()
        outcomes(crowd, begun, done)
        assert len([answer for _, _, _, answer in crowd.heard if answer.status == 404]) > 20
        assert len(crowd.broken) <= 26, crowd.broken[:3] # an answer that was on its way may break
        assert not instance.store_path("rl").exists()


def test_a_store_that_is_made_again_has_the_rows_of_its_own_adds_only(tmp_path):
    with rollout.Instance(tmp_path) as instance:
        for _ in range(rollout.count(3, 50)):
            fill(instance, "rl")
            crowd = Crowd(instance.address, "rl", [0] * 6)
            time.sleep(0.2)
            assert instance.request("DELETE", "/api/v1/rollouts/rl").status == 204
            made = time.monotonic()
            instance.create("rl")
            time.sleep(0.2)
            crowd.stop()
            after = {record for started, _, _, answer in crowd.heard if started >= made and answer.status == 201
                     for record in answer.json["ids"]}
            ever = {record for _, _, _, answer in crowd.heard if answer.status == 201 for record in answer.json["ids"]}
            assert all(answer.status in (201, 404) for _, _, _, answer in crowd.heard)
            assert not crowd.broken and after
            assert after <= set(instance.ids("rl")) <= ever
            assert instance.request("DELETE", "/api/v1/rollouts/rl").status == 204


@pytest.mark.parametrize("turn", range(rollout.count(2, 20)))
def test_another_instance_that_writes_to_it_notices_and_the_name_can_be_taken_again(tmp_path, turn):
    with rollout.Instance(tmp_path / "a", tmp_path / "data", "rollout-0") as a, \
            rollout.Instance(tmp_path / "b", tmp_path / "data", "rollout-1") as b:
        fill(a, "rl")
        crowd = Crowd(b.address, "rl", [0] * 4 + [1, 4, 10])
        time.sleep(0.4)
        begun = time.monotonic()
        assert a.request("DELETE", "/api/v1/rollouts/rl").status == 204
        done = time.monotonic()
        time.sleep(0.5)
        crowd.stop()
        outcomes(crowd, begun, done)
        added = [answer.json["ids"] for _, _, _, answer in crowd.heard if answer.status == 201]
        assert added and not a.store_path("rl").exists()
        for instance in (a, b):
            assert instance.request("GET", "/api/v1/rollouts/rl").status == 404
            assert instance.call("GET", "/api/v1/rollouts", 200).json["stores"] == []
        b.create("rl")
        b.add("rl", rollout.records([7]))
        assert a.ids("rl") == b.ids("rl") == ["r7"]


def test_a_removal_that_was_stopped_keeps_the_name_until_it_is_repeated(tmp_path):
    with rollout.Instance(tmp_path) as instance:
        fill(instance, "rl")
        instance.kill()
        (instance.store_path("rl") / "_removed").write_bytes(b"")
        instance.restart()
        gone = instance.request("GET", "/api/v1/rollouts/rl/records")
        assert (gone.status, gone.code) == (404, "NOT_FOUND")
        taken = instance.request("POST", "/api/v1/rollouts", json.dumps({"name": "rl"}), {"Content-Type": "application/json"})
        assert taken.status == 409 and "remove it again" in taken.json["error"]["message"]
        assert instance.request("DELETE", "/api/v1/rollouts/rl").status == 204
        instance.create("rl")
        assert instance.ids("rl") == []
