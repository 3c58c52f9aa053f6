#ifndef LK_IO_S3_PRIV_H
#define LK_IO_S3_PRIV_H
/*
 * s3_priv.h - between the files of the S3 store: the store, and calls to it that are signed, retried and explained.
 * Threads: the store is shared; a call is confined.
 */
#include "base/limits.h"
#include "base/thread.h"
#include "io/s3.h"
#include "io/s3_sign.h"
#include "net/http_client.h"

struct lk_s3_reader;

typedef struct lk_s3_store {
    lk_store             base;
    lk_s3_options        options;
    lk_arena             arena;  /* texts below; nothing is added after opening */
    lk_bytes             origin; /* https://HOST[:PORT] */
    lk_bytes             host;   /* as the Host header has it */
    lk_bytes             bucket, region;
    lk_bytes             prefix;  /* "" or "a/b/" */
    bool                 in_path; /* the bucket stands in the path */
    lk_http_client      *http;
    lk_mutex             mutex;
    struct lk_s3_reader *tails[LK_S3_TAILS_MAX]; /* those that remember their last bytes; guarded by mutex */
    size_t               tail_next;              /* guarded by mutex, as are the following */
    char                 day[8];                 /* that day_key signs for; zero: none yet */
    uint8_t              day_key[LK_SHA256_SIZE];
} lk_s3_store;

enum { LK_S3_CALL_HEADERS_MAX = 4, LK_S3_CALL_QUERY_MAX = 6 };

typedef struct lk_s3_call {
    const char *method;
    lk_bytes    key; /* the whole key, prefix included; empty: the bucket itself */
    lk_s3_pair  query[LK_S3_CALL_QUERY_MAX];
    size_t      query_count;
    lk_s3_pair  headers[LK_S3_CALL_HEADERS_MAX];
    size_t      header_count;
    lk_bytes    body;
    bool        has_body;
    void (*begin)(void *context); /* before each try; may be NULL */
    bool (*sink)(void *context, const void *data, size_t size);
    void *context;
    int   sink_status;
    /* The answer of the last try. */
    lk_http_call http;
    bool         unclear; /* some try may have been carried out without our hearing of it */
} lk_s3_call;

void lk_s3_add_query(lk_s3_call *call, lk_bytes name, lk_bytes value);
void lk_s3_add_header(lk_s3_call *call, lk_bytes name, lk_bytes value);

/* Runs the calls, each until it has an answer that is not "later"; statuses are the caller's to judge. An error when
 * one got none in time: LK_E_STORE_UNAVAILABLE, maybe_applied if it may have been carried out. */
LK_MUST_CHECK lk_rc lk_s3_run(lk_s3_store *store, lk_s3_call **calls, size_t count, lk_err *err);
static inline LK_MUST_CHECK lk_rc lk_s3_run_one(lk_s3_store *store, lk_s3_call *call, lk_err *err)
{
    return lk_s3_run(store, &call, 1, err);
}
void lk_s3_call_deinit(lk_s3_call *call);

/* The error that an answer means: names the object and S3's code, and says what to do where we know. */
LK_MUST_CHECK lk_rc lk_s3_fail(const lk_s3_store *store, const lk_s3_call *call, lk_err *err);
/* The Code of an error's body; "" when there is none. */
lk_bytes lk_s3_code(const lk_s3_call *call, lk_arena *arena);

/* prefix + key, checked. */
LK_MUST_CHECK lk_rc lk_s3_key(
    const lk_s3_store *store, lk_bytes key, lk_arena *arena, lk_bytes *out, lk_err *err);

/* A random mark for one conditional write, and whose object has the key afterwards. */
lk_bytes lk_s3_mark(lk_s3_store *store, lk_arena *arena);
#define LK_S3_MARK_HEADER "x-amz-meta-lake-write"
typedef enum lk_s3_owner { LK_S3_NOBODY, LK_S3_OURS, LK_S3_OTHERS } lk_s3_owner;
/* bytes: what we wrote, for servers that keep no metadata; NULL data with size 0 means they cannot be compared. */
LK_MUST_CHECK lk_rc lk_s3_whose(
    lk_s3_store *store, lk_bytes key, lk_bytes mark, const lk_bytes *bytes, lk_s3_owner *owner, lk_err *err);
/* A conditional PUT of a whole object. */
LK_MUST_CHECK lk_rc lk_s3_put_new(
    lk_s3_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err);

/* s3_read.c */
LK_MUST_CHECK lk_rc lk_s3_open_object(
    lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_fetch(
    lk_store *store, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_read(
    lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err);
void lk_s3_reader_close(lk_store_reader *reader);

/* s3_write.c */
LK_MUST_CHECK lk_rc lk_s3_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_write(lk_store_writer *writer, const void *data, size_t size, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_finish(lk_store_writer *writer, lk_err *err);
void                lk_s3_abandon(lk_store_writer *writer);
LK_MUST_CHECK lk_rc lk_s3_remove_unfinished(lk_store *store, int64_t before_ms, size_t *count, lk_err *err);

/* s3_list.c */
LK_MUST_CHECK lk_rc lk_s3_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_list_first(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_remove(lk_store *store, lk_bytes key, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err);
LK_MUST_CHECK lk_rc lk_s3_remove_tree(lk_store *store, lk_bytes directory, lk_err *err);
/* "2009-10-12T17:50:30.000Z" in milliseconds since 1970; false: something else. */
bool lk_s3_parse_time(lk_bytes text, int64_t *ms);

#endif
