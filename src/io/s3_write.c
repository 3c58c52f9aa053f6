/*
 * s3_write.c - objects written in pieces (s3_priv.h): a small one by one conditional PUT, a large one in parts, a few of
 * which are kept and sent side by side. Nothing is visible before the last request.
 *
 * Invariant: a writer holds at most LK_S3_PARTS_AT_ONCE parts of LK_S3_PART_BYTES. Threads: a writer is confined.
 */
#include "io/s3_priv.h"
#include "io/s3_xml.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ETAG_BYTES_MAX = 200 };

typedef struct lk_s3_writer {
    lk_store_writer base;
    lk_arena        arena; /* key, mark, upload */
    lk_bytes        key, mark;
    lk_bytes        upload; /* empty: none was begun */
    lk_buf          parts[LK_S3_PARTS_AT_ONCE];
    size_t          full;  /* parts[0 .. full) are; parts[full] is being filled */
    size_t          sent;  /* numbers 1 .. sent */
    lk_buf          etags; /* of the sent ones, ETAG_BYTES_MAX each, NUL-padded */
    bool            failed;
} lk_s3_writer;

static lk_s3_store *store_of(lk_s3_writer *writer)
{
    return (lk_s3_store *)writer->base.store;
}

static void free_writer(lk_s3_writer *writer)
{
    for (size_t i = 0; i < LK_S3_PARTS_AT_ONCE; i++) {
        lk_buf_deinit(&writer->parts[i]);
    }
    lk_buf_deinit(&writer->etags);
    lk_arena_close(&writer->arena);
    free(writer);
}

lk_rc lk_s3_create(lk_store *base, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_s3_writer *writer = calloc(1, sizeof *writer);
    LK_ASSERT(writer != NULL);
    writer->base.store = base;
    lk_rc rc = lk_s3_key(store_of(writer), key, &writer->arena, &writer->key, err);
    if (rc != LK_OK) {
        free_writer(writer);
        return rc;
    }
    writer->mark = lk_s3_mark(store_of(writer), &writer->arena);
    *out = &writer->base;
    return LK_OK;
}

/* -- parts ---------------------------------------------------------------------------------------------- */

static lk_rc begin_upload(lk_s3_writer *writer, lk_err *err)
{
    lk_s3_store *store = store_of(writer);
    lk_s3_call   call = {.method = "POST", .key = writer->key, .has_body = true};
    lk_s3_add_query(&call, LK_LITERAL("uploads"), (lk_bytes){0});
    lk_s3_add_header(&call, LK_LITERAL(LK_S3_MARK_HEADER), writer->mark);
    lk_rc rc = lk_s3_run_one(store, &call, err);
    if (rc == LK_OK && call.http.status != 200) {
        rc = lk_s3_fail(store, &call, err);
    }
    if (rc == LK_OK) {
        writer->upload = lk_xml_find(lk_buf_view(&call.http.body_in), "UploadId", &writer->arena);
        if (writer->upload.size == 0) {
            rc = lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: an upload without an id", LK_FMT(store->bucket),
                LK_FMT(writer->key));
        }
    }
    lk_s3_call_deinit(&call);
    return rc;
}

static lk_rc take_etag(lk_s3_writer *writer, const lk_s3_call *call, lk_err *err)
{
    lk_bytes etag = {0};
    if (call->http.status != 200) {
        return lk_s3_fail(store_of(writer), call, err);
    }
    if (!lk_http_call_header(&call->http, "ETag", &etag) || etag.size == 0 || etag.size >= ETAG_BYTES_MAX) {
        return lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: a part without an ETag",
            LK_FMT(store_of(writer)->bucket), LK_FMT(writer->key));
    }
    lk_buf_append_bytes(&writer->etags, etag);
    lk_buf_append_zeros(&writer->etags, ETAG_BYTES_MAX - etag.size);
    writer->sent++;
    return LK_OK;
}

