/*
 * features.c - see features.h.
 */
#include "lance/features.h"

#include <stdio.h>

/* Bits of the feature flags by number; what is not here is unknown. */
static const struct feature {
    const char *name;
    bool        read, commit; /* whether we can */
} features_by_bit[] = {
    {"deletion files", true, true},
    {"stable row ids", true, true},
    {"old v2 files", true, true},
    {"table configuration", true, true},
    {"base paths", true, true},
    {"no transaction files", true, true},
    {"data overlay files", false, false},
    {"covering index columns", false, false},
    {"mixed file versions", true, true},
    {"fragment reuse index with stable row ids", false, false},
    {"tagged fragment reuse index", false, false},
    {"row lineage columns", true, true},
    {"fragment tree", false, false},
    {"independent covering fields", false, false},
    {"managed blobs", false, false},
    {"field ids that are not reused", true, true},
    {"zone write seeds", false, false},
    {"object metadata", false, false},
};

enum { FEATURE_COUNT = sizeof features_by_bit / sizeof features_by_bit[0] };

lk_rc lk_refuse_feature(const char *name, const char *doing, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "%s a table with %s", doing, name);
    lk_detail(err, "this build cannot %s a table with %s", doing, name);
    return rc;
}

static lk_rc check_flags(uint64_t flags, bool commit, lk_err *err)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        if ((flags >> bit & 1) == 0) {
            continue;
        }
        const char *doing = commit ? "change" : "read";
        if (bit >= FEATURE_COUNT) {
            char name[32];
            (void)snprintf(name, sizeof name, "unknown feature %u", bit);
            return lk_refuse_feature(name, doing, err);
        }
        const struct feature *feature = &features_by_bit[bit];
        if (!(commit ? feature->commit : feature->read)) {
            return lk_refuse_feature(feature->name, doing, err);
        }
    }
    return LK_OK;
}

/* From before the format was named: its files say what it is, and without any the flag that nobody sets any more. */
static bool named_by_files(lk_manifest *manifest)
{
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        if (manifest->fragments[i].file_count > 0) {
            manifest->file_minor = manifest->fragments[i].files[0].minor;
            return manifest->fragments[i].files[0].major == 2;
        }
    }
    manifest->file_minor = 0;
    return ((manifest->reader_flags | manifest->writer_flags) & LK_FLAG_OLD_V2) != 0;
}

static lk_rc check_format(lk_manifest *manifest, const lk_pb_features *features, lk_err *err)
{
    static const char *const versions[] = {"2.0", "2.1", "2.2"};
    if (features->file_format.size == 0 && named_by_files(manifest)) {
        return LK_OK;
    }
    if (!lk_bytes_equal(features->file_format, LK_LITERAL("lance"))) {
        return lk_refuse_feature("data files other than Lance 2", "read", err);
    }
    for (uint32_t minor = 0; minor < 3; minor++) {
        if (lk_bytes_equal(features->format_version, lk_bytes_of(versions[minor]))) {
            manifest->file_minor = minor;
            return LK_OK;
        }
    }
    char name[64];
    (void)snprintf(name, sizeof name, "file version %.20s",
        features->format_version.size == 0 ? "unknown" : features->format_version.data);
    return lk_refuse_feature(name, "read", err);
}

/* In a table with stable row ids every fragment has them. */
static lk_rc check_row_ids(const lk_manifest *manifest, lk_err *err)
{
    bool stable = (manifest->reader_flags & LK_FLAG_STABLE_ROW_IDS) != 0;
    for (size_t i = 0; stable && i < manifest->fragment_count; i++) {
        if (!lk_fragment_has_row_ids(&manifest->fragments[i])) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "stable row ids, and fragment %llu has none",
                (unsigned long long)manifest->fragments[i].id);
        }
    }
    return LK_OK;
}

/* What both words must say, and what one of them says beside a field of the manifest. */
static lk_rc check_pairs(const lk_manifest *manifest, lk_err *err)
{
    enum { PAIRED = 1 << 8 | 1 << 10 | 1 << 14 | 1 << 16 };
    bool never_reused = (manifest->writer_flags & LK_FLAG_FIELD_IDS_NOT_REUSED) != 0;
    if (((manifest->reader_flags ^ manifest->writer_flags) & PAIRED) != 0) {
        return lk_fail(
            err, LK_E_CORRUPT_FILE, "a feature of readers and writers is flagged for one of them only");
    }
    if (never_reused != manifest->has_field_id_max ||
        (manifest->reader_flags & LK_FLAG_FIELD_IDS_NOT_REUSED) != 0) {
        return lk_fail(
            err, LK_E_CORRUPT_FILE, "the flag of field ids that are not reused, and its field, disagree");
    }
    return LK_OK;
}

lk_rc lk_manifest_check_features(lk_manifest *manifest, const lk_pb_features *features, lk_err *err)
{
    lk_rc rc = check_flags(manifest->reader_flags, false, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = check_pairs(manifest, err);
    rc = rc == LK_OK ? check_row_ids(manifest, err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    if (features->fragment_tree) {
        return lk_refuse_feature("a fragment tree", "read", err);
    }
    if (features->overlays) {
        return lk_refuse_feature("data overlay files", "read", err);
    }
    if (features->external_row_ids) {
        return lk_refuse_feature("row ids outside of the manifest", "read", err);
    }
    return check_format(manifest, features, err);
}

lk_rc lk_manifest_check_writable(const lk_manifest *manifest, lk_err *err)
{
    return check_flags(manifest->writer_flags | manifest->reader_flags, true, err);
}

/* -- of a new version -------------------------------------------------------------------------------------- */

enum {
    BOTH = LK_FLAG_DELETION_FILES | LK_FLAG_BASE_PATHS | LK_FLAG_LINEAGE_COLUMNS,
    MADE_ANEW = BOTH | LK_FLAG_CONFIG /* what the manifest itself says; others are kept */
};

lk_flags lk_manifest_flags(const lk_manifest *manifest)
{
    uint64_t both = manifest->base_count > 0 ? LK_FLAG_BASE_PATHS : 0;
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        const lk_fragment *fragment = &manifest->fragments[i];
        both |= fragment->deletion.kind != LK_DELETION_NONE ? (uint64_t)LK_FLAG_DELETION_FILES : 0;
        both |= fragment->lineage_columns != 0 ? (uint64_t)LK_FLAG_LINEAGE_COLUMNS : 0;
        both |= lk_fragment_has_row_ids(fragment) ? (uint64_t)LK_FLAG_STABLE_ROW_IDS : 0;
    }
    return (lk_flags){
        .reader = (manifest->reader_flags & ~(uint64_t)MADE_ANEW) | both,
        .writer = (manifest->writer_flags & ~(uint64_t)MADE_ANEW) | both |
                  (manifest->config_count > 0 ? (uint64_t)LK_FLAG_CONFIG : 0),
    };
}

int32_t lk_manifest_field_id_max(const lk_manifest *manifest)
{
    int32_t highest = manifest->has_field_id_max ? manifest->field_id_max : -1;
    for (size_t i = 0; i < manifest->schema->field_count; i++) {
        int32_t id = manifest->schema->fields[i].id;
        highest = id > highest ? id : highest;
    }
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        const lk_fragment *fragment = &manifest->fragments[i];
        for (size_t f = 0; f < fragment->file_count; f++) {
            for (size_t n = 0; n < fragment->files[f].field_count; n++) {
                int32_t id = fragment->files[f].fields[n];
                highest = id > highest ? id : highest;
            }
        }
    }
    return highest;
}
