"""lance_peer.py DIR - pylance answering the lines of `lance_scan serve` (see there), one measurement each."""
import sys
import time

import lance
import numpy as np


def drain(batches):
    return sum(batch.num_rows for batch in batches)


def perform(uri, dataset, words):
    verb, arguments = words[0], words[1:]
    columns = None
    if arguments and verb in ("scan", "any", "whole") or len(arguments) > 1:
        columns = [dataset.schema.names[int(number)] for number in arguments[-1].split(",")]
    if verb == "scan":
        return drain(dataset.to_batches(columns=columns))
    if verb == "any":
        return drain(dataset.scanner(columns=columns, scan_in_order=False).to_batches())
    if verb == "whole":
        return dataset.to_table(columns=columns).num_rows
    if verb == "equals":
        number, value = arguments[0].split("=")
        return drain(dataset.to_batches(columns=columns, filter=f"{dataset.schema.names[int(number)]} = {value}"))
    if verb == "open-scan":
        return lance.dataset(uri).to_table().num_rows
    if verb == "open-take":
        return lance.dataset(uri).take(np.fromfile(arguments[0], "<u8").tolist()).num_rows
    return dataset.take(np.fromfile(arguments[0], "<u8").tolist(), columns=columns).num_rows


def main():
    uri = sys.argv[1]
    dataset = lance.dataset(uri)
    for line in sys.stdin:
        words = line.split()
        start = time.perf_counter()
        rows = perform(uri, dataset, words)
        print(time.perf_counter() - start, rows, flush=True)


if __name__ == "__main__":
    main()
