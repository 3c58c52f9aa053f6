/* upkeep.c - see upkeep.h: compaction. */
#include "rollout/upkeep.h"

lk_rc lk_rollout_store_compact(
    lk_rollout_store *s, uint64_t target_rows, lk_rollout_compact_report *report, lk_err *err)
{
    *report = (lk_rollout_compact_report){0};
    return lk_fail(err, LK_E_UNIMPLEMENTED, "compact %p %d", (void *)s, (int)target_rows);
}

lk_rc lk_rollout_store_fold(lk_rollout_store *s, bool *folded, lk_err *err)
{
    *folded = false;
    return lk_fail(err, LK_E_UNIMPLEMENTED, "fold %p", (void *)s);
}

lk_rc lk_rollout_store_compact_stats(lk_rollout_store *s, lk_rollout_compact_stats *out, lk_err *err)
{
    *out = (lk_rollout_compact_stats){0};
    return lk_fail(err, LK_E_UNIMPLEMENTED, "compact stats %p", (void *)s);
}

lk_rc lk_rollout_store_fsck(
    lk_rollout_store *s, const lk_rollout_fsck_options *options, lk_rollout_fsck_report *report, lk_err *err)
{
    (void)options;
    *report = (lk_rollout_fsck_report){0};
    return lk_fail(err, LK_E_UNIMPLEMENTED, "fsck %p", (void *)s);
}

lk_rc lk_rollout_store_collect(
    lk_rollout_store *s, const lk_rollout_gc_options *options, lk_rollout_gc_report *report, lk_err *err)
{
    (void)options;
    *report = (lk_rollout_gc_report){0};
    return lk_fail(err, LK_E_UNIMPLEMENTED, "collect %p", (void *)s);
}