/* Sends parts[0 .. count) side by side. */
static lk_rc send_parts(lk_s3_writer *writer, size_t count, lk_err *err)
{
    lk_s3_store *store = store_of(writer);
    lk_arena     arena = {0};
    lk_s3_call   calls[LK_S3_PARTS_AT_ONCE] = {0}, *list[LK_S3_PARTS_AT_ONCE];
    if (writer->sent + count > LK_S3_PARTS_MAX) {
        return lk_refuse(err, LK_E_LIMIT, "an object on S3 holds at most %" PRIu64 " GiB; write more files",
            (uint64_t)LK_S3_PARTS_MAX * LK_S3_PART_BYTES >> 30);
    }
    lk_rc rc = writer->upload.size > 0 ? LK_OK : begin_upload(writer, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        calls[i] = (lk_s3_call){
            .method = "PUT", .key = writer->key, .body = lk_buf_view(&writer->parts[i]), .has_body = true};
        lk_s3_add_query(
            &calls[i], LK_LITERAL("partNumber"), lk_arena_format(&arena, "%zu", writer->sent + i + 1));
        lk_s3_add_query(&calls[i], LK_LITERAL("uploadId"), writer->upload);
        list[i] = &calls[i];
    }
    if (rc == LK_OK) {
        rc = lk_s3_run(store, list, count, err);
    }
    for (size_t i = 0; i < count; i++) {
        if (rc == LK_OK) {
            rc = take_etag(writer, &calls[i], err);
        }
        lk_s3_call_deinit(&calls[i]);
        lk_buf_clear(&writer->parts[i]);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_s3_write(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    lk_s3_writer *writer = (lk_s3_writer *)base;
    if (writer->failed) {
        return lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: an earlier write failed",
            LK_FMT(store_of(writer)->bucket), LK_FMT(writer->key));
    }
    for (size_t done = 0; done < size;) {
        if (writer->full == LK_S3_PARTS_AT_ONCE) { /* more is coming, so this is not the end */
            lk_rc rc = send_parts(writer, writer->full, err);
            writer->full = 0;
            writer->failed = rc != LK_OK;
            if (rc != LK_OK) {
                return rc;
            }
        }
        lk_buf *part = &writer->parts[writer->full];
        size_t  room = LK_S3_PART_BYTES - part->size;
        size_t  now = size - done < room ? size - done : room;
        lk_buf_append(part, (const char *)data + done, now);
        done += now;
        writer->full += part->size == LK_S3_PART_BYTES;
    }
    return LK_OK;
}

/* -- the end -------------------------------------------------------------------------------------------- */

/* Whatever this meets, what it leaves is found by lk_s3_remove_unfinished. */
static lk_rc abort_upload(lk_s3_store *store, lk_bytes key, lk_bytes upload, lk_err *err)
{
    lk_s3_call call = {.method = "DELETE", .key = key};
    lk_s3_add_query(&call, LK_LITERAL("uploadId"), upload);
    lk_rc rc = lk_s3_run_one(store, &call, err);
    if (rc == LK_OK && call.http.status >= 300 && call.http.status != 404) {
        rc = lk_s3_fail(store, &call, err);
    }
    lk_s3_call_deinit(&call);
    return rc;
}

void lk_s3_abandon(lk_store_writer *base)
{
    lk_s3_writer *writer = (lk_s3_writer *)base;
    lk_err        ignored = {0};
    if (writer->upload.size > 0 &&
        abort_upload(store_of(writer), writer->key, writer->upload, &ignored) != LK_OK) {
        ignored.rc = LK_OK; /* a later clean-up finds it */
    }
    free_writer(writer);
}

static lk_bytes list_of_parts(lk_s3_writer *writer)
{
    lk_buf text = {0};
    lk_buf_append_text(&text, "<CompleteMultipartUpload>");
    for (size_t i = 0; i < writer->sent; i++) {
        lk_buf_format(&text, "<Part><PartNumber>%zu</PartNumber><ETag>", i + 1);
        (void)lk_xml_escape(&text, lk_bytes_of(writer->etags.data + i * ETAG_BYTES_MAX));
        lk_buf_append_text(&text, "</ETag></Part>");
    }
    lk_buf_append_text(&text, "</CompleteMultipartUpload>");
    lk_bytes copy = lk_arena_copy(&writer->arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

/* After an end that is not plain success: is the object there, and is it this writer's? */
static lk_rc find_out(lk_s3_writer *writer, lk_rc rc, const lk_s3_call *call, bool *created, lk_err *err)
{
    lk_s3_store *store = store_of(writer);
    lk_s3_owner  owner = LK_S3_NOBODY;
    lk_err       look = {0};
    bool         refused = rc == LK_OK && call->http.status == 412;
    lk_rc        seen = lk_s3_whose(store, writer->key, writer->mark, NULL, &owner, &look);
    if (seen == LK_OK && (owner == LK_S3_OURS || refused)) {
        *err = (lk_err){0};
        *created = owner == LK_S3_OURS;
        return LK_OK;
    }
    if (rc == LK_OK) {
        rc = lk_s3_fail(store, call, err);
    }
    err->maybe_applied = call->unclear;
    return rc;
}

static lk_rc complete_upload(lk_s3_writer *writer, bool *created, lk_err *err)
{
    lk_s3_call call = {.method = "POST", .key = writer->key, .body = list_of_parts(writer), .has_body = true};
    lk_s3_add_query(&call, LK_LITERAL("uploadId"), writer->upload);
    lk_s3_add_header(&call, LK_LITERAL("If-None-Match"), LK_LITERAL("*"));
    lk_rc rc = lk_s3_run_one(store_of(writer), &call, err);
    *created = rc == LK_OK && call.http.status == 200;
    if (!*created) {
        rc = find_out(writer, rc, &call, created, err);
    }
    lk_s3_call_deinit(&call);
    return rc;
}

static lk_rc finish_large(lk_s3_writer *writer, bool *created, lk_err *err)
{
    size_t count = writer->full;
    if (count < LK_S3_PARTS_AT_ONCE && writer->parts[count].size > 0) {
        count++;
    }
    lk_rc rc = count == 0 ? LK_OK : send_parts(writer, count, err);
    return rc == LK_OK ? complete_upload(writer, created, err) : rc;
}

lk_rc lk_s3_finish(lk_store_writer *base, lk_err *err)
{
    lk_s3_writer *writer = (lk_s3_writer *)base;
    lk_s3_store  *store = store_of(writer);
    bool          created = false;
    lk_rc         rc = LK_OK;
    if (writer->failed) {
        rc = lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: an earlier write failed", LK_FMT(store->bucket),
            LK_FMT(writer->key));
    } else if (writer->upload.size == 0 && writer->full == 0) {
        rc = lk_s3_put_new(store, writer->key, lk_buf_view(&writer->parts[0]), &created, err);
    } else {
        rc = finish_large(writer, &created, err);
    }
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_CONFLICT, "s3://%.*s/%.*s exists", LK_FMT(store->bucket), LK_FMT(writer->key));
    }
    if (rc == LK_OK || err->maybe_applied) {
        free_writer(writer); /* an upload that may yet become the object must not be aborted */
    } else {
        lk_s3_abandon(base);
    }
    return rc;
}

