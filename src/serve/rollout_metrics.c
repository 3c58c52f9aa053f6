/*
 * rollout_metrics.c - GET /metrics: counters as Prometheus text (version 0.0.4), of the service's own and of the stores'. All
 * stores together: a label for each experiment would grow without bound.
 */
#include "serve/rollout_service_priv.h"

static void put_type(lk_buf *out, const char *name, const char *type, const char *help)
{
    lk_buf_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_counter(lk_buf *out, const char *name, const char *help, uint64_t value)
{
    put_type(out, name, "counter", help);
    lk_buf_format(out, "%s %llu\n", name, (unsigned long long)value);
}

static void put_gauge(lk_buf *out, const char *name, const char *help, uint64_t value)
{
    put_type(out, name, "gauge", help);
    lk_buf_format(out, "%s %llu\n", name, (unsigned long long)value);
}

/* Two resources may have one name: the later counts with the earlier. */
static bool is_second(size_t resource)
{
    return resource == LK_ROLLOUT_STORE_SHORT;
}

static uint64_t requests_of(lk_rollout_service *s, size_t resource, size_t class)
{
    uint64_t count = atomic_load(&s->statuses[resource][class]);
    return resource == LK_ROLLOUT_STORE ? count + atomic_load(&s->statuses[LK_ROLLOUT_STORE_SHORT][class])
                                        : count;
}

static void put_requests(lk_rollout_service *s, lk_buf *out)
{
    static const char *const classes[] = {"gone", "1xx", "2xx", "3xx", "4xx", "5xx"};
    put_type(out, "http_requests_total", "counter", "requests by route and class of status");
    for (size_t resource = 0; resource < LK_ROLLOUT_RESOURCES; resource++) {
        for (size_t class = 0; class < 6 && !is_second(resource); class ++) {
            uint64_t count = requests_of(s, resource, class);
            if (count > 0) {
                lk_buf_format(out, "http_requests_total{route=\"%s\",status=\"%s\"} %llu\n",
                    lk_rollout_resource_name((lk_rollout_resource)resource), classes[class],
                    (unsigned long long)count);
            }
        }
    }
}

static void put_duration(lk_buf *out, const char *route, rollout_duration *d)
{
    uint64_t total = 0, limit_us = ROLLOUT_DURATION_FIRST_US;
    for (size_t i = 0; i < ROLLOUT_DURATION_BUCKETS; i++, limit_us *= ROLLOUT_DURATION_FACTOR) {
        total += atomic_load(&d->buckets[i]);
        if (i + 1 < ROLLOUT_DURATION_BUCKETS) {
            lk_buf_format(out, "http_request_duration_seconds_bucket{route=\"%s\",le=\"%g\"} %llu\n", route,
                (double)limit_us / 1e6, (unsigned long long)total);
        }
    }
    lk_buf_format(out, "http_request_duration_seconds_bucket{route=\"%s\",le=\"+Inf\"} %llu\n", route,
        (unsigned long long)total);
    lk_buf_format(out, "http_request_duration_seconds_sum{route=\"%s\"} %.6f\n", route,
        (double)atomic_load(&d->sum_us) / 1e6);
    lk_buf_format(
        out, "http_request_duration_seconds_count{route=\"%s\"} %llu\n", route, (unsigned long long)total);
}

static void put_durations(lk_rollout_service *s, lk_buf *out)
{
    put_type(
        out, "http_request_duration_seconds", "histogram", "from the head of a request to its answer's end");
    for (size_t resource = 0; resource < LK_ROLLOUT_RESOURCES; resource++) {
        if (atomic_load(&s->durations[resource].count) > 0 && !is_second(resource)) {
            put_duration(
                out, lk_rollout_resource_name((lk_rollout_resource)resource), &s->durations[resource]);
        }
    }
}

static void put_service(lk_rollout_service *s, lk_buf *out)
{
    put_counter(out, "http_request_body_timeouts_total", "uploads that stalled and were given up",
        atomic_load(&s->body_timeouts));
    put_counter(out, "rollout_appends_total", "adds that were acknowledged", atomic_load(&s->appends));
    put_counter(
        out, "rollout_records_appended_total", "records of acknowledged adds", atomic_load(&s->records));
    put_gauge(out, "rollout_blob_bytes", "bytes of bodies of adds that are not answered yet",
        atomic_load(&s->queued_bytes));
    put_counter(out, "rollout_blob_sent_bytes_total", "bytes of payloads that were asked for",
        atomic_load(&s->blob_bytes));
    put_counter(out, "rollout_blob_budget_rejections_total", "bodies that found no room in memory",
        atomic_load(&s->budget_rejections));
    put_counter(out, "rollout_backpressure_rejections_total", "adds that found too many others waiting",
        atomic_load(&s->backpressure_rejections));
    put_gauge(out, "rollout_answer_bytes", "what answers hold that readers did not take yet",
        rollout_answer_bytes(s));
    put_counter(out, "rollout_answer_rejections_total", "readers that found too many slow ones",
        atomic_load(&s->answers.rejections));
    put_gauge(out, "rollout_queue_depth", "adds that are not answered yet", atomic_load(&s->adds_in_flight));
}

static void put_stages(lk_rollout_service *s, lk_buf *out)
{
    static const char *const names[ROLLOUT_STAGES] = {"read", "store", "answer"};
    put_type(out, "rollout_flush_stage_seconds_total", "counter",
        "time that groups of adds took, by what was done");
    for (size_t i = 0; i < ROLLOUT_STAGES; i++) {
        lk_buf_format(out, "rollout_flush_stage_seconds_total{stage=\"%s\"} %.6f\n", names[i],
            (double)atomic_load(&s->stage_us[i]) / 1e6);
    }
}

static void put_lookups(lk_buf *out, const char *cache, uint64_t hits, uint64_t misses)
{
    lk_buf_format(out, "rollout_cache_lookups_total{cache=\"%s\",result=\"hit\"} %llu\n", cache,
        (unsigned long long)hits);
    lk_buf_format(out, "rollout_cache_lookups_total{cache=\"%s\",result=\"miss\"} %llu\n", cache,
        (unsigned long long)misses);
}

static void put_cache(const lk_rollout_store_stats *s, const lk_rollouts_stats *all, lk_buf *out)
{
    uint64_t loaded =
        s->generations_loaded < s->generations_wanted ? s->generations_loaded : s->generations_wanted;
    put_type(out, "rollout_cache_lookups_total", "counter",
        "generations that snapshots needed, and pages of base tables: in memory, or read from storage");
    put_lookups(out, "generations", s->generations_wanted - loaded, loaded);
    put_lookups(out, "pages", all->pages_found, all->pages_missed);
    put_gauge(out, "rollout_cache_bytes", "rows of generations in memory", all->cache_bytes);
    put_gauge(out, "rollout_cache_peak_bytes", "the most there were", all->cache_peak);
}

static void put_storage(const lk_rollouts_stats *stats, lk_buf *out)
{
    static const char *const kinds[LK_STORE_KINDS] = {"open", "read", "write", "list", "remove"};
    static const char *const results[LK_STORE_RESULTS] = {"ok", "absent", "error"};
    put_type(out, "rollout_storage_operations_total", "counter", "calls to storage by kind and result");
    for (size_t kind = 0; kind < LK_STORE_KINDS; kind++) {
        for (size_t result = 0; result < LK_STORE_RESULTS; result++) {
            lk_buf_format(out, "rollout_storage_operations_total{kind=\"%s\",result=\"%s\"} %llu\n",
                kinds[kind], results[result], (unsigned long long)stats->calls[kind][result]);
        }
    }
}

static void put_stores(lk_rollouts *stores, lk_buf *out)
{
    lk_rollout_store_stats s = {0};
    lk_rollouts_stats      all = {0};
    lk_rollouts_read_store_stats(stores, &s);
    lk_rollouts_read_stats(stores, &all);
    put_gauge(out, "rollout_stores_open", "stores that are open", all.open);
    put_gauge(out, "rollout_wal_pending_generations", "generations of this instance that nobody merged yet",
        s.writer.pending_generations);
    put_type(out, "rollout_wal_cleanup_total", "counter", "merges into base tables");
    lk_buf_format(out, "rollout_wal_cleanup_total{result=\"success\"} %llu\n", (unsigned long long)s.merges);
    lk_buf_format(
        out, "rollout_wal_cleanup_total{result=\"failure\"} %llu\n", (unsigned long long)s.merge_failures);
    put_counter(out, "rollout_wal_generations_reclaimed_total",
        "generations that became rows of a base table", s.merged_generations);
    put_counter(out, "rollout_merged_records_total", "records that were merged", s.merged_rows);
    put_counter(out, "rollout_flushes_total", "generations that were written", s.writer.flushes);
    put_counter(out, "rollout_flush_adds_total", "adds in them: divided by flushes, the size of a group",
        s.writer.adds);
    put_counter(out, "rollout_flush_records_total", "records in them", s.writer.rows);
    put_counter(out, "rollout_fenced_total", "claims that another writer took", s.writer.fenced);
    put_counter(out, "rollout_replayed_records_total", "records found in the log of an earlier writer",
        s.writer.replayed);
    put_counter(out, "rollout_maintenance_rounds_total", "rounds of background work", all.maintenance.rounds);
    put_counter(out, "rollout_maintenance_failures_total", "those that failed", all.maintenance.failures);
    put_counter(out, "rollout_folds_total", "small fragments that were made into one", all.maintenance.folds);
    put_counter(out, "rollout_directories_removed_total", "directories of merged generations removed",
        all.maintenance.directories_removed);
    put_counter(out, "rollout_versions_removed_total",
        "versions of base tables that were older than they are kept", all.maintenance.versions_removed);
    put_counter(out, "rollout_manifests_emptied_total",
        "superseded shard manifests whose contents were removed", all.maintenance.manifests_emptied);
    put_cache(&s, &all, out);
    put_storage(&all, out);
}

lk_rc rollout_metrics(rollout_call *call, lk_err *err)
{
    lk_buf body = {0};
    (void)err;
    put_requests(call->service, &body);
    put_durations(call->service, &body);
    put_service(call->service, &body);
    put_stages(call->service, &body);
    put_stores(call->service->options.stores, &body);
    lk_http_answer(call->exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
    return LK_OK;
}
