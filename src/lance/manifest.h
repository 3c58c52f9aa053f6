#ifndef LK_LANCE_MANIFEST_H
#define LK_LANCE_MANIFEST_H
/*
 * manifest.h - one version of a table: its schema and its fragments, read from one manifest object.
 *
 *   [u32 size, index section]  [u32 size, transaction]  u32 size, Manifest   u64 position, u16 0, u16 2, "LANC"
 *
 * Invariants:
 *   1. A manifest that opened uses no feature we do not know: flags, file format and fragments were checked.
 *   2. body is the Manifest message as it was read. The next version is made from these bytes, so fields
 *      that we do not know survive a rewrite byte for byte.
 *   3. All texts and arrays live in the manifest's own arena.
 * Threads: immutable once read.
 */
#include "io/store.h"
#include "lance/schema.h"

enum {
    LK_FLAG_DELETION_FILES = 1 << 0,
    LK_FLAG_STABLE_ROW_IDS = 1 << 1,
    LK_FLAG_OLD_V2 = 1 << 2, /* means nothing any more */
    LK_FLAG_CONFIG = 1 << 3,
    LK_FLAG_BASE_PATHS = 1 << 4,
    LK_FLAG_NO_TRANSACTION_FILES = 1 << 5,
    LK_FLAG_MIXED_FILE_VERSIONS = 1 << 8,
    LK_FLAG_LINEAGE_COLUMNS = 1 << 11,
    LK_FLAG_FIELD_IDS_NOT_REUSED = 1 << 15
};

/* Field ids below -1 that data files may hold. */
enum { LK_FIELD_TOMBSTONE = -2, LK_FIELD_ROW_IDS = -3, LK_FIELD_CREATED_AT = -4, LK_FIELD_UPDATED_AT = -5 };

enum { LK_LINEAGE_ROW_IDS = 1 << 0, LK_LINEAGE_CREATED_AT = 1 << 1, LK_LINEAGE_UPDATED_AT = 1 << 2 };

typedef struct lk_base_path {
    uint32_t id;
    bool     is_dataset_root; /* files lie in path/data, else in path itself */
    lk_bytes name, path;
} lk_base_path;

typedef struct lk_data_file {
    lk_bytes            path;    /* as stored: relative to data/ of its base */
    const int32_t      *fields;  /* field ids; negative ones hold nothing (-2: dropped in place) */
    const int32_t      *columns; /* the file's column for each id; -1: none of its own (a struct) */
    size_t              field_count;
    uint32_t            major, minor; /* 2, 0..2 */
    uint64_t            size_bytes;   /* 0: unknown */
    const lk_base_path *base;         /* NULL: this table's own directory */
} lk_data_file;

typedef enum lk_deletion_kind { LK_DELETION_NONE, LK_DELETION_ARRAY, LK_DELETION_BITMAP } lk_deletion_kind;

typedef struct lk_deletion_file {
    lk_deletion_kind    kind; /* LK_DELETION_NONE: no row is deleted */
    uint64_t            read_version, id, count;
    const lk_base_path *base;
} lk_deletion_file;

typedef struct lk_fragment {
    uint64_t            id;            /* below 2^32; row address = id << 32 | row offset */
    uint64_t            physical_rows; /* rows in each of its files, deleted ones included */
    const lk_data_file *files;         /* a schema field that is in none of them reads as all null */
    size_t              file_count;
    size_t              file_slot; /* number of the first file among all files of the version */
    lk_deletion_file    deletion;
    /* Of tables with stable row ids (lance/row_ids.h): messages; "" is absent. */
    lk_bytes row_ids, created_at_versions, updated_at_versions;
    unsigned lineage_columns; /* LK_LINEAGE_*: of those three the ones that are hidden columns instead */
    lk_bytes raw;             /* the DataFragment message as read */
} lk_fragment;

