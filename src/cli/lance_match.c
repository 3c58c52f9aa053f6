/* lance_match.c - see lance_match.h. */
#include "cli/lance_match.h"

#include "arrow/schema.h"
#include "cli/cli.h"
#include "cli/lance_sql.h"

#include <stdlib.h>

struct lk_cli_match {
    lk_row_matcher    matcher;
    lk_cli_lance_sql *sql;
    const lk_bytes   *keys;
    size_t            count;
};

/* "s.key = t.key AND ..." */
static void put_condition(const lk_cli_match *self, lk_buf *out)
{
    for (size_t i = 0; i < self->count; i++) {
        lk_buf_append_text(out, i == 0 ? "s." : " AND s.");
        lk_cli_lance_sql_name(out, self->keys[i]);
        lk_buf_append_text(out, " = t.");
        lk_cli_lance_sql_name(out, self->keys[i]);
    }
}

/* "s.key, ..." between `between`, each followed by `after`. */
static void put_keys(const lk_cli_match *self, const char *between, const char *after, lk_buf *out)
{
    for (size_t i = 0; i < self->count; i++) {
        lk_buf_append_text(out, i == 0 ? "s." : between);
        if (i > 0) {
            lk_buf_append_text(out, "s.");
        }
        lk_cli_lance_sql_name(out, self->keys[i]);
        lk_buf_append_text(out, after);
    }
}

static lk_rc check_keys(const lk_cli_match *self, lk_dataset *dataset, const char *whose, lk_err *err)
{
    for (size_t i = 0; i < self->count; i++) {
        lk_bytes key = self->keys[i];
        if (lk_schema_find(lk_dataset_schema(dataset), key) < 0) {
            return lk_cli_usage(
                err, "%s has no column %.*s", whose, (int)(key.size < 100 ? key.size : 100), key.data);
        }
    }
    return LK_OK;
}

/* Two rows of the source with one key would both want to be the table's row. */
static lk_rc check_unique(lk_cli_match *self, lk_dataset *source, lk_err *err)
{
    const lk_cli_lance_table table = {"source", source};
    lk_buf                   text = {0};
    lk_batches              *found = NULL;
    struct ArrowArray        batch = {0};
    lk_buf_append_text(&text, "SELECT count(*) FROM lake.lance.source s WHERE ");
    put_keys(self, " AND ", " IS NOT NULL", &text);
    lk_buf_append_text(&text, " GROUP BY ");
    put_keys(self, ", ", "", &text);
    lk_buf_append_text(&text, " HAVING count(*) > 1 LIMIT 1");
    lk_rc rc = lk_cli_lance_sql_run(self->sql, lk_buf_view(&text), &table, 1, 1, &found, err);
    while (rc == LK_OK) {
        rc = lk_batches_next(found, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            break;
        }
        if (batch.length > 0) {
            rc = lk_refuse(err, LK_E_INVALID_REQUEST, "several rows of the source have the same key");
        }
        lk_array_release(&batch);
    }
    lk_batches_close(found);
    lk_buf_deinit(&text);
    return rc;
}

static lk_rc match(void *context, lk_dataset *source, lk_dataset *version, lk_batches **pairs, lk_err *err)
{
    lk_cli_match            *self = context;
    const lk_cli_lance_table tables[] = {{"source", source}, {"dataset", version}};
    lk_buf                   text = {0};
    lk_rc                    rc = check_keys(self, source, "the source", err);
    if (rc == LK_OK) {
        rc = check_keys(self, version, "the dataset", err);
    }
    if (rc == LK_OK) {
        rc = check_unique(self, source, err);
    }
    lk_buf_append_text(
        &text, "SELECT s._rowid, t._rowid FROM lake.lance.source s LEFT JOIN lake.lance.dataset t ON ");
    put_condition(self, &text);
    lk_buf_append_text(&text, " ORDER BY 1, 2");
    if (rc == LK_OK) {
        rc = lk_cli_lance_sql_run(self->sql, lk_buf_view(&text), tables, 2, 2, pairs, err);
    }
    lk_buf_deinit(&text);
    return rc;
}

static lk_rc unmatched(void *context, lk_dataset *source, lk_dataset *version, lk_row_set *rows, lk_err *err)
{
    lk_cli_match            *self = context;
    const lk_cli_lance_table tables[] = {{"source", source}, {"dataset", version}};
    lk_buf                   text = {0};
    lk_rc                    rc = check_keys(self, source, "the source", err);
    if (rc == LK_OK) {
        rc = check_keys(self, version, "the dataset", err);
    }
    lk_buf_append_text(&text, "SELECT t._rowid FROM lake.lance.dataset t WHERE NOT EXISTS (SELECT 1 FROM "
                              "lake.lance.source s WHERE ");
    put_condition(self, &text);
    lk_buf_append_text(&text, ")");
    if (rc == LK_OK) {
        rc = lk_cli_lance_sql_rows(self->sql, lk_buf_view(&text), tables, 2, rows, err);
    }
    lk_buf_deinit(&text);
    return rc;
}

static bool is_key(void *context, lk_bytes column)
{
    const lk_cli_match *self = context;
    bool                found = false;
    for (size_t i = 0; i < self->count && !found; i++) {
        found = lk_bytes_equal(self->keys[i], column);
    }
    return found;
}

lk_rc lk_cli_match_open(
    const lk_config *config, const lk_bytes *keys, size_t count, lk_cli_match **out, lk_err *err)
{
    lk_cli_match *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->matcher = (lk_row_matcher){match, unmatched, is_key, self};
    self->keys = keys;
    self->count = count;
    lk_rc rc = lk_cli_lance_sql_open(config, &self->sql, err);
    if (rc != LK_OK) {
        lk_cli_match_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_cli_match_close(lk_cli_match *match)
{
    if (match != NULL) {
        lk_cli_lance_sql_close(match->sql);
        free(match);
    }
}

const char *lk_cli_match_scratch(const lk_cli_match *match)
{
    return lk_cli_lance_sql_scratch(match->sql);
}

const lk_row_matcher *lk_cli_match_matcher(const lk_cli_match *match)
{
    return &match->matcher;
}
