"""memory_bench.py - anonymous memory at its peak while a table much larger than it is scanned."""
import subprocess

import lance
import numpy as np
import pyarrow as pa

import measure

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("label", pa.int32()), pa.field("text", pa.utf8()),
                    pa.field("vector", pa.list_(pa.float32(), 256)), pa.field("words", pa.list_(pa.utf8()))])


def batches(total, step=20_000):
    random = np.random.default_rng(5)
    size = first = 0
    while size < total:
        ids = np.arange(first, first + step)
        texts = [f"frame {number} " + "x" * (number % 300) for number in ids.tolist()]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(step * 256, dtype=np.float32)), 256)
        words = pa.ListArray.from_arrays(np.arange(step + 1, dtype=np.int32) * 3, pa.array(texts * 3))
        batch = pa.record_batch([pa.array(ids), pa.array(ids % 100, pa.int32()), pa.array(texts), vectors, words],
                                schema=SCHEMA)
        size, first = size + batch.nbytes, first + step
        yield batch


def main():
    total = measure.size(4 << 30, 64 << 20)
    path = measure.DATA / f"wide{total >> 20}.lance"
    measure.DATA.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        half = path.with_suffix(".half")
        lance.write_dataset(pa.RecordBatchReader.from_batches(SCHEMA, batches(total)), half,
                            data_storage_version="2.1", max_rows_per_file=200_000)
        half.rename(path)
    words = subprocess.run([measure.TOOLS / "lance_scan", "memory", path], check=True, capture_output=True,
                           text=True).stdout.split()
    if int(words[1]) != lance.dataset(path).count_rows():
        raise SystemExit(f"{words[1]} rows are not all")
    measure.report(f"peak anonymous memory of a full scan of {total >> 20:,} MiB", "MiB", int(words[0]) / 2**20,
                   target="<= 512", note="RssAnon after every batch, scan budget 384 MiB; int64, int32, text, "
                                         "float32[256], list of text")


if __name__ == "__main__":
    main()
