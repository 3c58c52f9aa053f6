/*
 * names.c - what a table name means on one run's connection: "lake:N" is lake_scan(run := R, source := N,
 * reference := M); nothing else is anything. The arguments are named, because the optimiser merges scans
 * with equal positional ones, without looking at the filters that they have taken over. The rewritten text
 * holds no other names; this refusal is the second lock on the same door.
 * Threads: the planning thread.
 */
#include "sql/run_priv.h"

#include <stdlib.h>

static void refuse(duckdb_v2_error_info_handle slot)
{
    duckdb_v2_str text = lk_duck_str(LK_LITERAL("resource is not available"));
    (void)duckdb_v2_error_info_set_code(slot, DUCKDB_V2_ERROR_DATABASE_CATALOG);
    (void)duckdb_v2_error_info_set_text(slot, &text);
}

static bool read_name(duckdb_v2_replacement_scan_info_handle info, size_t *source)
{
    duckdb_v2_qname_handle name = NULL;
    duckdb_v2_str          part = {0};
    idx_t                  count = 0;
    char                   text[32];
    bool good = duckdb_v2_replacement_scan_get_name(info, &name, NULL) == DUCKDB_V2_ERROR_NONE &&
                duckdb_v2_qname_get_part_count(name, &count, NULL) == DUCKDB_V2_ERROR_NONE && count == 1 &&
                duckdb_v2_qname_get_part(name, 0, &part, NULL) == DUCKDB_V2_ERROR_NONE &&
                part.len < sizeof text;
    if (good) {
        memcpy(text, part.ptr, part.len);
        text[part.len] = '\0';
        good = lk_source_index(text, source);
    }
    (void)duckdb_v2_qname_destroy(&name);
    return good;
}

static DUCKDB_V2_ERROR add_argument(duckdb_v2_replacement_scan_info_handle info,
    duckdb_v2_factory_handle factory, const char *name, uint64_t number)
{
    duckdb_v2_value_handle value = NULL;
    duckdb_v2_str          parameter = lk_duck_str(lk_bytes_of(name));
    DUCKDB_V2_ERROR        code = duckdb_v2_value_create_ubigint(factory, number, &value, NULL);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_replacement_scan_add_named_argument(info, &parameter, value, NULL);
    }
    (void)duckdb_v2_value_destroy(&value);
    return code;
}

static uint64_t new_reference(lk_run *run)
{
    if (run->reference_count == run->reference_room) {
        run->reference_room = run->reference_room == 0 ? 8 : run->reference_room * 2;
        run->references = realloc(run->references, run->reference_room * sizeof *run->references);
        LK_ASSERT(run->references != NULL);
    }
    run->references[run->reference_count] = (lk_run_reference){0};
    return run->reference_count++;
}

static void on_name(duckdb_v2_replacement_scan_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    void                    *data = NULL;
    size_t                   source = 0;
    duckdb_v2_factory_handle factory = NULL;
    duckdb_v2_qname_handle   function = NULL;
    duckdb_v2_str            name = lk_duck_str(LK_LITERAL("lake_scan"));
    if (duckdb_v2_replacement_scan_get_user_data(info, &data, NULL) != DUCKDB_V2_ERROR_NONE ||
        !read_name(info, &source)) {
        refuse(*slot);
        return;
    }
    lk_run         *run = data;
    DUCKDB_V2_ERROR code = duckdb_v2_context_get_factory(context, &factory, NULL);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_qname_create(&name, 1, &function, NULL);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_replacement_scan_set_function_name(info, function, NULL);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = add_argument(info, factory, "run", run->id);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = add_argument(info, factory, "source", source);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = add_argument(info, factory, "reference", new_reference(run));
    }
    (void)duckdb_v2_qname_destroy(&function);
    if (code != DUCKDB_V2_ERROR_NONE) {
        refuse(*slot);
    }
}

lk_rc lk_scan_bind_names(lk_run *run, lk_err *err)
{
    duckdb_v2_error_info_handle       info = NULL;
    duckdb_v2_factory_handle          factory = NULL;
    duckdb_v2_replacement_scan_handle scan = NULL;
    duckdb_v2_opaque                  user = {run, NULL, NULL};
    DUCKDB_V2_ERROR code = duckdb_v2_connection_get_factory(run->connection, &factory, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_replacement_scan_create(factory, &scan, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_replacement_scan_set_callback(scan, on_name, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_replacement_scan_set_user_data(scan, &user, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_connection_register_replacement_scan(run->connection, scan, &info);
    }
    (void)duckdb_v2_replacement_scan_destroy(&scan);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK
                                        : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "bind names");
}
