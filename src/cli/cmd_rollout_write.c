/*
 * cmd_rollout_write.c - `lake rollout put|merge`: records of a file into a rollout store, behind a server or in place.
 *
 * A put goes in groups, each one add: atomic, durable and visible when it is answered. Ids are given before the first attempt,
 * so a group whose answer was lost is sent again and is there once.
 */
#include "arrow/ipc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/rollout_input.h"
#include "cli/rollout_target.h"
#include "rollout/records_arrow.h"
#include "rollout/records_json.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PUT, MERGE };
enum { GROUP_ROWS = 1024, GROUP_BYTES = 8 * 1024 * 1024, IDS_MAX = LK_RECORD_ROWS_MAX };

/* -- put -------------------------------------------------------------------------------------------------------------- */
typedef struct put {
    lk_rollout_target_args   where;
    const char              *name, *files;
    lk_arg_texts             payloads;
    bool                     create, ids, json;
    lk_rollout_input_options input;
    lk_rollout_target        target;
    lk_rollout_store        *store; /* in place */
    uint64_t                 records, groups, version;
} put;

static void print_ids(const lk_bytes *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("%.*s\n", LK_FMT(ids[i]));
    }
}

/* -- rows as a body -- */
typedef struct sink {
    lk_ipc_sink base;
    lk_buf     *out;
} sink;

static lk_rc append(lk_ipc_sink *base, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(((sink *)base)->out, data, size);
    return LK_OK;
}

