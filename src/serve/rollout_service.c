/* rollout_service.c - see rollout_service.h. */
#include "serve/rollout_service.h"

lk_rc lk_rollout_service_open(
    lk_rollout_service **out, const lk_rollout_service_options *options, lk_err *err)
{
    (void)out;
    return lk_fail(err, LK_E_UNIMPLEMENTED, "no door at %s yet", options->address);
}

const char *lk_rollout_service_address(const lk_rollout_service *service)
{
    (void)service;
    return "";
}

lk_rc lk_rollout_service_drain(lk_rollout_service *service, uint64_t deadline_ms, lk_err *err)
{
    (void)service;
    return lk_fail(err, LK_E_UNIMPLEMENTED, "no drain until %llu", (unsigned long long)deadline_ms);
}

void lk_rollout_service_close(lk_rollout_service *service)
{
    (void)service;
}
