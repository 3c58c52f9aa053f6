/* node.c - see node.h. A node is opened and closed as a list of parts, in order and in reverse. */
#include "cli/node.h"

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "catalog/cache.h"
#include "cli/rollout_node.h"
#include "engine/lance_engine.h"
#include "kv/local.h"
#include "meta/meta.h"
#include "net/tls.h"
#include "query/query.h"
#include "serve/authenticate.h"
#include "serve/authority_client.h"
#include "serve/health.h"
#include "serve/meta_service.h"
#include "serve/query_service.h"
#include "serve/shutdown.h"
#include "serve/status.h"
#include "sql/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { METHODS_MAX = LK_QUERY_METHODS + LK_META_METHODS + LK_HEALTH_METHODS + 1 };
enum { SCAN_QUEUE_MAX = 4096, READY_WAIT_MS = 30000, MIB = 1024 * 1024 };

/* What Query calls itself towards the authority in the same process. */
static const lk_principal local_query = {
    .id = {"lake-query", 10}, .tenant = {"lake", 4}, .role = LK_ROLE_ADMIN};

typedef struct node {
    const lk_node_options *options;
    const lk_config       *config;
    lk_arena               arena;    /* paths */
    char                  *data_dir; /* absolute */
    lk_shutdown           *shutdown;
    lk_principals         *principals;
    lk_principals        **earlier; /* those of files that were read before */
    size_t                 earlier_count;
    lk_tls_identity        tls;
    lk_ticket_keys        *keys;
    lk_authenticator      *authenticator;
    lk_budget              scan_budget, put_budget;
    lk_pool               *scan_pool;
    lk_kv                 *kv;
    lk_engine             *engine;
    lk_meta               *meta;
    lk_buf                 metadata_token;
    lk_grpc_channel       *channel;
    lk_authority          *remote;    /* QUERY: over channel */
    lk_authority          *authority; /* whichever there is; borrowed */
    lk_catalog_cache      *cache;
    lk_bind               *bind;
    lk_sql                *sql;
    lk_query              *query;
    lk_query_service      *query_service;
    lk_meta_service       *meta_service;
    lk_health             *health;
    lk_grpc_method         methods[METHODS_MAX];
    size_t                 method_count;
    lk_grpc_server        *server;
    lk_rollout_plan        rollout_plan;
    lk_rollout_node       *rollout;
    lk_thread              warmer;
} node;

static bool has_meta(const node *n)
{
    return n->options->tiers != LK_NODE_QUERY;
}
static bool has_query(const node *n)
{
    return n->options->tiers != LK_NODE_META;
}

static const char *below(node *n, const char *name)
{
    return lk_arena_format(&n->arena, "%s/%s", n->data_dir, name).data;
}

/* -- parts ------------------------------------------------------------------------------------------- */

/* Everything that settings can get wrong; nothing is written yet. */
static lk_rc open_settings(node *n, lk_err *err)
{
    const lk_config *c = n->config;
    lk_rc rc = lk_principals_load(&n->principals, c->auth_token_file, c->auth_principals_file, err);
    if (rc == LK_OK) {
        rc = lk_tls_identity_load(&n->tls, c->tls_cert_file, c->tls_key_file, err);
    }
    if (rc == LK_OK) {
        rc = lk_exposure_check(n->options->address, c, n->principals, lk_tls_identity_present(&n->tls), err);
    }
    if (rc == LK_OK && n->options->rollout != NULL) {
        const char *stores = lk_arena_format(&n->arena, "%s/rollouts", n->options->data_dir).data;
        rc = lk_rollout_plan_make(&n->rollout_plan, c, NULL, n->options->rollout, stores, err);
    }
    if (rc == LK_OK && has_query(n)) {
        rc = lk_ticket_keys_open(&n->keys, c->query_ticket_keys_file, lk_random_os(), err);
    }
    return rc;
}

static lk_rc open_directory(node *n, lk_err *err)
{
    lk_rc rc = lk_directory_make(n->options->data_dir, 0755, err);
    if (rc != LK_OK) {
        lk_detail(err, "cannot use the data directory %.150s", n->options->data_dir);
        return rc;
    }
    n->data_dir = realpath(n->options->data_dir, NULL);
    return n->data_dir != NULL ? LK_OK : lk_fail(err, LK_E_IO, "cannot resolve %s", n->options->data_dir);
}

static lk_rc open_pools(node *n, lk_err *err)
{
    long   cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = n->config->query_threads > 0 ? n->config->query_threads : cores > 0 ? (size_t)cores : 1;
    lk_budget_init(&n->scan_budget, "scan", n->config->query_memory_bytes, NULL);
    lk_budget_init(&n->put_budget, "put", LK_PUT_BYTES_MAX, NULL);
    return lk_pool_open(&n->scan_pool, "scan", threads, SCAN_QUEUE_MAX, err);
}

