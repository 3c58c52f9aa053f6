/* rollout_metrics.c - the service's counters as Prometheus text (version 0.0.4). No store has a label of its own. */
#include "serve/rollout_service_priv.h"

static void put_type(lk_buf *out, const char *name, const char *type, const char *help)
{
    lk_buf_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put(lk_buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    put_type(out, name, type, help);
    lk_buf_format(out, "%s %llu\n", name, (unsigned long long)value);
}

static void put_requests(lk_rollout_service *s, lk_buf *out)
{
    static const char *const classes[] = {"gone", "1xx", "2xx", "3xx", "4xx", "5xx"};
    put_type(out, "http_requests_total", "counter", "requests by route and class of status");
    for (size_t r = 0; r < LK_ROLLOUT_RESOURCES; r++) {
        for (size_t i = 0; i < 6; i++) {
            uint64_t count = atomic_load(&s->statuses[r][i]);
            if (count > 0 && r != LK_ROLLOUT_STORE_SHORT) {
                lk_buf_format(out, "http_requests_total{route=\"%s\",status=\"%s\"} %llu\n",
                    lk_rollout_resource_name((lk_rollout_resource)r), classes[i], (unsigned long long)count);
            }
        }
    }
}

lk_rc rollout_metrics(rollout_call *call, lk_err *err)
{
    lk_rollout_service *s = call->service;
    lk_buf              body = {0};
    (void)err;
    put_requests(s, &body);
    put(&body, "rollout_appends_total", "counter", "adds that were acknowledged", atomic_load(&s->appends));
    put(&body, "rollout_records_appended_total", "counter", "records of acknowledged adds",
        atomic_load(&s->records));
    lk_http_answer(call->exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
    return LK_OK;
}
