/* lance_env.c - see lance_env.h. */
#include "cli/lance_env.h"

#include "cli/cli.h"
#include "io/local.h"
#include "lance/buffer_pool.h"

#include <string.h>
#include <unistd.h>

enum { SCAN_BYTES_MAX = 512 * 1024 * 1024, QUEUE_MAX = 1024 };

void lk_cli_lance_close(lk_cli_lance *o)
{
    lk_dataset_unref(o->dataset);
    lk_buffer_pool_close(o->env.buffers);
    lk_pool_close(o->env.pool);
    lk_store_close(o->env.store);
    lk_store_close(o->files);
}

static bool is_s3(lk_bytes uri)
{
    return lk_bytes_starts(uri, LK_LITERAL("s3://"));
}

lk_s3_options lk_cli_s3_options(const lk_config *config)
{
    return (lk_s3_options){
        .access_key = config->aws_access_key_id,
        .secret_key = config->aws_secret_access_key,
        .session_token = config->aws_session_token,
        .region = config->aws_region != NULL ? config->aws_region : config->aws_default_region,
        .endpoint =
            config->aws_endpoint_url_s3 != NULL ? config->aws_endpoint_url_s3 : config->aws_endpoint_url,
        .addressing = config->s3_addressing,
        .ca_file = config->aws_ca_bundle,
        .allow_plain = config->allow_insecure != NULL && strcmp(config->allow_insecure, "1") == 0,
        .timeout_ms = config->s3_timeout_ms,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
    };
}

/* A directory or a prefix; the store over it. */
static lk_rc open_uri(const lk_config *config, lk_bytes uri, lk_store **out, lk_err *err)
{
    static const lk_bytes file = {"file://", 7};
    if (is_s3(uri)) {
        const lk_s3_options options = lk_cli_s3_options(config);
        return lk_s3_store_open(out, uri, &options, err);
    }
    if (lk_bytes_starts(uri, file)) {
        uri = (lk_bytes){uri.data + file.size, uri.size - file.size};
    }
    for (size_t i = 0; i + 3 <= uri.size; i++) {
        if (memcmp(uri.data + i, "://", 3) == 0) {
            return lk_cli_usage(err, "%.*s is neither a local path nor s3://BUCKET/PREFIX",
                (int)(uri.size < 100 ? uri.size : 100), uri.data);
        }
    }
    return lk_local_store_open(out, uri, true, err);
}

/* A branch is a dataset of its own below its table. */
static lk_bytes with_branch(lk_cli_lance *out, lk_bytes path, lk_arena *arena)
{
    static const char word[] = "?branch=";
    const char       *at = strstr(path.data, word);
    if (at == NULL) {
        return path;
    }
    out->branch = at + sizeof word - 1;
    return lk_arena_format(arena, "%.*s/tree/%s", (int)(at - path.data), path.data, out->branch);
}

/* A shallow clone's rows lie in another table. */
static lk_rc open_base(void *context, lk_bytes path, lk_store **out, lk_err *err)
{
    return open_uri(((const lk_cli_lance *)context)->config, path, out, err);
}

/* A blob of the table that is a file somewhere else. */
static lk_rc open_outside(void *context, lk_bytes uri, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_store *files = ((const lk_cli_lance *)context)->files;
    lk_bytes  scheme = LK_LITERAL("file:///");
    if (!lk_bytes_starts(uri, scheme)) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "blob at %.*s", LK_FMT(uri));
        lk_detail(err, "a blob lies outside of the table and is no local file: %.*s",
            (int)(uri.size < 100 ? uri.size : 100), uri.data);
        return rc;
    }
    return lk_store_open_object(
        files, (lk_bytes){uri.data + scheme.size, uri.size - scheme.size}, out, size, err);
}

/* On an object store threads mostly wait, so more of them than cores have their requests under way. */
static size_t thread_count(lk_bytes uri)
{
    enum { S3_THREADS = 16 };
    long   cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = cores > 0 ? (size_t)cores : 1;
    return is_s3(uri) && count < S3_THREADS ? S3_THREADS : count;
}

lk_rc lk_cli_lance_open_store(lk_cli_lance *out, const char *uri, lk_err *err)
{
    LK_ASSERT(out->config != NULL);
    lk_budget_init(&out->budget, "scan", SCAN_BYTES_MAX, NULL);
    out->env.clock = lk_clock_real();
    out->env.random = lk_random_os();
    out->env.budget = &out->budget;
    out->env.buffers = lk_buffer_pool_new(&out->budget);
    out->env.open_base = open_base;
    out->env.open_base_context = out;
    out->outside = (lk_blob_outside){open_outside, out};
    out->env.blob_outside = &out->outside;
    lk_arena arena = {0};
    lk_rc    rc = open_uri(out->config, with_branch(out, lk_bytes_of(uri), &arena), &out->env.store, err);
    lk_arena_close(&arena);
    if (rc == LK_OK) {
        rc = lk_local_store_open(&out->files, LK_LITERAL("/"), false, err);
    }
    if (rc == LK_OK) {
        rc = lk_pool_open(&out->env.pool, "scan", thread_count(lk_bytes_of(uri)), QUEUE_MAX, err);
    }
    return rc;
}

lk_rc lk_cli_lance_open(lk_cli_lance *out, const char *uri, uint64_t version, lk_err *err)
{
    lk_rc rc = lk_cli_lance_open_store(out, uri, err);
    if (rc == LK_OK) {
        rc = lk_dataset_open(&out->env, version, &out->dataset, err);
        if (rc == LK_E_NOT_FOUND && version == 0 && out->branch != NULL) {
            lk_detail(err, "there is no branch %.100s", out->branch);
        } else if (rc == LK_E_NOT_FOUND) {
            lk_detail(err,
                version == 0 ? "%.100s holds no Lance dataset"
                             : "%.100s has no such version; see lake lance versions",
                uri);
        }
    }
    return rc;
}
