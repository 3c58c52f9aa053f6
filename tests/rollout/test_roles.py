"""test_roles.py - a store of more roles than 8 bits number: what lake does with it, and what the published readers do."""
import io

import lance
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import oracle

ROLES = 200 # of two adds


def roles_of(instance, store, form):
    data = instance.request("GET", f"/api/v1/rollouts/{store}/records?format={form}&columns=id,role&order=none").body
    if form == "parquet":
        return sorted(parquet.read_table(io.BytesIO(data))["role"].to_pylist())
    with pa.ipc.open_stream(data) as stream:
        assert stream.schema.field("role").type == pa.dictionary(pa.int8(), pa.string())
        return sorted(stream.read_all()["role"].to_pylist())


def test_lake_reads_more_than_128_roles_and_published_readers_get_them_one_by_one(instance, store, reference):
    expected = sorted(f"role-{number:03}" for number in range(ROLES))
    for half in (range(ROLES // 2), range(ROLES // 2, ROLES)):
        instance.add(store, [{"id": f"i{number:03}", "rollout_id": "r", "role": f"role-{number:03}"} for number in half])
    for merged in (False, True):
        assert not merged or instance.merge(store)["reclaimed"] == 2
        assert sorted(record["role"] for record in instance.list(store)) == expected
        assert roles_of(instance, store, "arrow") == expected and roles_of(instance, store, "parquet") == expected
        client = reference.connect(f"http://{instance.address}", store)
        assert sorted(record["role"] for record in client.list()) == expected
    embedded = reference.open(instance.store_path(store))
    assert embedded.get("i150")["role"] == "role-150"
    with pytest.raises(oracle.OracleError, match="Dictionary key bigger than the key type"):
        embedded.list()
    table = lance.dataset(str(instance.store_path(store)))
    with pytest.raises(pa.ArrowInvalid, match="Dictionary key bigger than the key type"):
        table.to_table(columns=["id", "role"])
    assert table.to_table(columns=["id"]).num_rows == ROLES