/* -- what crashed writers left -------------------------------------------------------------------------- */

typedef struct unfinished {
    lk_bytes key, upload;
    int64_t  began_ms;
} unfinished;

typedef struct upload_page {
    lk_arena  *arena;
    lk_buf     found; /* of unfinished */
    unfinished one;
    lk_bytes   next_key, next_upload;
    bool       truncated;
} upload_page;

static void take_text(upload_page *page, lk_bytes element, lk_bytes text)
{
    lk_bytes kept = text;
    if (lk_bytes_equal(element, LK_LITERAL("Key"))) {
        page->one.key = kept;
    } else if (lk_bytes_equal(element, LK_LITERAL("UploadId"))) {
        page->one.upload = kept;
    } else if (lk_bytes_equal(element, LK_LITERAL("Initiated"))) {
        if (!lk_s3_parse_time(text, &page->one.began_ms)) {
            page->one.began_ms = INT64_MAX; /* whoever cannot tell keeps it */
        }
    } else if (lk_bytes_equal(element, LK_LITERAL("NextKeyMarker"))) {
        page->next_key = kept;
    } else if (lk_bytes_equal(element, LK_LITERAL("NextUploadIdMarker"))) {
        page->next_upload = kept;
    } else if (lk_bytes_equal(element, LK_LITERAL("IsTruncated"))) {
        page->truncated = lk_bytes_equal(text, LK_LITERAL("true"));
    }
}

