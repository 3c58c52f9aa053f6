#ifndef LK_LANCE_VERIFY_H
#define LK_LANCE_VERIFY_H
/*
 * verify.h - whether a table is what it says: every page of every file that a version refers to is decoded, every
 * count, range and reference is checked. Nothing is changed.
 *
 * What is found is told one by one, and the rest is still looked at, as far as that makes sense. Files have no
 * checksums: a value that was changed into another valid one is found only where something else depends on it (text
 * that is no longer UTF-8, a page's statistics, an index). Threads: confined.
 */
#include "lance/dataset.h"

typedef struct lk_verify_options {
    uint64_t   version;      /* 0: the newest; not with all_versions */
    bool       all_versions; /* what they share is read once */
    lk_cancel *cancel;       /* NULL: never */
    /* A file (or "tag NAME", "index NAME"), relative to the table, and what is wrong with it. */
    void (*damage)(void *context, uint64_t version, lk_bytes what, const char *reason);
    void *context;
} lk_verify_options;

typedef struct lk_verify_report {
    uint64_t versions, fragments, data_files, deletion_files, indices,
        references;        /* references: tags, branches */
    uint64_t rows, values; /* physical rows; rows times columns that were decoded */
    uint64_t damages;
} lk_verify_report;

/* LK_OK also when damage was found: the report says how much. Errors are what stops the looking itself: LK_E_NOT_FOUND
 * for a table or version that is not there, a store that cannot be reached, LK_E_CANCELLED, LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_dataset_verify(
    const lk_lance_env *env, const lk_verify_options *options, lk_verify_report *report, lk_err *err);

#endif
