#ifndef LK_LANCE_ALTER_H
#define LK_LANCE_ALTER_H
/*
 * alter.h - what may be done to a table besides adding rows. Every call makes at most one new version (invariant 2 of
 * dataset.h) and returns it in *out; options may be NULL.
 *
 * When others committed since base, a committer that stands alone is tried on top of their versions as rebase.h
 * allows; else, and where it does not allow it: LK_E_CONFLICT with a detail, nothing visible, and the caller may
 * open the newest version and start again. err->maybe_applied says that the commit step itself is unknown.
 * Threads: as dataset.h.
 */
#include "lance/dataset.h"
#include "lance/row_set.h"

/* Commits the content of `version` again, as the version after base (the newest): its rows and schema, index
 * included. What others committed meanwhile does not matter; it stays in the history. LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_dataset_restore(lk_dataset *base, lk_committer *committer, uint64_t version,
    const lk_write_options *options, lk_dataset **out, lk_err *err);

/* -- columns: rows stay where they are ----------------------------------------------------------------------- */

/*
 * A path is a top-level column's name, or names of struct fields joined by dots. LK_E_NOT_FOUND when there is none;
 * LK_E_INVALID_REQUEST for a name that is empty, has a dot, is taken or reserved, and for a drop that leaves no
 * column or no field of a struct. An index of a dropped column goes with it.
 */