static lk_rc open_kv(node *n, lk_err *err)
{
    lk_rc rc = has_meta(n) ? lk_kv_local_open(&n->kv, below(n, "meta"), true, err) : LK_OK;
    if (rc == LK_E_LOCKED) {
        lk_detail(err, "%.150s; stop that lake, or choose another --data-dir", n->options->data_dir);
    }
    return rc;
}

static lk_rc open_engine(node *n, lk_err *err)
{
    size_t files = lk_file_limit_raise() / 2; /* the rest is for connections, spill and the KV */
    const lk_lance_engine_options options = {.kv = n->kv,
        .root = n->data_dir == NULL ? (lk_bytes){0} : lk_bytes_of(below(n, "tables")),
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .pool = n->scan_pool,
        .budget = &n->scan_budget,
        .open_files_max = files < LK_ENGINE_FILES_MAX ? files : LK_ENGINE_FILES_MAX};
    return lk_lance_engine_open(&n->engine, &options, err);
}

static lk_rc open_meta(node *n, lk_err *err)
{
    const lk_config      *c = n->config;
    const lk_meta_options options = {.kv = n->kv,
        .engine = n->engine,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .tables_root = lk_bytes_of(below(n, "tables")),
        .sole_owner = true,
        .append_max_concurrent = c->append_max_concurrent,
        .append_queue_timeout_ms = c->append_queue_timeout_ms,
        .append_max_stream_bytes = c->append_max_stream_bytes,
        .append_retention_secs = c->append_retention_secs};
    lk_rc                 rc = lk_meta_open(&n->meta, &options, err);
    if (rc == LK_OK) {
        n->authority = lk_meta_authority(n->meta);
        rc = lk_meta_wait_ready(n->meta, lk_clock_monotonic_ms(lk_clock_real()) + READY_WAIT_MS, err);
    }
    return rc;
}

static lk_rc open_remote(node *n, lk_err *err)
{
    enum { TOKEN_MAX = 8192 };
    const char *token_file = n->config->metadata_auth_token_file;
    lk_rc rc = token_file != NULL ? lk_file_read(token_file, TOKEN_MAX, &n->metadata_token, err) : LK_OK;
    while (n->metadata_token.size > 0 &&
           strchr("\r\n", n->metadata_token.data[n->metadata_token.size - 1]) != NULL) {
        n->metadata_token.size--;
    }
    if (rc == LK_OK) {
        const lk_grpc_channel_options options = {
            .endpoint = n->options->metadata, .token = lk_buf_view(&n->metadata_token)};
        rc = lk_grpc_channel_open(&n->channel, &options, err);
    }
    if (rc == LK_OK) {
        rc = lk_authority_client_open(&n->remote, n->channel, err);
        n->authority = n->remote;
    }
    return rc;
}

static lk_rc open_authority(node *n, lk_err *err)
{
    return has_meta(n) ? open_meta(n, err) : open_remote(n, err);
}

/* Loads the first directory. A Metasrv that is not up yet is asked again, so tiers may be started in any order. */
static lk_rc first_directory(node *n, lk_snapshot **out, lk_err *err)
{
    enum { RETRY_MS = 100 };
    uint64_t deadline_ms = lk_clock_monotonic_ms(lk_clock_real()) + n->config->query_startup_timeout_ms;
    lk_rc    rc = lk_catalog_cache_directory(n->cache, out, err);
    while (rc != LK_OK && lk_rc_code(rc) == LK_CODE_UNAVAILABLE &&
           lk_shutdown_deadline_ms(n->shutdown) == 0 &&
           lk_clock_monotonic_ms(lk_clock_real()) < deadline_ms) {
        lk_clock_sleep_ms(lk_clock_real(), RETRY_MS);
        *err = (lk_err){0};
        rc = lk_catalog_cache_directory(n->cache, out, err);
    }
    if (rc != LK_OK && !has_meta(n)) {
        lk_detail(err, "no Metasrv answers at %.100s; start it with lake meta, or see --metadata-addr",
            n->options->metadata);
    }
    return rc;
}

/* A Query that cannot reach its authority does not start. */
static lk_rc open_catalog(node *n, lk_err *err)
{
    const lk_catalog_cache_options options = {n->authority, &local_query, lk_clock_real()};
    lk_snapshot                   *first = NULL;
    lk_rc                          rc = lk_catalog_cache_open(&n->cache, &options, err);
    if (rc == LK_OK) {
        rc = first_directory(n, &first, err);
    }
    lk_snapshot_unref(first);
    return rc;
}

