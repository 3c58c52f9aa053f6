/*
 * fuzz_base_json.c - the strict JSON reader: as an array, and as an object of one field of each type. What
 * it accepts, the writer must be able to write so that it reads back the same.
 */
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct record {
    lk_bytes      text, raw, bytes;
    uint64_t      number;
    bool          on;
    lk_json_texts texts;
};

static lk_rc read_record(lk_bytes json, lk_arena *arena, struct record *out)
{
    lk_err              err = {0};
    const lk_json_field fields[] = {
        {.name = "text", .type = LK_JSON_TEXT, .target = &out->text, .optional = true},
        {.name = "raw", .type = LK_JSON_RAW, .target = &out->raw, .optional = true},
        {.name = "bytes", .type = LK_JSON_BASE64, .target = &out->bytes, .optional = true},
        {.name = "number", .type = LK_JSON_U64, .target = &out->number, .optional = true},
        {.name = "on", .type = LK_JSON_BOOL, .target = &out->on, .optional = true},
        {.name = "texts", .type = LK_JSON_TEXTS, .target = &out->texts, .optional = true},
    };
    *out = (struct record){0};
    return lk_json_read(json, fields, sizeof fields / sizeof fields[0], arena, &err);
}

static void write_record(const struct record *r, lk_buf *out)
{
    lk_json_writer w = {out, false};
    lk_json_object(&w);
    lk_json_key(&w, "text");
    lk_json_text(&w, r->text);
    if (r->raw.size > 0) {
        lk_json_key(&w, "raw");
        lk_json_raw(&w, r->raw);
    }
    lk_json_key(&w, "bytes");
    lk_json_base64(&w, r->bytes);
    lk_json_key(&w, "number");
    lk_json_u64(&w, r->number);
    lk_json_key(&w, "on");
    lk_json_bool(&w, r->on);
    lk_json_key(&w, "texts");
    lk_json_array(&w);
    for (size_t i = 0; i < r->texts.count; i++) {
        lk_json_text(&w, r->texts.items[i]);
    }
    lk_json_array_end(&w);
    lk_json_object_end(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena      arena = {0};
    lk_err        err = {0};
    lk_buf        written = {0};
    lk_json_texts items = {0};
    struct record first, second;
    lk_bytes      json = {(const char *)data, size};
    if (lk_json_elements(json, 1000, &arena, &items, &err) == LK_OK) {
        LK_ASSERT(items.count <= 1000);
    }
    if (read_record(json, &arena, &first) == LK_OK) {
        write_record(&first, &written);
        LK_ASSERT(read_record(lk_buf_view(&written), &arena, &second) == LK_OK);
        LK_ASSERT(lk_bytes_equal(first.text, second.text) && lk_bytes_equal(first.bytes, second.bytes));
        LK_ASSERT(lk_bytes_equal(first.raw, second.raw) && first.texts.count == second.texts.count);
        LK_ASSERT(first.number == second.number && first.on == second.on);
        for (size_t i = 0; i < first.texts.count; i++) {
            LK_ASSERT(lk_bytes_equal(first.texts.items[i], second.texts.items[i]));
        }
    }
    lk_buf_deinit(&written);
    lk_arena_close(&arena);
    return 0;
}
