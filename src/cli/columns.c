/* columns.c - see columns.h. */
#include "cli/columns.h"

#include "arrow/schema.h"

static bool nullable(const struct ArrowSchema *field)
{
    return (field->flags & ARROW_FLAG_NULLABLE) != 0;
}

void lk_columns_print(const struct ArrowSchema *schema, FILE *out)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];
        lk_buf                    type = {0};
        lk_type_format(field, &type);
        fprintf(out, "%-24s %.*s%s\n", field->name, LK_FMT(lk_buf_view(&type)), nullable(field) ? "?" : "");
        lk_buf_deinit(&type);
    }
}

void lk_columns_json(const struct ArrowSchema *schema, lk_json_writer *json)
{
    lk_json_array(json);
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];
        lk_buf                    type = {0};
        lk_type_format(field, &type);
        lk_json_object(json);
        lk_json_key(json, "name");
        lk_json_text(json, lk_bytes_of(field->name));
        lk_json_key(json, "type");
        lk_json_text(json, lk_buf_view(&type));
        lk_json_key(json, "nullable");
        lk_json_bool(json, nullable(field));
        lk_json_object_end(json);
        lk_buf_deinit(&type);
    }
    lk_json_array_end(json);
}
