/* s3_list.c - listing and removing (s3_priv.h): ListObjectsV2 page by page, DeleteObjects a thousand at a time. */
#include "base/hash.h"
#include "io/s3_priv.h"
#include "io/s3_xml.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

/* -- times ---------------------------------------------------------------------------------------------- */

static bool digits(lk_bytes text, size_t at, size_t count, int64_t *out)
{
    *out = 0;
    for (size_t i = at; i < at + count; i++) {
        if (i >= text.size || text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        *out = *out * 10 + (text.data[i] - '0');
    }
    return true;
}

bool lk_s3_parse_time(lk_bytes text, int64_t *ms)
{
    static const unsigned char at[] = {0, 5, 8, 11, 14, 17}, sizes[] = {4, 2, 2, 2, 2, 2};
    int64_t                    part[6], fraction = 0;
    for (size_t i = 0; i < 6; i++) {
        if (!digits(text, at[i], sizes[i], &part[i])) {
            return false;
        }
    }
    if (text.data[text.size - 1] != 'Z' || part[1] < 1 || part[1] > 12 || part[2] < 1 || part[2] > 31) {
        return false;
    }
    if (text.size >= 24 && text.data[19] == '.' && !digits(text, 20, 3, &fraction)) {
        return false;
    }
    /* Days since 1970 by the months of years that begin in March. */
    int64_t year = part[0] - (part[1] <= 2), month = (part[1] + 9) % 12;
    int64_t days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + part[2] - 1 - 719468;
    *ms = (((days * 24 + part[3]) * 60 + part[4]) * 60 + part[5]) * 1000 + fraction;
    return true;
}

/* -- one page ------------------------------------------------------------------------------------------- */

typedef struct listing {
    lk_s3_store   *store;
    lk_arena      *arena;
    lk_bytes       under;   /* whole key of the directory with its '/', or the prefix itself */
    bool           all;     /* all levels, not one */
    lk_buf         entries; /* of lk_store_entry; the name is what follows `under` */
    lk_bytes       next;    /* continuation token */
    bool           truncated;
    lk_store_entry one;
    bool           in_prefixes;
    bool           encoded; /* this page's keys */
} listing;

/* Keys come percent-encoded (encoding-type=url), since XML cannot carry them all, from servers that know how. */
static lk_bytes decode_key(lk_bytes text, lk_arena *arena)
{
    char  *out = lk_arena_take(arena, text.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = 0;
        char          lower[2] = {0};
        if (text.data[i] == '%' && i + 2 < text.size) {
            for (size_t j = 0; j < 2; j++) {
                char c = text.data[i + 1 + j];
                lower[j] = c >= 'A' && c <= 'F' ? (char)(c + 32) : c;
            }
        }
        if (lower[0] != 0 && lk_unhex((lk_bytes){lower, 2}, &byte, 1)) {
            out[size++] = (char)byte;
            i += 2;
        } else {
            out[size++] = text.data[i] == '+' ? ' ' : text.data[i];
        }
    }
    return (lk_bytes){out, size};
}

static void take_key(listing *self, lk_bytes text)
{
    lk_bytes key = self->encoded ? decode_key(text, self->arena) : text;
    if (lk_bytes_starts(key, self->under)) {
        self->one.name = (lk_bytes){key.data + self->under.size, key.size - self->under.size};
    }
}

static void take_text(listing *self, lk_bytes element, lk_bytes text)
{
    if (lk_bytes_equal(element, LK_LITERAL("Key")) ||
        (self->in_prefixes && lk_bytes_equal(element, LK_LITERAL("Prefix")))) {
        take_key(self, text);
    } else if (lk_bytes_equal(element, LK_LITERAL("Size"))) {
        int64_t size = 0;
        self->one.size = text.size < 19 && digits(text, 0, text.size, &size) ? (uint64_t)size : 0;
    } else if (lk_bytes_equal(element, LK_LITERAL("LastModified"))) {
        self->one.modified_ms = lk_s3_parse_time(text, &self->one.modified_ms) ? self->one.modified_ms : 0;
    } else if (lk_bytes_equal(element, LK_LITERAL("IsTruncated"))) {
        self->truncated = lk_bytes_equal(text, LK_LITERAL("true"));
    } else if (lk_bytes_equal(element, LK_LITERAL("NextContinuationToken"))) {
        self->next = text;
    }
}

/* An element that described an object or a directory has ended. */
static lk_rc add_entry(listing *self, lk_err *err)
{
    lk_bytes *name = &self->one.name;
    if (self->in_prefixes && name->size > 0) {
        name->size--; /* its '/' */
        self->one.is_directory = true;
    }
    if (name->size == 0) {
        return LK_OK; /* a marker that some tools make for a directory */
    }
    if (self->entries.size / sizeof self->one >= LK_DIRECTORY_ENTRIES_MAX) {
        return lk_fail(
            err, LK_E_LIMIT, "%.*s has more than %d entries", LK_FMT(self->under), LK_DIRECTORY_ENTRIES_MAX);
    }
    lk_buf_append(&self->entries, &self->one, sizeof self->one);
    return LK_OK;
}

static bool keys_are_encoded(lk_bytes text)
{
    lk_arena arena = {0};
    bool     encoded = lk_bytes_equal(lk_xml_find(text, "EncodingType", &arena), LK_LITERAL("url"));
    lk_arena_close(&arena);
    return encoded;
}

static lk_rc parse_page(listing *self, lk_bytes text, lk_err *err)
{
    lk_xml       xml = lk_xml_of(text);
    lk_xml_event event = LK_XML_END;
    lk_bytes     element = {"", 0};
    lk_rc        rc = LK_OK;
    self->encoded = keys_are_encoded(text);
    while (rc == LK_OK && (event = lk_xml_next(&xml, self->arena)) != LK_XML_END && event != LK_XML_BROKEN) {
        bool prefixes = lk_bytes_equal(xml.value, LK_LITERAL("CommonPrefixes"));
        bool starts_one = prefixes || lk_bytes_equal(xml.value, LK_LITERAL("Contents"));
        if (event == LK_XML_TEXT) {
            take_text(self, element, xml.value);
        } else if (event == LK_XML_OPEN) {
            element = xml.value;
            if (starts_one) {
                self->one = (lk_store_entry){0};
                self->in_prefixes = prefixes;
            }
        } else if (starts_one) {
            rc = add_entry(self, err);
            self->in_prefixes = false;
        } else {
            element = (lk_bytes){"", 0};
        }
    }
    return rc != LK_OK || event == LK_XML_END ? rc : lk_fail(err, LK_E_IO, "a listing that is no XML");
}

static lk_rc read_page(listing *self, size_t most, lk_err *err)
{
    lk_s3_call call = {.method = "GET"};
    lk_s3_add_query(&call, LK_LITERAL("list-type"), LK_LITERAL("2"));
    lk_s3_add_query(&call, LK_LITERAL("encoding-type"), LK_LITERAL("url"));
    lk_s3_add_query(&call, LK_LITERAL("prefix"), self->under);
    if (!self->all) {
        lk_s3_add_query(&call, LK_LITERAL("delimiter"), LK_LITERAL("/"));
    }
    if (self->next.size > 0) {
        lk_s3_add_query(&call, LK_LITERAL("continuation-token"), self->next);
    }
    if (most < LK_S3_LIST_MAX) {
        lk_s3_add_query(&call, LK_LITERAL("max-keys"), lk_arena_format(self->arena, "%zu", most));
    }
    self->next = (lk_bytes){0};
    self->truncated = false;
    lk_rc rc = lk_s3_run_one(self->store, &call, err);
    if (rc == LK_OK && call.http.status != 200) {
        rc = lk_s3_fail(self->store, &call, err);
    }
    if (rc == LK_OK) {
        rc = parse_page(self, lk_buf_view(&call.http.body_in), err);
    }
    if (rc == LK_OK && self->truncated && self->next.size == 0) {
        rc = lk_fail(err, LK_E_IO, "s3://%.*s: a listing that does not say how it goes on",
            LK_FMT(self->store->bucket));
    }
    lk_s3_call_deinit(&call);
    return rc;
}

/* -- listing -------------------------------------------------------------------------------------------- */

static lk_rc begin_listing(listing *self, lk_bytes directory, lk_err *err)
{
    lk_rc rc = directory.size == 0 ? LK_OK : lk_store_key_check(directory, err);
    if (rc == LK_OK) {
        self->under = lk_arena_format(self->arena, "%.*s%.*s%s", LK_FMT(self->store->prefix),
            LK_FMT(directory), directory.size == 0 ? "" : "/");
    }
    return rc;
}

static void end_listing(listing *self, lk_rc rc, lk_store_entry **entries, size_t *count)
{
    if (rc == LK_OK) {
        *count = self->entries.size / sizeof **entries;
        *entries = lk_arena_take(self->arena, self->entries.size + 1);
        if (*count > 0) {
            memcpy(*entries, self->entries.data, self->entries.size);
        }
    }
    lk_buf_deinit(&self->entries);
}

lk_rc lk_s3_list(
    lk_store *base, lk_bytes directory, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err)
{
    listing self = {.store = (lk_s3_store *)base, .arena = arena};
    lk_rc   rc = begin_listing(&self, directory, err);
    while (rc == LK_OK) {
        rc = read_page(&self, LK_S3_LIST_MAX, err);
        if (!self.truncated) {
            break;
        }
    }
    end_listing(&self, rc, entries, count);
    return rc;
}

lk_rc lk_s3_list_first(lk_store *base, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    listing self = {.store = (lk_s3_store *)base, .arena = arena};
    lk_rc   rc = begin_listing(&self, directory, err);
    if (rc == LK_OK) {
        rc = read_page(&self, count_min, err);
    }
    end_listing(&self, rc, entries, count);
    return rc;
}

/* -- removing ------------------------------------------------------------------------------------------- */

static lk_rc remove_key(lk_s3_store *store, lk_bytes key, lk_err *err)
{
    lk_arena   arena = {0};
    lk_s3_call call = {.method = "DELETE", .key = key};
    lk_rc      rc = lk_s3_run_one(store, &call, err);
    lk_bytes   code = rc == LK_OK ? lk_s3_code(&call, &arena) : (lk_bytes){0};
    bool       absent = rc == LK_OK && call.http.status == 404 &&
                  (code.size == 0 || lk_bytes_equal(code, LK_LITERAL("NoSuchKey")));
    if (rc == LK_OK && call.http.status != 204 && call.http.status != 200 && !absent) {
        rc = lk_s3_fail(store, &call, err);
    }
    lk_s3_call_deinit(&call);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_s3_remove(lk_store *base, lk_bytes key, lk_err *err)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_arena     arena = {0};
    lk_bytes     whole = {0};
    lk_rc        rc = lk_s3_key(store, key, &arena, &whole, err);
    if (rc == LK_OK) {
        rc = remove_key(store, whole, err);
    }
    lk_arena_close(&arena);
    return rc;
}

/* DeleteObjects insists on a checksum of its body; MD5 is the one that every server knows. */
static lk_bytes md5_base64(lk_bytes body, lk_arena *arena)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned      size = 0;
    lk_buf        text = {0};
    LK_ASSERT(EVP_Digest(body.data, body.size, hash, &size, EVP_md5(), NULL) == 1);
    lk_base64_append(&text, (lk_bytes){(const char *)hash, size});
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

static lk_rc send_delete(lk_s3_store *store, lk_bytes body, lk_err *err)
{
    lk_arena   arena = {0};
    lk_s3_call call = {.method = "POST", .body = body, .has_body = true};
    lk_s3_add_query(&call, LK_LITERAL("delete"), (lk_bytes){0});
    lk_s3_add_header(&call, LK_LITERAL("Content-MD5"), md5_base64(body, &arena));
    lk_rc rc = lk_s3_run_one(store, &call, err);
    if (rc == LK_OK && call.http.status != 200) {
        rc = lk_s3_fail(store, &call, err);
    }
    lk_bytes code = rc == LK_OK ? lk_s3_code(&call, &arena) : (lk_bytes){0};
    if (code.size > 0) { /* quiet: only what failed is told */
        rc = lk_fail(err, LK_E_IO, "s3://%.*s: %.*s while removing %.*s", LK_FMT(store->bucket), LK_FMT(code),
            LK_FMT(lk_xml_find(lk_buf_view(&call.http.body_in), "Key", &arena)));
        err->maybe_applied = true;
    }
    lk_s3_call_deinit(&call);
    lk_arena_close(&arena);
    return rc;
}

/* under + each of the names, at most LK_S3_DELETE_MAX. Keys that XML cannot carry go one by one. */
static lk_rc remove_some(lk_s3_store *store, lk_bytes under, const lk_bytes *names, size_t count, lk_err *err)
{
    lk_buf body = {0};
    size_t listed = 0;
    lk_rc  rc = LK_OK;
    lk_buf_append_text(&body, "<Delete><Quiet>true</Quiet>");
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_arena arena = {0};
        size_t   before = body.size;
        lk_bytes key = lk_arena_format(&arena, "%.*s%.*s", LK_FMT(under), LK_FMT(names[i]));
        lk_buf_append_text(&body, "<Object><Key>");
        if (lk_xml_escape(&body, key)) {
            lk_buf_append_text(&body, "</Key></Object>");
            listed++;
        } else {
            body.size = before;
            rc = remove_key(store, key, err);
        }
        lk_arena_close(&arena);
    }
    lk_buf_append_text(&body, "</Delete>");
    if (rc == LK_OK && listed > 0) {
        rc = send_delete(store, lk_buf_view(&body), err);
    }
    lk_buf_deinit(&body);
    return rc;
}

