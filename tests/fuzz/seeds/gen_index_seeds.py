"""Makes the seeds of fuzz_lance_index with pylance: gen_index_seeds.py DIRECTORY (lance_index here)."""
import pathlib
import struct
import sys
import tempfile

import lance
import pyarrow as pa
from lance.file import LanceFileReader


def files_of(uri, kind, **options):
    """The files of an index of this kind over a small table, by name."""
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("a", kind, name=kind, **options)
    uuid = next(index["uuid"] for index in dataset.list_indices() if index["name"] == kind)
    return {path.name: path.read_bytes() for path in (pathlib.Path(uri) / "_indices" / uuid).iterdir()}, uuid


def main(out):
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        uri = scratch + "/t.lance"
        lance.write_dataset(pa.table({"a": pa.array([None if i % 9 == 0 else i % 20 for i in range(80)])}), uri,
                            max_rows_per_file=40, data_storage_version="2.1")
        btree, _ = files_of(uri, "BTREE")
        bitmap, uuid = files_of(uri, "BITMAP")
        zonemap, _ = files_of(uri, "ZONEMAP")
        lookup = btree["page_lookup.lance"]
        (out / "btree").write_bytes(struct.pack("<I", len(lookup)) + lookup + btree["page_data.lance"])
        (out / "bitmap").write_bytes(bytes(4) + bitmap["bitmap_page_lookup.lance"])
        (out / "zonemap").write_bytes(bytes(4) + zonemap["zonemap.lance"])
        rows = LanceFileReader(f"{uri}/_indices/{uuid}/bitmap_page_lookup.lance").read_all().to_table()
        (out / "rows").write_bytes(rows["bitmaps"][3].as_py())
        newest = sorted((pathlib.Path(uri) / "_versions").glob("*.manifest"))[0].read_bytes()
        long = newest[5] > 127 # a tag and the first index's size come before its message
        size = (newest[5] & 127) + (newest[6] << 7 if long else 0)
        (out / "message").write_bytes(newest[6 + long:6 + long + size])


main(pathlib.Path(sys.argv[1]))