static lk_rc open_query(node *n, lk_err *err)
{
    const lk_config     *c = n->config;
    const char          *spill = c->query_spill_dir != NULL ? c->query_spill_dir : below(n, "spill");
    const lk_sql_options options = {.spill_directory = lk_bytes_of(spill),
        .memory_bytes = c->query_memory_bytes,
        .spill_bytes = c->query_spill_bytes,
        .thread_count = c->query_threads,
        .sql_bytes_max = c->query_max_sql_bytes};
    lk_rc                rc = has_query(n) ? open_catalog(n, err) : LK_OK;
    if (rc != LK_OK || !has_query(n)) {
        return rc;
    }
    rc = lk_sql_open(&n->sql, &options, err);
    if (rc == LK_OK) {
        n->bind = lk_bind_open(n->engine, n->cache, 0);
        const lk_query_options query = {
            n->authority, n->cache, n->bind, n->sql, n->keys, lk_clock_real(), lk_random_os(), n->config};
        n->query = lk_query_open(&query);
    }
    return rc;
}

static bool is_ready(void *context)
{
    const node    *n = context;
    lk_meta_status status = {.ready = true};
    if (n->meta != NULL) {
        lk_meta_status_get(n->meta, &status);
    }
    return status.ready;
}

/* Query's methods win where both tiers have one: it forwards what Metasrv answers. */
static lk_rc open_services(node *n, lk_err *err)
{
    (void)err;
    n->authenticator = lk_authenticator_open(n->principals);
    n->health = lk_health_open(is_ready, n);
    n->methods[n->method_count++] = lk_handshake_method(n->authenticator);
    lk_health_methods(n->health, n->methods + n->method_count);
    n->method_count += LK_HEALTH_METHODS;
    if (has_query(n)) {
        n->query_service = lk_query_service_open(n->query, &n->put_budget, n->config);
        lk_query_service_methods(n->query_service, n->methods + n->method_count);
        n->method_count += LK_QUERY_METHODS;
    } else {
        n->meta_service = lk_meta_service_open(n->authority, &n->put_budget, n->config);
        lk_meta_service_methods(n->meta_service, n->methods + n->method_count);
        n->method_count += LK_META_METHODS;
    }
    return LK_OK;
}

static lk_rc open_server(node *n, lk_err *err)
{
    const lk_grpc_server_options options = {.address = n->options->address,
        .tls = &n->tls,
        .methods = n->methods,
        .method_count = n->method_count,
        .queue_count = n->config->grpc_threads,
        .admit = lk_authenticate,
        .observe = lk_status_observe,
        .translate = lk_status_translate,
        .context = n->authenticator};
    lk_rc                        rc = lk_grpc_server_open(&n->server, &options, err);
    if (rc == LK_E_ADDRESS_IN_USE) {
        lk_detail(err, "%.100s; stop what listens there, or choose another --addr (port 0 picks a free one)",
            n->options->address);
    }
    return rc;
}

