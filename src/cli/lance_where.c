/*
 * lance_where.c - see lance_where.h. The condition becomes `SELECT _rowid ... WHERE (condition)` (lance_sql.h), after a look at
 * its type.
 */
#include "cli/lance_where.h"

#include "cli/cli.h"
#include "cli/lance_sql.h"

#include <stdlib.h>
#include <string.h>

struct lk_cli_where {
    lk_row_selector   selector;
    lk_cli_lance_sql *sql;
    lk_buf            statement, probe; /* probe: the condition as a column of no rows */
};

/* Everything could be cast to true or false; what a condition like "1" meant is better asked than guessed. */
static lk_rc check_type(lk_cli_where *self, const lk_cli_lance_table *table, lk_err *err)
{
    lk_batches *none = NULL;
    lk_rc       rc = lk_cli_lance_sql_run(self->sql, lk_buf_view(&self->probe), table, 1, 1, &none, err);
    if (rc == LK_OK && strcmp(none->schema.children[0]->format, "b") != 0) {
        rc = lk_refuse(
            err, LK_E_INVALID_SQL, "the condition is not boolean: it must be true or false for a row");
    }
    lk_batches_close(none);
    return rc;
}

static lk_rc choose(void *context, lk_dataset *version, lk_row_set *rows, lk_err *err)
{
    lk_cli_where            *self = context;
    const lk_cli_lance_table table = {"dataset", version};
    lk_rc                    rc = check_type(self, &table, err);
    if (rc != LK_OK) {
        return rc;
    }
    return lk_cli_lance_sql_rows(self->sql, lk_buf_view(&self->statement), &table, 1, rows, err);
}

lk_rc lk_cli_where_open(const lk_config *config, const char *condition, lk_cli_where **out, lk_err *err)
{
    if (condition[strspn(condition, " \t\r\n")] == '\0') {
        return lk_cli_usage(err, "the condition is empty");
    }
    lk_cli_where *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->selector = (lk_row_selector){choose, self, lk_bytes_of(condition)};
    /* A line of its own: a comment at its end must not take the parenthesis along. */
    lk_buf_format(&self->statement, "SELECT _rowid FROM lake.lance.dataset WHERE (\n%s\n)", condition);
    lk_buf_format(&self->probe, "SELECT (\n%s\n) FROM lake.lance.dataset LIMIT 0", condition);
    lk_rc rc = lk_cli_lance_sql_open(config, &self->sql, err);
    if (rc != LK_OK) {
        lk_cli_where_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_cli_where_close(lk_cli_where *where)
{
    if (where == NULL) {
        return;
    }
    lk_cli_lance_sql_close(where->sql);
    lk_buf_deinit(&where->statement);
    lk_buf_deinit(&where->probe);
    free(where);
}

const lk_row_selector *lk_cli_where_selector(const lk_cli_where *where)
{
    return &where->selector;
}
