#ifndef LK_CATALOG_REGISTRY_H
#define LK_CATALOG_REGISTRY_H
/*
 * registry.h - table name -> descriptor and published version, as records of the KV.
 *
 *   tbl/<ns>/<name>   {"location","engine","incarnation_id","schema_ipc_base64"}   written once
 *   tblv/<ns>/<name>  {"incarnation_id","current_version"}                         one small write per append
 *   ns/<ns>           {"tables":N}                                                 absent when N would be 0
 *   __lake_internal/catalog-directory-generation   a UUIDv7, new with every create and drop
 *
 * Invariants:
 *   1. The four change together: a create or drop is one atomic write that holds all its changes, so no
 *      reader of one generation sees half of it. A version moves alone and leaves the generation.
 *   2. Every condition is the exact stored bytes; both table records hold the incarnation, so a change that
 *      was built for a dropped table can never match its replacement.
 *   3. A record that cannot be read is LK_E_CORRUPT_RECORD naming the key, never absence.
 *
 * Threads: stateless. The functions build changes; whoever leads writes them (meta/fence).
 */
#include "catalog/authority.h"
#include "kv/kv.h"

typedef struct lk_table_record { /* in the arena it was loaded into */
    lk_registration registration;
    lk_bytes        descriptor_raw, version_raw; /* exact stored bytes */
} lk_table_record;

/* Both records of one incarnation. *found = false: no such table. */
LK_MUST_CHECK lk_rc lk_registry_load(
    lk_kv *kv, lk_table_ref table, lk_arena *arena, lk_table_record *out, bool *found, lk_err *err);

enum { LK_REGISTRY_CHANGES_MAX = 4 };

/* The changes that make the table exist: four, appended at changes[*count]. Reads the namespace's counter, so
 * the write may lose to another table's create or drop in that namespace: build again and retry. */
LK_MUST_CHECK lk_rc lk_registry_insert(lk_kv *kv, const lk_registration *registration, lk_bytes generation,
    lk_arena *arena, lk_kv_change *changes, size_t *count, lk_err *err);

/* The changes that make exactly this record not exist: four, as above. */
LK_MUST_CHECK lk_rc lk_registry_erase(lk_kv *kv, const lk_table_record *record, lk_bytes generation,
    lk_arena *arena, lk_kv_change *changes, size_t *count, lk_err *err);

/* The change that publishes version on exactly this record. version > the present one. */
lk_kv_change lk_registry_advance(const lk_table_record *record, uint64_t version, lk_arena *arena);

/* Decoding for scans (directory). key is the whole key. */
LK_MUST_CHECK lk_rc lk_registry_decode_descriptor(
    lk_bytes key, lk_bytes raw, lk_arena *arena, lk_registration *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_registry_decode_version(
    lk_bytes key, lk_bytes raw, lk_arena *arena, lk_bytes *incarnation, uint64_t *version, lk_err *err);

#define LK_REGISTRY_DESCRIPTORS LK_LITERAL("tbl/")
#define LK_REGISTRY_VERSIONS    LK_LITERAL("tblv/")
#define LK_REGISTRY_NAMESPACES  LK_LITERAL("ns/")
#define LK_REGISTRY_GENERATION  LK_LITERAL("__lake_internal/catalog-directory-generation")

#endif