static lk_rc parse_uploads(upload_page *page, lk_bytes text, lk_err *err)
{
    lk_xml       xml = lk_xml_of(text);
    lk_bytes     element = {"", 0};
    lk_xml_event event = LK_XML_END;
    while ((event = lk_xml_next(&xml, page->arena)) != LK_XML_END && event != LK_XML_BROKEN) {
        if (event == LK_XML_OPEN) {
            element = xml.value;
            if (lk_bytes_equal(element, LK_LITERAL("Upload"))) {
                page->one = (unfinished){.began_ms = INT64_MAX};
            }
        } else if (event == LK_XML_TEXT) {
            take_text(page, element, xml.value);
        } else if (lk_bytes_equal(xml.value, LK_LITERAL("Upload")) && page->one.upload.size > 0) {
            lk_buf_append(&page->found, &page->one, sizeof page->one);
        } else {
            element = (lk_bytes){"", 0};
        }
    }
    return event == LK_XML_END ? LK_OK : lk_fail(err, LK_E_IO, "a list of uploads that is no XML");
}

static lk_rc read_upload_page(lk_s3_store *store, upload_page *page, lk_err *err)
{
    lk_s3_call call = {.method = "GET"};
    lk_s3_add_query(&call, LK_LITERAL("uploads"), (lk_bytes){0});
    lk_s3_add_query(&call, LK_LITERAL("prefix"), store->prefix);
    if (page->truncated) {
        lk_s3_add_query(&call, LK_LITERAL("key-marker"), page->next_key);
        lk_s3_add_query(&call, LK_LITERAL("upload-id-marker"), page->next_upload);
    }
    page->truncated = false;
    lk_rc rc = lk_s3_run_one(store, &call, err);
    if (rc == LK_OK && call.http.status != 200) {
        rc = lk_s3_fail(store, &call, err);
    }
    if (rc == LK_OK) {
        rc = parse_uploads(page, lk_buf_view(&call.http.body_in), err);
    }
    lk_s3_call_deinit(&call);
    return rc;
}

lk_rc lk_s3_remove_unfinished(lk_store *base, int64_t before_ms, size_t *count, lk_err *err)
{
    enum { PAGES_MAX = 1000 };
    lk_s3_store *store = (lk_s3_store *)base;
    lk_arena     arena = {0};
    upload_page  page = {.arena = &arena};
    lk_rc        rc = read_upload_page(store, &page, err);
    for (int pages = 1; rc == LK_OK && page.truncated && pages < PAGES_MAX; pages++) {
        rc = read_upload_page(store, &page, err);
    }
    const unfinished *found = (const unfinished *)(void *)page.found.data;
    for (size_t i = 0; rc == LK_OK && i < page.found.size / sizeof *found; i++) {
        if (found[i].began_ms < before_ms && lk_bytes_starts(found[i].key, store->prefix)) {
            rc = abort_upload(store, found[i].key, found[i].upload, err);
            *count += rc == LK_OK;
        }
    }
    lk_buf_deinit(&page.found);
    lk_arena_close(&arena);
    return rc;
}
