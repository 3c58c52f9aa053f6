/* rollout_media.c - see rollout_media.h: the fields that speak of types and codings. */
#include "serve/rollout_media.h"

#include "base/err.h"

typedef struct choice {
    const char *name;
    int         value;
} choice;

static const choice body_types[] = {
    {"application/json", LK_ROLLOUT_BODY_JSON},
    {"multipart/form-data", LK_ROLLOUT_BODY_MULTIPART},
    {"application/x-ndjson", LK_ROLLOUT_BODY_NDJSON},
    {"application/ndjson", LK_ROLLOUT_BODY_NDJSON},
    {"application/vnd.apache.arrow.stream", LK_ROLLOUT_BODY_ARROW},
    {NULL, 0},
};

static const choice formats[] = {
    {"application/json", LK_ROLLOUT_AS_JSON},
    {"application/x-ndjson", LK_ROLLOUT_AS_NDJSON},
    {"application/ndjson", LK_ROLLOUT_AS_NDJSON},
    {"application/vnd.apache.arrow.stream", LK_ROLLOUT_AS_ARROW},
    {"application/vnd.apache.parquet", LK_ROLLOUT_AS_PARQUET},
    {NULL, 0},
};

static const choice codings[] = {
    {"gzip", LK_ROLLOUT_GZIP},
    {"x-gzip", LK_ROLLOUT_GZIP},
    {"zstd", LK_ROLLOUT_ZSTD},
    {"identity", LK_ROLLOUT_IDENTITY},
    {NULL, 0},
};

static bool same_word(lk_bytes text, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i < text.size && i < size; i++) {
        char c = text.data[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != word[i]) {
            return false;
        }
    }
    return text.size == size;
}

static const choice *find(const choice *choices, lk_bytes word)
{
    while (choices->name != NULL && !same_word(word, choices->name)) {
        choices++;
    }
    return choices->name == NULL ? NULL : choices;
}

static lk_bytes trimmed(lk_bytes text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text = (lk_bytes){text.data + 1, text.size - 1};
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

/* Takes what is before the separator off text. */
static lk_bytes take_until(lk_bytes *text, char separator)
{
    const char *end = text->size == 0 ? NULL : memchr(text->data, separator, text->size);
    lk_bytes    taken = {text->data, end == NULL ? text->size : (size_t)(end - text->data)};
    size_t      used = taken.size + (end != NULL);
    *text = (lk_bytes){text->data + used, text->size - used};
    return trimmed(taken);
}

/* A weight in thousandths out of the parameters; what is no weight counts in full. */
static int weight_of(lk_bytes parameters)
{
    while (parameters.size > 0) {
        lk_bytes p = take_until(&parameters, ';');
        if (p.size >= 3 && (p.data[0] == 'q' || p.data[0] == 'Q') && p.data[1] == '=') {
            int weight = p.data[2] == '1' ? 1000 : 0, place = 100;
            for (size_t i = 4; i < p.size && i < 7 && weight < 1000; i++, place /= 10) {
                weight += p.data[i] >= '0' && p.data[i] <= '9' ? (p.data[i] - '0') * place : 0;
            }
            return weight;
        }
    }
    return 1000;
}

/* Of a list of weighted words the one that weighs most, of equals the first; otherwise what is given. */
static int choose(const lk_http_head *head, const char *field, const choice *choices, int otherwise)
{
    lk_bytes list = {0};
    int      chosen = otherwise, most = 0;
    if (!lk_http_head_field(head, field, &list)) {
        return otherwise;
    }
    while (list.size > 0) {
        lk_bytes      item = take_until(&list, ',');
        lk_bytes      word = take_until(&item, ';');
        const choice *found = find(choices, word);
        int           weight = weight_of(item);
        if (found != NULL && weight > most) {
            chosen = found->value;
            most = weight;
        }
    }
    return chosen;
}

lk_rc lk_rollout_body_type_of(const lk_http_head *head, lk_rollout_body_type *out, lk_err *err)
{
    lk_bytes value = LK_LITERAL("application/json");
    (void)lk_http_head_field(head, "content-type", &value);
    const choice *found = find(body_types, take_until(&value, ';'));
    if (found == NULL) {
        return lk_refuse(err, LK_E_UNSUPPORTED_MEDIA,
            "send application/json, multipart/form-data, application/x-ndjson or "
            "application/vnd.apache.arrow.stream");
    }
    *out = (lk_rollout_body_type)found->value;
    return LK_OK;
}

lk_rc lk_rollout_body_coding_of(const lk_http_head *head, lk_rollout_coding *out, lk_err *err)
{
    lk_bytes value = LK_LITERAL("identity");
    (void)lk_http_head_field(head, "content-encoding", &value);
    const choice *found = find(codings, trimmed(value));
    if (found == NULL) {
        return lk_refuse(err, LK_E_UNSUPPORTED_MEDIA, "content codings are gzip and zstd, one at a time");
    }
    *out = (lk_rollout_coding)found->value;
    return LK_OK;
}

lk_rollout_format lk_rollout_format_of(const lk_http_head *head)
{
    return (lk_rollout_format)choose(head, "accept", formats, LK_ROLLOUT_AS_JSON);
}

const char *lk_rollout_format_type(lk_rollout_format format)
{
    size_t i = 0;
    while (formats[i].value != (int)format) {
        i++;
    }
    return formats[i].name;
}

lk_rollout_coding lk_rollout_answer_coding(const lk_http_head *head)
{
    return (lk_rollout_coding)choose(head, "accept-encoding", codings, LK_ROLLOUT_IDENTITY);
}

const char *lk_rollout_coding_name(lk_rollout_coding coding)
{
    return coding == LK_ROLLOUT_GZIP ? "gzip" : "zstd";
}
