#ifndef LK_ENGINE_MEM_ENGINE_H
#define LK_ENGINE_MEM_ENGINE_H
/*
 * mem_engine.h - the smallest lk_engine that keeps every promise: a list of versions, each a small manifest
 * that names Arrow IPC fragments. For tests and the simulator: it commits through the real pointer and
 * committer, so what they prove holds for lance_engine. Any lk_store will do (mem_store, usually).
 *
 * Not for products: a scan reads whole fragments; there is no pruning, no morsels (LK_E_UNIMPLEMENTED).
 * Threads: shared.
 */
#include "engine/engine.h"
#include "engine/mem_store.h"

typedef struct lk_mem_engine_options { /* all borrowed; outlive the engine */
    lk_kv       *kv;
    lk_mem_disk *disk; /* tables live under their location */
    lk_mem_hook  hook; /* of every store call; run NULL: no faults */
    lk_clock    *clock;
    lk_random   *random;
} lk_mem_engine_options;

LK_MUST_CHECK lk_rc lk_mem_engine_open(lk_engine **out, const lk_mem_engine_options *options, lk_err *err);

#endif
