"""rollout_peer.py DIR - the published embedded store (lance_context), run by a Python that has it: one command a line.

  add N ROWS TOKENS   N adds; answers a list of milliseconds, one an add
  list [STORE]        milliseconds of a list of everything, by a handle opened anew, and how many rows; of its own store, or
                      of one that somebody else wrote
  get ID              milliseconds of one get

Answers are JSON, one a line. The store is made in DIR.
"""
import asyncio
import inspect
import json
import sys
import time

from lance_context import RolloutStore


def wait(value):
    async def waited():
        return await value
    return asyncio.run(waited()) if inspect.isawaitable(value) else value


def timed(call, *arguments):
    start = time.perf_counter()
    result = wait(call(*arguments))
    return (time.perf_counter() - start) * 1000, result


class Peer:
    def __init__(self, path):
        self.path = path
        self.store = wait(RolloutStore.open(path))
        self.flush = getattr(self.store, "flush", None) # 0.6.7 makes rows visible with it; 0.6.3 with every add
        self.added = 0

    def add_visibly(self, records):
        wait(self.store.add(records))
        if self.flush:
            wait(self.flush())

    def add(self, count, rows, tokens):
        took = []
        lists = {"output_tokens": [i * 7919 % 151936 + 1 for i in range(tokens)],
                 "output_logprobs": [-0.5] * tokens} if tokens else {}
        for _ in range(count):
            records = [{"id": f"peer-{self.added}-{row}", "rollout_id": f"r-{self.added}", "role": "assistant",
                        "policy_version": "v1", "reward": 0.5, "content": f"the answer is {row}", **lists}
                       for row in range(rows)]
            self.added += 1
            took.append(timed(self.add_visibly, records)[0])
        return took

    def list(self, path=None):
        fresh = wait(RolloutStore.open(path or self.path))
        took, rows = timed(fresh.list)
        return took, len(rows)

    def get(self, key):
        took, row = timed(self.store.get, key)
        return took, row is not None


def main():
    peer = Peer(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "add":
            answer = peer.add(*map(int, rest))
        elif word == "list":
            answer = peer.list(*rest)
        else:
            answer = peer.get(rest[0])
        print(json.dumps(answer), flush=True)


main()