static lk_rc encode_rows(
    const lk_rollout_input *input, const lk_rollout_group_in *group, lk_buf *body, lk_err *err)
{
    sink           to = {{append}, body};
    lk_ipc_writer *writer = NULL;
    lk_rc rc = lk_ipc_writer_open(lk_rollout_input_schema(input), LK_IPC_STREAM, &to.base, &writer, err);
    if (rc == LK_OK) {
        rc = lk_ipc_writer_write(writer, group->rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_finish(writer, err);
    }
    lk_ipc_writer_close(writer);
    return rc;
}

/* -- in place -- */
static lk_rc fill(
    const lk_rollout_input *input, const lk_rollout_group_in *group, lk_records *records, lk_err *err)
{
    lk_buf body = {0};
    lk_rc  rc = LK_OK;
    if (group->rows != NULL) {
        rc = encode_rows(input, group, &body, err);
        rc = rc == LK_OK ? lk_records_read_arrow(records, &body, NULL, err) : rc;
        lk_buf_deinit(&body);
        return rc;
    }
    rc = lk_records_read_json(records, lk_buf_view(&group->json), err);
    for (size_t i = 0; i < group->payload_count && rc == LK_OK; i++) {
        const lk_rollout_payload *p = &group->payloads[i];
        rc = lk_records_set_payload(records, p->index, lk_buf_view(&p->bytes), true, err);
    }
    return rc;
}

static lk_rc add_here(put *p, const lk_rollout_input *input, const lk_rollout_group_in *group, lk_err *err)
{
    lk_records *records = NULL;
    lk_rc       rc = lk_records_open(lk_clock_wall_ms(lk_clock_real()) * 1000, NULL, &records, err);
    if (rc == LK_OK) {
        rc = fill(input, group, records, err);
    }
    lk_buf ids = {0};
    for (size_t i = 0; rc == LK_OK && p->ids && i < lk_records_count(records); i++) {
        lk_buf_append_bytes(&ids, lk_records_id(records, i));
        lk_buf_append_text(&ids, "\n");
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_add(p->store, records, group->payload_count > 0, &p->version, err);
    }
    if (rc == LK_OK && p->ids) {
        (void)fwrite(ids.data, 1, ids.size, stdout);
    }
    lk_buf_deinit(&ids);
    lk_records_close(records);
    return rc;
}

/* -- behind a server -- */
static void add_part(lk_buf *body, const char *boundary, const char *name, lk_bytes content)
{
    lk_buf_format(body, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n", boundary, name);
    lk_buf_append_bytes(body, content);
    lk_buf_append_text(body, "\r\n");
}

/* A form whose boundary is random, so that no content has it. */
static const char *encode_form(const lk_rollout_group_in *group, lk_arena *arena, lk_buf *body)
{
    char boundary[LK_UUID_TEXT_SIZE + 1], name[24];
    lk_uuid_format(lk_uuid_v7(lk_clock_real(), lk_random_os()), boundary);
    add_part(body, boundary, "metadata", lk_buf_view(&group->json));
    for (size_t i = 0; i < group->payload_count; i++) {
        (void)snprintf(name, sizeof name, "%zu", group->payloads[i].index);
        add_part(body, boundary, name, lk_buf_view(&group->payloads[i].bytes));
    }
    lk_buf_format(body, "--%s--\r\n", boundary);
    return lk_arena_format(arena, "multipart/form-data; boundary=%s", boundary).data;
}

static lk_rc read_answer(put *p, lk_bytes answer, lk_arena *arena, lk_err *err)
{
    lk_json_texts       ids = {0};
    uint64_t            count = 0;
    const lk_json_field fields[] = {{"version", LK_JSON_U64, &p->version, false, NULL},
        {"ids", LK_JSON_TEXTS, &ids, false, NULL}, {"count", LK_JSON_U64, &count, false, NULL}};
    lk_rc               rc = lk_json_read(answer, fields, 3, arena, err);
    if (rc != LK_OK) {
        lk_context(err, "what %s answered to an add", lk_rollout_remote_url(p->target.remote));
    } else if (p->ids) {
        print_ids(ids.items, ids.count);
    }
    return rc;
}

static lk_rc add_there(put *p, const lk_rollout_input *input, const lk_rollout_group_in *group, lk_err *err)
{
    lk_arena        arena = {0};
    lk_buf          body = {0}, answer = {0};
    lk_rc           rc = LK_OK;
    lk_rollout_call call = {.method = "POST", .path = lk_rollout_target_path(&arena, p->name, "/records")};
    if (group->rows != NULL) {
        call.content_type = "application/vnd.apache.arrow.stream";
        rc = encode_rows(input, group, &body, err);
        call.body = lk_buf_view(&body);
    } else if (group->payload_count > 0) {
        call.content_type = encode_form(group, &arena, &body);
        call.body = lk_buf_view(&body);
    } else {
        call.content_type = "application/json";
        call.body = lk_buf_view(&group->json);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_remote_call(p->target.remote, &call, &answer, err);
    }
    if (rc == LK_OK) {
        rc = read_answer(p, lk_buf_view(&answer), &arena, err);
    }
    lk_buf_deinit(&body);
    lk_buf_deinit(&answer);
    lk_arena_close(&arena);
    return rc;
}

/* -- both -- */
static lk_rc create_there(put *p, lk_err *err)
{
    lk_buf         body = {0}, answer = {0};
    lk_json_writer w = {.out = &body};
    lk_json_object(&w);
    lk_json_key(&w, "name");
    lk_json_text(&w, lk_bytes_of(p->name));
    lk_json_object_end(&w);
    const lk_rollout_call call = {.method = "POST",
        .path = "/rollouts",
        .content_type = "application/json",
        .body = lk_buf_view(&body)};
    lk_rc                 rc = lk_rollout_remote_call(p->target.remote, &call, &answer, err);
    lk_buf_deinit(&body);
    lk_buf_deinit(&answer);
    return rc;
}

/* --create: a store that is there already is fine. */
static lk_rc open_store(put *p, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (p->create) {
        rc = p->target.remote != NULL
                 ? create_there(p, err)
                 : lk_rollouts_create(p->target.stores, lk_bytes_of(p->name), &p->store, err);
        if (rc == LK_E_TABLE_EXISTS) {
            *err = (lk_err){0};
            rc = LK_OK;
        }
    }
    return rc == LK_OK && p->target.stores != NULL && p->store == NULL
               ? lk_rollout_target_store(&p->target, p->name, &p->store, err)
               : rc;
}

static lk_rc put_file(put *p, lk_progress *progress, lk_err *err)
{
    lk_rollout_input *input = NULL;
    lk_rc             rc = lk_rollout_input_open(&p->input, &input, err);
    for (bool more = true; more && rc == LK_OK;) {
        lk_rollout_group_in group;
        rc = lk_rollout_input_next(input, &group, err);
        more = rc == LK_OK && group.count > 0;
        if (more) {
            rc = (p->target.remote != NULL ? add_there : add_here)(p, input, &group, err);
            if (rc != LK_OK) {
                lk_rollout_input_locate(input, &group, err);
            }
            p->records += rc == LK_OK ? group.count : 0;
            p->groups += rc == LK_OK;
            lk_progress_show(progress, p->records);
        }
        lk_rollout_group_in_deinit(&group);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_input_finish(input, err);
    }
    lk_rollout_input_close(input);
    return rc;
}

static lk_rc put_all(lk_cli *cli, put *p, lk_err *err)
{
    lk_progress progress = {.what = "records"};
    p->where.make = p->create;
    lk_rc rc = lk_rollout_target_open(&p->target, cli, &p->where, err);
    if (rc == LK_OK) {
        rc = open_store(p, err);
    }
    if (rc == LK_OK) {
        rc = put_file(p, &progress, err);
        lk_progress_end(&progress);
    }
    if (rc != LK_OK && p->records > 0) {
        lk_context(err, "the first %" PRIu64 " records are in, the rest is not", p->records);
    }
    lk_rollout_store_unref(p->store);
    lk_rollout_target_close(&p->target);
    return rc;
}

static void report_put(const put *p)
{
    const lk_report_number numbers[] = {
        {"records", p->records}, {"adds", p->groups}, {"version", p->version}};
    lk_buf sentence = {0};
    lk_buf_format(&sentence, "put %" PRIu64 " record%s into %s in %" PRIu64 " add%s", p->records,
        p->records == 1 ? "" : "s", p->name, p->groups, p->groups == 1 ? "" : "s");
    if (!p->ids) {
        lk_report(p->json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    }
    lk_buf_deinit(&sentence);
}

static int put_command(lk_cli *cli, int argc, char **argv)
{
    put          p = {.where = {.retry_secs = LK_ROLLOUT_RETRY_SECS},
                 .input = {.rows_max = GROUP_ROWS,
                     .bytes_max = GROUP_BYTES,
                     .random = lk_random_os(),
                     .clock = lk_clock_real()}};
    lk_err       err = {0};
    int          code = 0;
    const lk_arg args[] = {
        {"NAME", LK_ARG_OPERAND, &p.name, NULL, "the store", false},
        {"FILE", LK_ARG_OPERAND, &p.input.path, NULL,
            "NDJSON, JSON, Arrow, Parquet or CSV by its ending; - is stdin", false},
        {"--format", LK_ARG_TEXT, &p.input.kind, "KIND",
            "what stdin is: ndjson (default), json or arrow; or what a file is in spite of its ending",
            false},
        {"--payload", LK_ARG_TEXTS, &p.payloads, "ID=FILE", "the record's binary_payload is this file",
            false},
        {"--create", LK_ARG_FLAG, &p.create, NULL, "make the store if there is none", false},
        {"--batch-rows", LK_ARG_U64, &p.input.rows_max, "N", "records in one add, at most (1024)", false},
        {"--batch-bytes", LK_ARG_U64, &p.input.bytes_max, "N", "their bytes, at most (8 MiB)", false},
        {"--ids", LK_ARG_FLAG, &p.ids, NULL, "print the records' ids, a line each, as they are in", false},
        {"--json", LK_ARG_FLAG, &p.json, NULL, "one JSON object", false},
        LK_ROLLOUT_TARGET_ARGS(p.where),
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_write_commands[PUT], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    p.input.payloads = p.payloads.items;
    p.input.payload_count = p.payloads.count;
    p.input.rows_max = p.input.rows_max < 1 ? 1 : p.input.rows_max;
    p.input.rows_max = p.input.rows_max < LK_RECORD_ROWS_MAX ? p.input.rows_max : LK_RECORD_ROWS_MAX;
    lk_rc rc = put_all(cli, &p, &err);
    if (rc == LK_OK) {
        report_put(&p);
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- merge --------------------------------------------------------------------------------------------------------------- */
static lk_rc merge_there(
    lk_rollout_target *target, const char *name, lk_rollout_merge_report *out, lk_err *err)
{
    lk_arena              arena = {0};
    lk_buf                answer = {0};
    uint64_t              reclaimed = 0;
    const lk_rollout_call call = {.method = "POST",
        .path = lk_rollout_target_path(&arena, name, "/merge"),
        .content_type = "application/json",
        .body = LK_LITERAL("{}")};
    const lk_json_field   fields[] = {{"reclaimed", LK_JSON_U64, &reclaimed, false, NULL}};
    lk_rc                 rc = lk_rollout_remote_call(target->remote, &call, &answer, err);
    if (rc == LK_OK) {
        rc = lk_json_read(lk_buf_view(&answer), fields, 1, &arena, err);
        out->generations = (size_t)reclaimed;
    }
    lk_buf_deinit(&answer);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc merge_here(
    lk_rollout_target *target, const char *name, lk_rollout_merge_report *out, lk_err *err)
{
    const lk_rollout_merge_options all = {0};
    lk_rollout_store              *store = NULL;
    lk_rc                          rc = lk_rollout_target_store(target, name, &store, err);
    if (rc == LK_OK) {
        rc = lk_rollout_store_merge(store, &all, out, err);
    }
    lk_rollout_store_unref(store);
    return rc;
}

static int merge_command(lk_cli *cli, int argc, char **argv)
{
    lk_rollout_target_args  where = {.retry_secs = LK_ROLLOUT_RETRY_SECS};
    lk_rollout_target       target = {0};
    lk_rollout_merge_report done = {0};
    const char             *name = NULL;
    bool                    json = false;
    lk_err                  err = {0};
    int                     code = 0;
    const lk_arg            args[] = {
                   {"NAME", LK_ARG_OPERAND, &name, NULL, "the store", false},
                   {"--json", LK_ARG_FLAG, &json, NULL, "one JSON object", false},
                   LK_ROLLOUT_TARGET_ARGS(where),
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_write_commands[MERGE], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    lk_rc rc = lk_rollout_target_open(&target, cli, &where, &err);
    if (rc == LK_OK) {
        rc = (target.remote != NULL ? merge_there : merge_here)(&target, name, &done, &err);
    }
    lk_rollout_target_close(&target);
    if (rc == LK_OK) {
        const lk_report_number number = {"reclaimed", done.generations};
        lk_report(json,
            lk_arena_format(
                &cli->arena, "merged %zu generation%s", done.generations, done.generations == 1 ? "" : "s")
                .data,
            &number, 1);
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_rollout_write_commands[] = {
    [PUT] = {{"rollout put", "add records of a file to a rollout store",
                 "A record is an object with rollout_id and any of the columns of docs/ROLLOUT.md; one "
                 "without an id "
                 "gets one.\nIds are given before anything is sent, so what is sent again after a lost "
                 "answer is there "
                 "once. A group\n(--batch-rows) is added whole or not at all, and is durable when it is "
                 "answered. While the "
                 "server is busy (429,\n503) or away, a group is tried again for --retry-secs. Examples:\n"
                 "  lake rollout put rl episodes.ndjson --create\n"
                 "  echo '{\"rollout_id\":\"r1\",\"content\":\"hi\"}' | lake rollout put rl - --ids\n"
                 "  lake rollout put rl rows.parquet --url https://rollout.example --token-file token\n"
                 "  lake rollout put rl video.json --payload take-7=take7.mp4\n"
                 "  lake rollout put rl rows.arrow --data-dir ./rollouts        (without a server)"},
        put_command},
    [MERGE] =
        {{"rollout merge", "merge an instance's pending generations into the base table",
             "Of the instance that answers, or with --data-dir of the shard of --instance-id. Reading gets "
             "cheaper;\nnothing that readers see changes. For a shard whose instance is gone: lake rollout "
             "adopt."},
            merge_command},
    {{NULL, NULL, NULL}, NULL},
};
