#ifndef LK_LANCE_FEATURES_H
#define LK_LANCE_FEATURES_H
/*
 * features.h - which features of the format a version uses, and which we know: its flags, two words of bits, and what
 * has no bit. A reader refuses a table whose reader bits it does not know; a writer one whose writer bits it does
 * not. Threads: stateless.
 */
#include "lance/pb_table.h"

typedef struct lk_flags {
    uint64_t reader, writer;
} lk_flags;

/* LK_E_UNSUPPORTED_FORMAT: this build cannot `doing` a table with `name`. */
LK_MUST_CHECK lk_rc lk_refuse_feature(const char *name, const char *doing, lk_err *err);

/* Whether this version can be read; sets manifest->file_minor. LK_E_UNSUPPORTED_FORMAT with the feature's name. */
LK_MUST_CHECK lk_rc lk_manifest_check_features(
    lk_manifest *manifest, const lk_pb_features *features, lk_err *err);

/* The flags that a version with this content must have: some bits say what is in it, the others are kept. */
lk_flags lk_manifest_flags(const lk_manifest *manifest);

/* The highest field id that was ever given out, as far as the version knows; -1: none. */
int32_t lk_manifest_field_id_max(const lk_manifest *manifest);

#endif