LK_MUST_CHECK lk_rc lk_dataset_drop_columns(lk_dataset *base, lk_committer *committer, const lk_bytes *paths,
    size_t count, const lk_write_options *options, lk_dataset **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_dataset_rename_column(lk_dataset *base, lk_committer *committer, lk_bytes path,
    lk_bytes name, const lk_write_options *options, lk_dataset **out, lk_err *err);
/* Adds the children of this struct schema as columns that are null in every row there is. LK_E_INVALID_SCHEMA for one
 * that is not nullable or that Lance cannot hold. */
LK_MUST_CHECK lk_rc lk_dataset_add_columns(lk_dataset *base, lk_committer *committer,
    const struct ArrowSchema *columns, const lk_write_options *options, lk_dataset **out, lk_err *err);

/*
 * Gives a column (not a field of a struct) another type, as arrow/schema.h writes it: every value is converted
 * (arrow/cast.h) and written to new data files. Name, place and nullability stay; the field id does not, so an index of
 * the column goes. LK_E_NOT_FOUND for the path; LK_E_INVALID_SCHEMA, LK_E_SCHEMA_MISMATCH for what cannot be converted,
 * by type or by value.
 */
LK_MUST_CHECK lk_rc lk_dataset_cast_column(lk_dataset *base, lk_committer *committer, lk_bytes path,
    lk_bytes type, const lk_write_options *options, lk_dataset **out, lk_err *err);

/* Gives the values of new columns. */
typedef struct lk_column_source {
    /* *out: a row for every row of `part` (one fragment of a version) that is not deleted, in its order; its columns are
     * those that are added, by name, of types that convert to theirs. */
    lk_rc (*open)(void *context, lk_dataset *part, lk_batches **out, lk_err *err);
    void *context;
} lk_column_source;

/* Adds columns with values. When fragments come or are changed meanwhile, theirs are asked for again. */
LK_MUST_CHECK lk_rc lk_dataset_add_computed_columns(lk_dataset *base, lk_committer *committer,
    const struct ArrowSchema *columns, const lk_column_source *source, const lk_write_options *options,
    lk_dataset **out, lk_err *err);

/* -- overwrite ------------------------------------------------------------------------------------------------ */

/*
 * Makes the rows of source all that the table has, with the source's columns instead of its own; the old versions
 * stay. Indices go; configuration, tags and fragment ids' order stay. options->file_version may give the files another
 * version. What others committed meanwhile is overwritten too, but for another overwrite: LK_E_CONFLICT.
 */
LK_MUST_CHECK lk_rc lk_dataset_overwrite(lk_dataset *base, lk_committer *committer, lk_batches *source,
    const lk_write_options *options, lk_dataset **out, lk_err *err);

/* -- delete ---------------------------------------------------------------------------------------------- */
typedef struct lk_delete_report {
    uint64_t rows, fragments_changed, fragments_removed;
} lk_delete_report;

/* Deletes these rows of base (addresses: fragment << 32 | row offset; one that is deleted already is no error).
 * LK_E_INVALID_REQUEST when base has no such row. LK_E_CONFLICT when one was deleted, updated or moved to another
 * fragment meanwhile. Without a row to delete *out is base again and nothing is committed. `text` goes into the
 * transaction (what the rows were chosen by). report may be NULL. */
LK_MUST_CHECK lk_rc lk_dataset_delete_rows(lk_dataset *base, lk_committer *committer, lk_row_set *rows,
    lk_bytes text, const lk_write_options *options, lk_delete_report *report, lk_dataset **out, lk_err *err);

/* Chooses rows of a version, by adding their addresses to rows. */
typedef struct lk_row_selector {
    lk_rc (*select)(void *context, lk_dataset *version, lk_row_set *rows, lk_err *err);
    void    *context;
    lk_bytes text;
} lk_row_selector;

/* Deletes the rows that are chosen. When some of them changed meanwhile and the committer stands alone, they are
 * chosen again from the newest version, so no row that was updated meanwhile stays by mistake. */
LK_MUST_CHECK lk_rc lk_dataset_delete(lk_dataset *base, lk_committer *committer,
    const lk_row_selector *selector, const lk_write_options *options, lk_delete_report *report,
    lk_dataset **out, lk_err *err);

/* Selects the rows that a predicate over base's columns holds for. A version with other columns is
 * LK_E_CONFLICT. Borrows all; base stays open as long as the selector. */
typedef struct lk_predicate_selector {
    lk_row_selector           base;
    const struct ArrowSchema *schema; /* the predicate's */
    const lk_predicate       *predicate;
    lk_cancel                *cancel;
} lk_predicate_selector;
void lk_predicate_selector_init(lk_predicate_selector *selector, lk_dataset *base,
    const lk_predicate *predicate, lk_bytes text, lk_cancel *cancel);

/* -- update --------------------------------------------------------------------------------------------------- */

/* Says which rows of a version become which. */
typedef struct lk_row_changer {
    /*
     * *out: batches of the version's columns, in their order, and one more, uint64: the address of the row that the
     * batch's row takes the place of, or null when it is a new one. Rows that go without another in their place are
     * added to `removed`. No address comes twice.
     */
    lk_rc (*change)(void *context, lk_dataset *version, lk_row_set *removed, lk_batches **out, lk_err *err);
    /* Whether a changed row's value in this top-level column stays as it was, whatever the row. NULL: in none. */
    bool (*keeps)(void *context, const struct ArrowSchema *column);
    void *context;
    bool  by_key; /* what is new depends on what is there: does not go with rows added meanwhile */
} lk_row_changer;

typedef struct lk_update_report {
    uint64_t rows_updated, rows_inserted, rows_deleted;
    uint64_t fragments_changed, fragments_removed, fragments_written;
} lk_update_report;

/*
 * Writes the changed rows as new fragments and takes the old ones out, in one version. Where rows have stable ids, an
 * updated row keeps its own. When what was chosen changed meanwhile and the committer stands alone, the changer is
 * asked again, with the newest version. Without anything to do *out is base again. report may be NULL.
 */
LK_MUST_CHECK lk_rc lk_dataset_update(lk_dataset *base, lk_committer *committer,
    const lk_row_changer *changer, const lk_write_options *options, lk_update_report *report,
    lk_dataset **out, lk_err *err);

/* -- merge ---------------------------------------------------------------------------------------------------- */

/* Finds which rows of a source and of a table's version have the same key; null is no key. */
typedef struct lk_row_matcher {
    /* *pairs: batches of two uint64 columns: the address of a row of source, ascending, and of a row of version that
     * has its key, or null. Every row of source comes, once for each row it matches and once when there is none.
     * LK_E_INVALID_REQUEST when two rows of source have the same key. */
    lk_rc (*match)(void *context, lk_dataset *source, lk_dataset *version, lk_batches **pairs, lk_err *err);
    /* Adds the rows of version that no row of source matches. */
    lk_rc (*unmatched)(void *context, lk_dataset *source, lk_dataset *version, lk_row_set *rows, lk_err *err);
    bool (*is_key)(
        void *context, lk_bytes column); /* whether rows that match are equal in it; NULL: unknown */
    void *context;
} lk_row_matcher;

typedef struct lk_merge_options {
    bool update;           /* a matched row takes the source's values; else it stays */
    bool insert;           /* an unmatched row of the source is added; else it is left out */
    bool delete_unmatched; /* rows of the table that no row of the source matches go */
} lk_merge_options;

/* Merges a source with the table's columns (by name; source is read several times) into it. */
LK_MUST_CHECK lk_rc lk_dataset_merge(lk_dataset *base, lk_committer *committer, lk_dataset *source,
    const lk_row_matcher *matcher, const lk_merge_options *merge, const lk_write_options *options,
    lk_update_report *report, lk_dataset **out, lk_err *err);

/* -- cleanup ----------------------------------------------------------------------------------------------- */
typedef struct lk_cleanup_options {
    uint64_t older_than_ms; /* a version goes only when it is at least so old */
    uint64_t retain;        /* the newest so many versions stay, at least one */
    bool delete_unverified; /* also young files that no version was seen to refer to: nobody may be writing */
    bool dry_run;           /* only says what would go */
} lk_cleanup_options;

typedef struct lk_cleanup_report {
    uint64_t versions, versions_removed, versions_named; /* named: old, but kept by a tag or a branch */
    uint64_t files_removed, bytes_removed;               /* manifests are not among the files */
} lk_cleanup_report;

/*
 * Removes old versions and the files that no version needs any more. A version stays when it is the newest, among the
 * newest `retain`, young, tagged, or the one a branch grew from; a file stays when a version that stays refers to it,
 * or when no version was seen to refer to it and it is younger than LK_CLEANUP_UNVERIFIED_MS (somebody may be about to
 * commit it). Nothing outside this table's own directory is touched. A cleanup that was stopped is ended by the next.
 * LK_E_CORRUPT_FILE, LK_E_UNSUPPORTED_FORMAT when a version cannot be read: then nothing is removed.
 * LK_E_PRECONDITION for the directory of a branch: what keeps its versions stands in the main table.
 */
LK_MUST_CHECK lk_rc lk_dataset_cleanup(
    const lk_lance_env *env, const lk_cleanup_options *options, lk_cleanup_report *report, lk_err *err);

/* -- compaction --------------------------------------------------------------------------------------------- */
typedef struct lk_compact_options {
    uint64_t target_rows;  /* of a fragment, at most; 0: 1,048,576 */
    uint64_t target_bytes; /* of its files, at most; 0: 16 GiB */
    uint64_t first_id;     /* fragments with lower ids stay as they are */
    /* Both not 0: only fragments with fewer rows and bytes are rewritten, and all of those into one, as far as the target
     * allows, wherever they lie. */
    uint64_t gather_rows, gather_bytes;
} lk_compact_options;

typedef struct lk_compact_report {
    uint64_t fragments_before, fragments_after;
    uint64_t fragments_rewritten, fragments_written;
    uint64_t rows, deleted_rows_dropped; /* rows of the table; rows that were deleted and are now gone */
    uint64_t versions;                   /* commits that were made: two for every few groups */
} lk_compact_report;

/*
 * Makes fragments that are small or have lost more than a tenth of their rows into full ones; what is well as it is
 * stays. Rewritten rows keep their order and come after those of fragments that stay, as in every Lance library.
 * Memory depends neither on the table nor on the width of a row. *out is the newest version (base again when there was
 * nothing to do). LK_E_CONFLICT when a fragment was changed meanwhile: what was committed before stays and is in the
 * report.
 */
LK_MUST_CHECK lk_rc lk_dataset_compact(lk_dataset *base, lk_committer *committer,
    const lk_compact_options *compact, const lk_write_options *options, lk_compact_report *report,
    lk_dataset **out, lk_err *err);

#endif
