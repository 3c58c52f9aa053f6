/* mem_wal.c - see mem_wal.h. */
#include "lance/mem_wal.h"

#include "lance/change.h"
#include "lance/index_priv.h"
#include "lance/rebase.h"
#include "lance/wire.h"

#include <inttypes.h>

#define MEM_WAL_NAME "__lance_mem_wal"

typedef struct mem_wal_change {
    lk_change base; /* first: plan_mem_wal gets this */
    lk_buf    message;
    bool      made_by_another;
} mem_wal_change;

/* -- messages ---------------------------------------------------------------------------------------------- */

static void put_message(lk_buf *out, uint32_t number, lk_buf *message)
{
    lk_wire_put_bytes(out, number, lk_buf_view(message));
    lk_buf_deinit(message);
}

/* One spec, by which all rows are in one shard. */
static void put_details(lk_buf *out)
{
    enum { NUM_SHARDS = 2, SHARDING_SPECS = 7, SPEC_ID = 1, SPEC_FIELDS = 2 };
    enum { FIELD_ID = 1, FIELD_TRANSFORM = 3, FIELD_RESULT_TYPE = 5 };
    lk_buf spec = {0}, field = {0};
    lk_wire_put_bytes(&field, FIELD_ID, LK_LITERAL("bucket"));
    lk_wire_put_bytes(&field, FIELD_TRANSFORM, LK_LITERAL("unsharded"));
    lk_wire_put_bytes(&field, FIELD_RESULT_TYPE, LK_LITERAL("int32"));
    lk_wire_put_u64(&spec, SPEC_ID, 1);
    put_message(&spec, SPEC_FIELDS, &field);
    lk_wire_put_u64(out, NUM_SHARDS, 1);
    put_message(out, SHARDING_SPECS, &spec);
}

static void put_index(const lk_dataset *base, lk_buf *out)
{
    enum { UUID_BYTES = 1, ANY_TYPE = 1, ANY_VALUE = 2 };
    const lk_lance_env *env = &base->env;
    lk_buf              inner = {0}, details = {0};
    lk_uuid             uuid = lk_uuid_v7(env->clock, env->random);
    lk_wire_put_bytes(&inner, UUID_BYTES, (lk_bytes){(const char *)uuid.bytes, sizeof uuid.bytes});
    put_message(out, LK_INDEX_UUID, &inner);
    lk_wire_put_bytes(out, LK_INDEX_NAME, LK_LITERAL(MEM_WAL_NAME));
    lk_wire_put_u64(out, LK_INDEX_DATASET_VERSION, base->manifest->version);
    put_details(&details);
    lk_wire_put_bytes(&inner, ANY_TYPE, LK_LITERAL("/lance.table.MemWalIndexDetails"));
    put_message(&inner, ANY_VALUE, &details);
    put_message(out, LK_INDEX_DETAILS, &inner);
    lk_wire_put_u64(out, LK_INDEX_VERSION, 0);
    lk_wire_put_u64(out, LK_INDEX_CREATED_AT, lk_clock_wall_ms(env->clock));
}

static lk_rc section_has(lk_bytes section, lk_arena *arena, bool *found, lk_err *err)
{
    lk_wire_field part;
    *found = false;
    while (section.size > 0) {
        lk_index index = {0};
        lk_bytes bitmap = {0};
        uint32_t base = 0;
        bool     has_base = false;
        if (!lk_wire_next(&section, &part) ||
            (part.number == LK_INDEX_SECTION_INDICES &&
                !lk_index_parse(part.value, arena, &index, &bitmap, &base, &has_base))) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "the index section is malformed");
        }
        *found = *found || (part.number == LK_INDEX_SECTION_INDICES &&
                               lk_bytes_equal(index.name, LK_LITERAL(MEM_WAL_NAME)));
    }
    return LK_OK;
}

/* -- the change -------------------------------------------------------------------------------------------- */

static lk_rc plan_mem_wal(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    enum { OPERATION_NEW = 1 };
    mem_wal_change *c = (mem_wal_change *)change;
    lk_bytes        section = plan->has_index_section ? plan->index_section : (lk_bytes){0};
    lk_buf          whole = {0}, operation = {0};
    (void)tip;
    lk_rc rc = section_has(section, arena, &c->made_by_another, err);
    if (rc == LK_OK && c->made_by_another) {
        rc = lk_fail(err, LK_E_CONFLICT, "another writer made the MemWAL index");
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_buf_append_bytes(&whole, section);
    lk_wire_put_bytes(&whole, LK_INDEX_SECTION_INDICES, lk_buf_view(&c->message));
    lk_wire_put_bytes(&operation, OPERATION_NEW, lk_buf_view(&c->message));
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    plan->index_section = lk_arena_copy(arena, lk_buf_view(&whole));
    plan->has_index_section = true;
    lk_buf_deinit(&whole);
    lk_buf_deinit(&operation);
    return LK_OK;
}

static const lk_change_ops mem_wal_ops = {LK_OPERATION_CREATE_INDEX, lk_rebase_keeps_rows, plan_mem_wal};

lk_rc lk_mem_wal_found(lk_dataset *dataset, bool *found, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes section = {0};
    bool     has_section = false;
    *found = false;
    lk_rc rc =
        lk_manifest_index_section(dataset->env.store, dataset->manifest, &arena, &section, &has_section, err);
    if (rc == LK_OK && has_section) {
        rc = section_has(section, &arena, found, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc create(lk_dataset *base, lk_committer *committer, lk_dataset **out, lk_err *err)
{
    lk_manifest   *committed = NULL;
    lk_err         failure = {0};
    mem_wal_change c = {
        .base = {.ops = &mem_wal_ops, .env = &base->env, .committer = committer, .base = base->manifest}};
    put_index(base, &c.message);
    lk_rc rc = lk_change_commit(&c.base, &committed, &failure);
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        lk_change_undo(&c.base, &failure);
        if (c.made_by_another) {
            rc = lk_dataset_open(&base->env, 0, out, err);
        } else {
            *err = failure;
        }
    }
    lk_buf_deinit(&c.message);
    lk_change_deinit(&c.base);
    return rc;
}

lk_rc lk_mem_wal_create(lk_dataset *base, lk_committer *committer, lk_dataset **out, lk_err *err)
{
    bool  found = false;
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = lk_mem_wal_found(base, &found, err);
    }
    if (rc == LK_OK && found) {
        *out = lk_dataset_ref(base);
        return LK_OK;
    }
    return rc == LK_OK ? create(base, committer, out, err) : rc;
}