typedef struct lk_manifest lk_manifest;
struct lk_manifest {
    lk_arena                arena;
    lk_bytes                key; /* of the object, relative to the table's root */
    uint64_t                version;
    uint64_t                timestamp_ms; /* UTC */
    lk_lance_schema        *schema;
    const lk_fragment      *fragments; /* in table order */
    size_t                  fragment_count, file_count;
    uint64_t                physical_rows, deleted_rows;
    uint64_t                reader_flags, writer_flags;
    uint32_t                file_minor; /* data_format.version "2.<file_minor>": what new files must be */
    bool                    has_fragment_id_max;
    uint32_t                fragment_id_max;  /* highest ever given out */
    bool                    has_field_id_max; /* field ids are never reused: LK_FLAG_FIELD_IDS_NOT_REUSED */
    int32_t                 field_id_max;     /* highest ever given out */
    uint64_t                next_row_id;
    lk_bytes                writer_library, writer_version; /* "" when absent */
    lk_bytes                transaction_file;               /* name below _transactions/; "" when absent */
    lk_bytes                branch;                         /* "" = main */
    const lk_base_path     *bases;
    size_t                  base_count;
    const lk_metadata_pair *config, *table_metadata;
    size_t                  config_count, table_metadata_count;
    bool                    has_index_section, has_transaction_section;
    uint64_t                index_section_offset, transaction_section_offset, body_offset;
    lk_bytes                body; /* invariant 2 */
    lk_bytes head;  /* what lies before body in the object, when it was read along ("": read it) */
    char    *image; /* the memory behind body and head */
    size_t   image_size;
};

/* Reads and checks the manifest object `key`. LK_E_NOT_FOUND; LK_E_CORRUPT_FILE; LK_E_UNSUPPORTED_FORMAT
 * with the feature's name as detail. */
LK_MUST_CHECK lk_rc lk_manifest_read(lk_store *store, lk_bytes key, lk_manifest **out, lk_err *err);

/* The same of one that has probably the schema of `like` (NULL: of none), which it then shares: many tables alike are opened
 * for a fraction of what the first costs. */
LK_MUST_CHECK lk_rc lk_manifest_read_like(
    lk_store *store, lk_bytes key, const lk_manifest *like, lk_manifest **out, lk_err *err);

/* The same from memory: the whole object. Copies. Context names `key`. */
LK_MUST_CHECK lk_rc lk_manifest_parse(lk_bytes object, lk_bytes key, lk_manifest **out, lk_err *err);

void lk_manifest_close(lk_manifest *manifest); /* accepts NULL */

/* LK_E_UNSUPPORTED_FORMAT (which feature) when a commit on top of this version could break what we do
 * not understand. */
LK_MUST_CHECK lk_rc lk_manifest_check_writable(const lk_manifest *manifest, lk_err *err);

/* The raw IndexSection and Transaction messages; *found = false when the manifest holds none. */
LK_MUST_CHECK lk_rc lk_manifest_index_section(lk_store *store, const lk_manifest *manifest, lk_arena *arena,
    lk_bytes *section, bool *found, lk_err *err);
LK_MUST_CHECK lk_rc lk_manifest_transaction(lk_store *store, const lk_manifest *manifest, lk_arena *arena,
    lk_bytes *transaction, bool *found, lk_err *err); /* inline, else the file it names */

/* Which file and column hold a field: false when no file of the fragment has it (all null). A struct in a
 * 2.1 file has no column of its own: ask for its leaves. */
bool lk_fragment_find(const lk_fragment *fragment, int32_t field_id, size_t *file, int32_t *column);

/* Whether it has row ids, wherever they are. */
bool lk_fragment_has_row_ids(const lk_fragment *fragment);

/* The object key of a data file, relative to its base (or this table), in the arena. */
lk_bytes lk_data_file_key(const lk_data_file *file, lk_arena *arena);

/* Memory that the manifest holds, itself included. */
size_t lk_manifest_bytes(const lk_manifest *manifest);

uint64_t lk_manifest_rows(const lk_manifest *manifest); /* deletions subtracted */

/* -- names ------------------------------------------------------------------------------------------ */
typedef enum lk_manifest_naming { LK_MANIFEST_V1, LK_MANIFEST_V2 } lk_manifest_naming;

/* A name in _versions/: true for a manifest of a numbered version (detached ones and temporaries: false). */
bool lk_manifest_parse_name(lk_bytes name, uint64_t *version, lk_manifest_naming *naming);
/* "_versions/<name>" in the arena. */
lk_bytes           lk_manifest_key(uint64_t version, lk_manifest_naming naming, lk_arena *arena);
lk_manifest_naming lk_manifest_key_naming(lk_bytes key);

#endif
