"""oracle_worker.py - runs in the environment of one lance-context: a call a line comes in, an answer a line goes out."""
import asyncio
import base64
import importlib.metadata
import json
import os
import sys

from lance_context import AsyncRolloutStore, RolloutStore


def encode(value):
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(value)


def decode(value):
    return base64.b64decode(value["$bytes"]) if "$bytes" in value else value


stores = []


def keep(store):
    stores.append(store)
    return len(stores) - 1


async def finish(result):
    return await result


def call(number, name, *arguments, **named):
    result = getattr(stores[number], name)(*arguments, **named)
    return asyncio.run(finish(result)) if asyncio.iscoroutine(result) else result


def snippet(url, name, filters):
    """What the documentation of the published client shows a learner."""
    async def learner():
        store = await AsyncRolloutStore.connect(url, name)
        return await store.list(filters=filters)
    return asyncio.run(learner())


CALLS = {
    "version": lambda: importlib.metadata.version("lance-context"),
    "open": lambda uri, **options: keep(RolloutStore.open(uri, **options)),
    "connect": lambda url, name: keep(RolloutStore.connect(url, name)),
    "connect_or_create": lambda url, name: keep(RolloutStore.connect_or_create(url, name)),
    "connect_async": lambda url, name: keep(asyncio.run(AsyncRolloutStore.connect(url, name))),
    "call": call,
    "snippet": snippet,
}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1) # what the library prints is no answer
    for line in sys.stdin:
        name, arguments, named = json.loads(line, object_hook=decode)
        try:
            answer = {"ok": CALLS[name](*arguments, **named)}
        except BaseException as failure: # noqa: BLE001  (a panic of the native part, too, is an answer)
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer, default=encode), file=out, flush=True)


main()
