#!/usr/bin/env python3
"""gen_records.py - the same three records as pyarrow writes them (records.arrow, an IPC stream whose columns stand in another
order and have wider types than the table's) and as JSON (records.json), for src/serve/rollout_add_test.c.

Run it with the pyarrow of tools/deps.sh; the files are checked in.
"""
import datetime
import json
import pathlib

import pyarrow as pa

HERE = pathlib.Path(__file__).parent
UTC = datetime.timezone.utc
RECORDS = [
    {"id": "a1", "rollout_id": "r", "created_at": "2026-01-02T03:04:05.678901Z", "content": "hello", "role": "tool",
     "output_tokens": [1, 2, 2147483647], "output_logprobs": [-0.5, 0.25, -1.0], "loss_mask": [1, 0, -128],
     "reward": 0.5, "include_in_training": True, "num_output_tokens": 3, "policy_version": "p1",
     "relationships": [{"target_id": "x", "relation": "parent", "weight": 0.5}, {"target_id": "y", "relation": "z"}],
     "metadata": {"k": [1, None, "v"]}},
    {"id": "a2", "rollout_id": "r", "sequence_order": 7, "created_at": "2026-01-02T03:04:06Z", "role": "assistant",
     "output_tokens": [], "include_in_training": False},
    {"id": "a3", "rollout_id": "r", "created_at": "2026-01-02T03:04:07.5Z", "problem_id": "p", "role": "tool"},
]
RELATION = pa.struct([("target_id", pa.string()), ("relation", pa.string()), ("weight", pa.float64())])
TYPES = {
    "metadata": pa.string(), "reward": pa.float64(), "role": pa.dictionary(pa.int32(), pa.string()),
    "output_tokens": pa.list_(pa.int64()), "output_logprobs": pa.list_(pa.float64()), "loss_mask": pa.list_(pa.int64()),
    "id": pa.large_string(), "rollout_id": pa.string(), "sequence_order": pa.int64(),
    "created_at": pa.timestamp("us", tz="UTC"), "content": pa.string(), "include_in_training": pa.bool_(),
    "num_output_tokens": pa.int64(), "policy_version": pa.string(), "problem_id": pa.string(),
    "relationships": pa.list_(RELATION), "something_else": pa.int32(),
}


def value(record, name):
    found = record.get(name)
    if name == "metadata" and found is not None:
        return json.dumps(found)
    if name == "created_at":
        return datetime.datetime.fromisoformat(found)
    return found


def main():
    columns = [pa.array([value(r, name) for r in RECORDS], type=kind) for name, kind in TYPES.items()]
    table = pa.table(columns, names=list(TYPES))
    with pa.ipc.new_stream(HERE / "records.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=2)
    (HERE / "records.json").write_text(json.dumps({"records": RECORDS}))


if __name__ == "__main__":
    main()