static lk_rc open_rollout(node *n, lk_err *err)
{
    if (n->options->rollout == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_rollout_node_open(&n->rollout, &n->rollout_plan, err);
    return rc == LK_OK ? lk_rollout_node_follow(n->rollout, n->shutdown, err) : rc;
}

static lk_rc (*const parts[])(node *n, lk_err *err) = {open_settings, open_directory, open_pools, open_kv,
    open_engine, open_authority, open_query, open_services, open_server, open_rollout};

/* -- reloading ------------------------------------------------------------------------------------------ */

static void use_principals(node *n, lk_principals *fresh)
{
    lk_principals **more = realloc(n->earlier, (n->earlier_count + 1) * sizeof *more);
    LK_ASSERT(more != NULL);
    n->earlier = more;
    n->earlier[n->earlier_count++] = n->principals;
    n->principals = fresh;
    lk_authenticator_set(n->authenticator, fresh);
}

/* Tokens and certificate of the gRPC listener; what may fail comes first. */
static lk_rc reload_listener(node *n, lk_err *err)
{
    const lk_config *c = n->config;
    lk_principals   *principals = NULL;
    lk_tls_identity  tls = {0};
    lk_rc            rc = lk_principals_load(&principals, c->auth_token_file, c->auth_principals_file, err);
    if (rc == LK_OK) {
        rc = lk_tls_identity_load(&tls, c->tls_cert_file, c->tls_key_file, err);
    }
    bool has_tls = lk_tls_identity_present(&tls);
    bool changed = has_tls && !lk_bytes_equal(lk_buf_view(&tls.certificate_chain),
                                  lk_buf_view(&n->tls.certificate_chain));
    if (rc == LK_OK && has_tls) {
        rc = lk_grpc_server_set_tls(n->server, &tls, err);
    }
    if (rc != LK_OK) {
        lk_tls_identity_deinit(&tls);
        lk_principals_close(principals);
        return rc;
    }
    lk_tls_identity_deinit(&n->tls);
    n->tls = tls;
    use_principals(n, principals);
    lk_log(LK_LOG_RELOADED, LK_LOG_T("address", lk_bytes_of(lk_grpc_server_address(n->server))),
        LK_LOG_N("certificate_changed", changed));
    return LK_OK;
}

static void reload(void *context)
{
    node  *n = context;
    lk_err err = {0};
    if (reload_listener(n, &err) != LK_OK) {
        lk_log_error(LK_LOG_RELOAD_FAILED, &err);
    }
    if (n->rollout != NULL) {
        lk_rollout_node_reload(n->rollout);
    }
}

/* -- serving ------------------------------------------------------------------------------------------ */
static lk_rc announce(const node *n, lk_err *err)
{
    lk_bytes address = lk_bytes_of(lk_grpc_server_address(n->server));
    lk_log(LK_LOG_SERVING, LK_LOG_T(has_query(n) ? "query" : "meta", address),
        LK_LOG_N("pid", (uint64_t)getpid()));
    lk_bytes rollout = {0};
    if (n->rollout != NULL) {
        rollout = lk_bytes_of(lk_rollout_node_address(n->rollout));
        lk_log(LK_LOG_SERVING, LK_LOG_T("rollout", rollout), LK_LOG_N("pid", (uint64_t)getpid()));
    }
    if (n->options->ready_file == NULL) {
        return LK_OK;
    }
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, has_query(n) ? "query" : "meta");
    lk_json_text(&w, address);
    if (n->rollout != NULL) {
        lk_json_key(&w, "rollout");
        lk_json_text(&w, rollout);
    }
    lk_json_key(&w, "pid");
    lk_json_u64(&w, (uint64_t)getpid());
    lk_json_object_end(&w);
    lk_buf_append_text(&text, "\n");
    lk_rc rc = lk_file_replace(n->options->ready_file, lk_buf_view(&text), 0644, err);
    lk_buf_deinit(&text);
    return rc;
}

static void close_all(node *n)
{
    if (n->shutdown != NULL) {
        lk_shutdown_on_reload(n->shutdown, NULL, NULL);
    }
    if (n->rollout != NULL && lk_shutdown_deadline_ms(n->shutdown) == 0) {
        lk_shutdown_request(
            n->shutdown); /* something failed after the door opened: its follower waits for this */
    }
    lk_rollout_node_close(n->rollout);
    lk_rollout_plan_deinit(&n->rollout_plan);
    lk_grpc_server_close(n->server);
    lk_thread_join(&n->warmer);
    lk_query_service_close(n->query_service);
    lk_meta_service_close(n->meta_service);
    lk_health_close(n->health);
    lk_authenticator_close(n->authenticator);
    lk_query_close(n->query);
    lk_bind_close(n->bind);
    lk_sql_close(n->sql);
    lk_catalog_cache_close(n->cache);
    if (n->remote != NULL) {
        n->remote->ops->close(n->remote);
    }
    lk_grpc_channel_close(n->channel);
    lk_meta_close(n->meta);
    if (n->engine != NULL) {
        n->engine->ops->close(n->engine);
    }
    lk_kv_close(n->kv);
    lk_pool_close(n->scan_pool);
    lk_ticket_keys_close(n->keys);
    lk_tls_identity_deinit(&n->tls);
    lk_principals_close(n->principals);
    for (size_t i = 0; i < n->earlier_count; i++) {
        lk_principals_close(n->earlier[i]);
    }
    free(n->earlier);
    lk_buf_deinit(&n->metadata_token);
    free(n->data_dir);
    lk_arena_close(&n->arena);
    lk_shutdown_close(n->shutdown);
}

lk_rc lk_node_run(const lk_node_options *options, const lk_config *config, lk_err *err)
{
    node  n = {.options = options, .config = config};
    lk_rc rc = lk_shutdown_open(&n.shutdown, config->shutdown_grace_ms, err); /* before any thread */
    for (size_t i = 0; rc == LK_OK && i < sizeof parts / sizeof parts[0]; i++) {
        rc = parts[i](&n, err);
    }
    if (rc == LK_OK) {
        lk_shutdown_on_reload(n.shutdown, reload, &n);
        rc = announce(&n, err);
    }
    if (rc == LK_OK) {
        rc = lk_shutdown_serve(n.shutdown, n.server, n.health, err);
        lk_log(LK_LOG_STOPPED, LK_LOG_N("pid", (uint64_t)getpid()));
    }
    close_all(&n);
    return rc;
}
