/* roaring_read.c - see roaring_read.h. */
#include "lance/roaring_read.h"

enum {
    COOKIE_NO_RUNS = 12346,
    COOKIE_RUNS = 12347,
    NO_OFFSETS_BELOW = 4, /* with runs, fewer containers than this have no table of offsets */
    ARRAY_VALUES_MAX = 4096,
    BITSET_BYTES = 8192,
    CONTAINERS_MAX = 1 << 16
};

typedef struct reading {
    lk_bytes        rest;
    lk_roaring_add *add;
    void           *context;
    lk_err         *err;
} reading;

static lk_rc corrupt(const reading *r, const char *what)
{
    return lk_fail(r->err, LK_E_CORRUPT_FILE, "%s", what);
}

static bool take(reading *r, size_t size, const char **out)
{
    if (size > r->rest.size) {
        return false;
    }
    *out = r->rest.data;
    r->rest.data += size;
    r->rest.size -= size;
    return true;
}

static lk_rc read_runs(reading *r, uint32_t high)
{
    const char *at = NULL;
    if (!take(r, 2, &at)) {
        return corrupt(r, "the bitmap is cut short");
    }
    size_t runs = lk_load_u16(at);
    if (!take(r, runs * 4, &at)) {
        return corrupt(r, "the bitmap is cut short");
    }
    lk_rc rc = LK_OK;
    for (size_t run = 0; rc == LK_OK && run < runs; run++) {
        uint32_t first = lk_load_u16(at + run * 4), more = lk_load_u16(at + run * 4 + 2);
        rc = first + more > UINT16_MAX ? corrupt(r, "a run leaves its container")
                                       : r->add(r->context, high | first, more + 1, r->err);
    }
    return rc;
}

static lk_rc read_array(const reading *r, const char *at, size_t count, uint32_t high)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = r->add(r->context, high | lk_load_u16(at + i * 2), 1, r->err);
    }
    return rc;
}

static lk_rc read_bitset(const reading *r, const char *at, uint32_t high)
{
    lk_rc rc = LK_OK;
    for (uint32_t w = 0; w < BITSET_BYTES / 8; w++) {
        for (uint64_t word = lk_load_u64(at + w * 8); rc == LK_OK && word != 0; word &= word - 1) {
            rc = r->add(r->context, high | (w * 64 + (uint32_t)__builtin_ctzll(word)), 1, r->err);
        }
    }
    return rc;
}

static lk_rc read_container(reading *r, const char *header, bool is_run)
{
    uint32_t    high = (uint32_t)lk_load_u16(header) << 16;
    size_t      count = (size_t)lk_load_u16(header + 2) + 1;
    const char *at = NULL;
    if (is_run) {
        return read_runs(r, high);
    }
    bool is_array = count <= ARRAY_VALUES_MAX;
    if (!take(r, is_array ? count * 2 : (size_t)BITSET_BYTES, &at)) {
        return corrupt(r, "the bitmap is cut short");
    }
    return is_array ? read_array(r, at, count, high) : read_bitset(r, at, high);
}

/* *run_flags stays NULL when no container is of runs. */
static lk_rc read_head(reading *r, size_t *containers, const char **run_flags, const char **headers)
{
    const char *at = NULL;
    if (!take(r, 4, &at)) {
        return corrupt(r, "the bitmap is cut short");
    }
    uint32_t cookie = lk_load_u32(at);
    if ((cookie & 0xffff) == COOKIE_RUNS) {
        *containers = (cookie >> 16) + 1;
        if (!take(r, (*containers + 7) / 8, run_flags)) {
            return corrupt(r, "the bitmap is cut short");
        }
    } else if (cookie == COOKIE_NO_RUNS && take(r, 4, &at)) {
        *containers = lk_load_u32(at);
    } else {
        return corrupt(r, "not a Roaring bitmap");
    }
    if (*containers > CONTAINERS_MAX || !take(r, *containers * 4, headers)) {
        return corrupt(r, "the bitmap is cut short");
    }
    bool has_offsets = *run_flags == NULL || *containers >= NO_OFFSETS_BELOW;
    if (has_offsets && !take(r, *containers * 4, &at)) {
        return corrupt(r, "the bitmap is cut short");
    }
    return LK_OK;
}

lk_rc lk_roaring_read(lk_bytes bytes, lk_roaring_add *add, void *context, lk_err *err)
{
    reading     r = {bytes, add, context, err};
    const char *run_flags = NULL, *headers = NULL;
    size_t      containers = 0;
    lk_rc       rc = read_head(&r, &containers, &run_flags, &headers);
    for (size_t index = 0; rc == LK_OK && index < containers; index++) {
        bool is_run = run_flags != NULL && ((uint8_t)run_flags[index / 8] >> (index % 8) & 1) != 0;
        rc = read_container(&r, headers + index * 4, is_run);
    }
    return rc;
}