lk_rc lk_s3_remove_many(lk_store *base, const lk_bytes *keys, size_t count, lk_err *err)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_rc        rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = lk_store_key_check(keys[i], err);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i += LK_S3_DELETE_MAX) {
        size_t now = count - i < LK_S3_DELETE_MAX ? count - i : LK_S3_DELETE_MAX;
        rc = now == 1 ? lk_s3_remove(base, keys[i], err)
                      : remove_some(store, store->prefix, keys + i, now, err);
    }
    return rc;
}

lk_rc lk_s3_remove_tree(lk_store *base, lk_bytes directory, lk_err *err)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_arena     arena = {0};
    listing      self = {.store = store, .arena = &arena, .all = true};
    lk_bytes     names[LK_S3_LIST_MAX];
    lk_rc        rc = lk_store_key_check(directory, err);
    if (rc == LK_OK) {
        rc = begin_listing(&self, directory, err);
    }
    while (rc == LK_OK) {
        self.entries.size = 0;
        rc = read_page(&self, LK_S3_LIST_MAX, err);
        const lk_store_entry *entries = (const lk_store_entry *)(void *)self.entries.data;
        size_t                count = self.entries.size / sizeof *entries;
        if (rc == LK_OK && count > LK_S3_LIST_MAX) {
            rc = lk_fail(err, LK_E_IO, "a listing of more names than were asked for");
        }
        for (size_t i = 0; rc == LK_OK && i < count; i++) {
            names[i] = entries[i].name;
        }
        if (rc == LK_OK && count > 0) {
            rc = remove_some(store, self.under, names, count, err);
        }
        if (!self.truncated) {
            break;
        }
    }
    lk_buf_deinit(&self.entries);
    lk_arena_close(&arena);
    return rc;
}
