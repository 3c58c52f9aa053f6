"""`lake lance verify`: whole tables of ours and of pylance are whole, and each kind of damage is found and named."""
import json
import os
import pathlib
import random
import shutil
import subprocess

import lance
import pyarrow as pa
import pyarrow.ipc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake"))
ROWS = 20000


def lake(*arguments, **options):
    return subprocess.run([BIN, "lance", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def must(done):
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def text(row):
    """Nothing that compresses, so that it lies in the file as it is."""
    return "".join(random.Random(row).choices([chr(c) for c in range(33, 127)], k=20))


def table(rows=ROWS):
    return pa.table({"a": pa.array(range(rows), pa.int64()), "s": [text(i) for i in range(rows)],
                     "n": pa.array([i if i % 3 else None for i in range(rows)], pa.int32()),
                     "l": [[i, i + 1] if i % 5 else None for i in range(rows)],
                     "st": [{"x": i, "y": str(i)} for i in range(rows)],
                     "d": pa.array([f"name {i % 7}" for i in range(rows)]).dictionary_encode()})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A table of ours with everything in it: two fragments, deletions, an index, a tag."""
    directory = tmp_path_factory.mktemp("verify")
    file, uri = directory / "in.arrow", directory / "whole.lance"
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, table().schema) as writer:
        writer.write_table(table())
    must(lake("write", uri, file))
    must(lake("write", uri, file, "--mode", "append"))
    must(lake("tag", "create", uri, "kept", "--version", 2))
    must(lake("delete", uri, "--where", "a % 7 = 3"))
    must(lake("index", "create", uri, "--column", "a"))
    return uri


@pytest.fixture
def copy(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / "copy.lance"))


def damage(uri, *options):
    done = lake("verify", uri, "--json", *options)
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["damages"] else 0)
    assert len(report["damage"]) == report["damages"]
    return report["damage"]


def newest(directory, pattern="*"):
    return max(directory.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def flip(path, at, bits=0xFF):
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def found(uri, what, reason, *options):
    """There is damage of this object for this reason (one of the words suffices), and nothing stops the looking."""
    reasons = (reason,) if isinstance(reason, str) else reason
    all_of_it = damage(uri, *options)
    assert any(what in one["object"] and any(word in one["reason"] for word in reasons) for one in all_of_it), all_of_it


def test_what_is_whole_is_said_to_be(whole):
    report = json.loads(must(lake("verify", whole, "--all", "--json")))
    assert report["damages"] == 0 and report["versions"] == 4 and report["data_files"] == 2
    assert report["rows"] == 2 * ROWS and report["values"] == 12 * ROWS
    assert report["deletion_files"] == 2 and report["indices"] == 1 and report["references"] == 1
    assert must(lake("verify", whole)).startswith("whole: ")
    assert lake("verify", whole, "--version", 99).returncode == 4
    assert lake("verify", whole, "--version", 1, "--all").returncode == 2
    assert lake("verify", whole / "nothing").returncode == 4


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_tables_of_pylance_are_whole_at_every_version(tmp_path, version, stable):
    uri = str(tmp_path / "theirs.lance")
    lance.write_dataset(table(), uri, data_storage_version=version, enable_stable_row_ids=stable, max_rows_per_file=6000)
    dataset = lance.dataset(uri)
    dataset.tags.create("first", 1)
    dataset.create_branch("side", 1)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("s", "ZONEMAP")
    dataset.create_scalar_index("n", "BITMAP")
    dataset.delete("a % 3 = 0")
    dataset.update({"s": "'changed'"}, where="a < 100")
    dataset.add_columns({"b": "a * 2"})
    dataset.drop_columns(["n"])
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(
        dataset.to_table().slice(0, 50))
    dataset.optimize.compact_files()
    lance.write_dataset(dataset.to_table().slice(0, 100), uri, mode="append")
    assert damage(uri, "--all") == []


def test_a_shallow_clone_is_checked_with_what_it_borrows(tmp_path):
    source, clone = str(tmp_path / "source.lance"), str(tmp_path / "clone.lance")
    lance.write_dataset(table(), source, data_storage_version="2.1")
    lance.dataset(source).shallow_clone(clone, 1)
    assert damage(clone) == []
    newest(pathlib.Path(source) / "data").unlink()
    found(clone, "data/", "missing")


def test_a_missing_file_is_named(copy):
    file = newest(copy / "data")
    file.unlink()
    found(copy, file.name, "missing")


def test_a_cut_file_is_found(copy):
    file = newest(copy / "data")
    os.truncate(file, file.stat().st_size - 100)
    found(copy, file.name, "its size is not what the manifest says")


def test_another_tables_file_is_found(copy, tmp_path):
    other = str(tmp_path / "other.lance")
    lance.write_dataset(table(100), other, data_storage_version="2.1")
    file = newest(copy / "data")
    file.write_bytes(newest(pathlib.Path(other) / "data").read_bytes())
    found(copy, file.name, "its size is not what the manifest says")


def test_a_footer_that_was_changed_is_found(copy):
    for at in (-1, -8, -16, -24, -30):
        file = newest(copy / "data")
        flip(file, at)
        found(copy, file.name, "")
        flip(file, at)
    assert damage(copy) == []


def test_text_that_is_none_is_found(copy):
    file = newest(copy / "data")
    at = file.read_bytes().find(text(1234).encode())
    assert at > 0
    flip(file, at, 0x80)
    found(copy, file.name, "column s")


def test_statistics_that_lie_are_found(copy):
    file = newest(copy / "data")
    at = file.read_bytes().rfind(b"LAKESTAT")
    assert at > 0
    lies = 0
    for offset in range(100, 200):
        flip(file, at + offset, 1)
        lies += any(file.name in one["object"] for one in damage(copy))
        flip(file, at + offset, 1)
        if lies:
            break
    assert lies and damage(copy) == []


def test_deletions_that_are_gone_or_wrong_are_found(copy):
    file = newest(copy / "_deletions")
    kept = file.read_bytes()
    os.truncate(file, len(kept) // 2)
    found(copy, file.name, "")
    file.unlink()
    found(copy, file.name, "missing")
    other = next(path for path in (copy / "_deletions").iterdir())
    shutil.copy(other, file)
    assert isinstance(damage(copy), list)


def test_a_missing_transaction_is_found(copy):
    for file in (copy / "_transactions").iterdir():
        file.unlink()
    found(copy, "_transactions/", "missing")


def test_a_tag_of_no_version_is_found(copy):
    (copy / "_versions/18446744073709551613.manifest").unlink()
    found(copy, "tag kept", "version 2")


def test_a_manifest_that_was_changed_is_found(copy):
    file = newest(copy / "_versions")
    flip(file, -1)
    found(copy, file.name, "")
    flip(file, -1)
    shutil.copy(copy / "_versions/18446744073709551614.manifest", file)
    found(copy, file.name, "it says that it is version 1")


def test_an_index_that_is_not_the_rows_is_found(copy):
    directory = newest(copy / "_indices")
    pages = max(directory.iterdir(), key=lambda path: path.stat().st_size)
    kept = pages.read_bytes()
    lies = 0
    for at in range(len(kept) // 3, len(kept) // 3 + 8):
        flip(pages, at, 1)
        lies += any(one["object"].startswith("index a_idx") for one in damage(copy))
        pages.write_bytes(kept)
    assert lies > 4
    assert damage(copy) == []
    pages.unlink()
    found(copy, "index a_idx", pages.name)


def test_one_damage_does_not_hide_another(copy):
    files = sorted((copy / "data").iterdir())
    for file in files:
        os.truncate(file, 10)
    names = " ".join(one["object"] for one in damage(copy))
    assert all(file.name in names for file in files)


def test_damage_of_an_old_version_is_found_with_all(copy):
    must(lake("columns", "drop", copy, "--column", "s"))
    file = newest(copy / "data")
    at = file.read_bytes().find(text(1234).encode())
    assert at > 0
    flip(file, at, 0x80)
    assert damage(copy) == []
    found(copy, file.name, "column s", "--all")


def test_a_changed_byte_does_no_harm():
    """Our unit test over tables of the reference; every byte of them where the counts are full."""
    arguments = ["all"] if os.environ.get("LAKE_TEST_FULL") else []
    done = subprocess.run([BIN.parent / "tests/test_lance_verify", *arguments], capture_output=True, text=True,
                          timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
