/*
 * shard_manifest_test.c - the bytes that lance-context 0.6.3 wrote for the first claim of the shard `default`, the shard
 * ids it gave to instances, and damage.
 */
#include "rollout/shard_manifest.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* version 1, epoch 1, current generation 1, shard id. */
#define ID "5a120a1002e81b29f15054b99a08ce75944f6889"
static const char first_claim[] = "080110013001" ID;
/* The manifest after its first add: one generation. */
static const char first_add[] = "0802100118012001300242120801120e37663962306662315f67656e5f31" ID;

static lk_bytes unhex(const char *text, char *out)
{
    size_t size = strlen(text) / 2;
    assert_true(lk_unhex(lk_bytes_of(text), out, size));
    return (lk_bytes){out, size};
}

static void the_first_claim_has_the_published_bytes(void **state)
{
    char              golden[64];
    lk_buf            bytes = {0};
    lk_shard_manifest manifest = {.version = 1,
        .writer_epoch = 1,
        .current_generation = 1,
        .shard = lk_shard_of_instance(LK_LITERAL("default"))};
    lk_shard_manifest_encode(&manifest, &bytes);
    assert_true(lk_bytes_equal(lk_buf_view(&bytes), unhex(first_claim, golden)));
    lk_buf_deinit(&bytes);
}

static void the_first_add_is_read_and_written_as_it_is(void **state)
{
    char              golden[64];
    lk_buf            encoded = {0};
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_shard_manifest manifest;
    lk_bytes          bytes = unhex(first_add, golden);
    assert_int_equal(lk_shard_manifest_decode(bytes, &arena, &manifest, &err), LK_OK);
    assert_int_equal(manifest.replay_after, 1);
    assert_int_equal(manifest.current_generation, 2);
    assert_int_equal(manifest.generation_count, 1);
    assert_int_equal(manifest.generations[0].number, 1);
    assert_true(lk_bytes_equal(manifest.generations[0].path, LK_LITERAL("7f9b0fb1_gen_1")));
    lk_shard_manifest_encode(&manifest, &encoded);
    assert_true(lk_bytes_equal(lk_buf_view(&encoded), bytes));
    lk_buf_deinit(&encoded);
    lk_arena_close(&arena);
}

static void an_instance_has_the_shard_that_the_reference_gives_it(void **state)
{
    static const char *const known[][2] = {
        {"default", "02e81b29-f150-54b9-9a08-ce75944f6889"},
        {"rollout-0", "c4118b9c-7f79-523d-9bad-381e42232c1d"},
        {"rollout-1", "56444a41-f0f6-596c-a83a-74db3c701c2e"},
        {"rollout-2", "3a753bd1-7403-5419-890a-9149c77b78b2"},
        {"rollout-3", "038bab8f-fc73-5b5d-9c6b-e8b4aa82d301"},
        {"node/\xce\xb1", "3ee2baec-f8ff-5cfa-881b-0f335895ba14"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[LK_UUID_TEXT_SIZE + 1];
        lk_uuid_format(lk_shard_of_instance(lk_bytes_of(known[i][0])), text);
        assert_string_equal(text, known[i][1]);
    }
}

static void positions_are_named_lowest_bit_first(void **state)
{
    static const char *const starts[] = {"1000", "0100", "1100"};
    for (uint64_t version = 1; version <= 3; version++) {
        char     name[LK_SHARD_POSITION_DIGITS + 1];
        lk_buf   file = {0};
        uint64_t parsed = 0;
        lk_shard_position_format(version, name);
        assert_memory_equal(name, starts[version - 1], 4);
        lk_buf_format(&file, "%s.binpb", name);
        assert_true(lk_shard_position_parse(lk_buf_view(&file), LK_LITERAL(".binpb"), &parsed));
        assert_int_equal(parsed, version);
        assert_false(lk_shard_position_parse(lk_buf_view(&file), LK_LITERAL(".arrow"), &parsed));
        file.data[7] = '2';
        assert_false(lk_shard_position_parse(lk_buf_view(&file), LK_LITERAL(".binpb"), &parsed));
        lk_buf_deinit(&file);
    }
}

/* Generations 5 and 3 (in that order) with a field 4 each, an unknown field 30, sharding field values (14). */
static void what_is_not_known_is_kept(void **state)
{
    static const char text[] = "08071002180918"
                               "09200a3006" /* positions: the last value of a repeated field counts */
                               "42090805"
                               "1203615f35"
                               "200c"
                               "42090803"
                               "1203615f33"
                               "200d" ID "72020805"
                               "f2010568656c6c6f";
    char              bytes[160];
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_shard_manifest manifest, again;
    lk_buf            encoded = {0};
    assert_int_equal(lk_shard_manifest_decode(unhex(text, bytes), &arena, &manifest, &err), LK_OK);
    assert_int_equal(manifest.version, 7);
    assert_int_equal(manifest.replay_after, 9);
    assert_int_equal(manifest.wal_last_seen, 10);
    assert_int_equal(manifest.generation_count, 2);
    assert_int_equal(manifest.generations[0].number, 3);
    assert_true(lk_bytes_equal(manifest.generations[1].path, LK_LITERAL("a_5")));
    assert_ptr_equal(lk_shard_manifest_find(&manifest, 5), &manifest.generations[1]);
    assert_null(lk_shard_manifest_find(&manifest, 4));

    manifest.generations++; /* the older one was merged */
    manifest.generation_count--;
    lk_shard_manifest_encode(&manifest, &encoded);
    assert_int_equal(lk_shard_manifest_decode(lk_buf_view(&encoded), &arena, &again, &err), LK_OK);
    assert_int_equal(again.generation_count, 1);
    assert_memory_equal(again.generations[0].rest.data, "\x20\x0c", 2);
    assert_int_equal(again.rest.size, 4 + 8);
    assert_memory_equal(again.rest.data, "\x72\x02\x08\x05\xf2\x01\x05hello", 12);
    lk_buf_deinit(&encoded);
    lk_arena_close(&arena);
}

/* Moved on one by one, or read whole from what was written: the same, and what is not known stays. */
static void a_kept_manifest_follows_what_is_added(void **state)
{
    static const char text[] = "080710021809"
                               "20093006"
                               "42090805"
                               "1203615f35"
                               "200c" ID "f2010568656c6c6f";
    char              bytes[160], path[16];
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_buf            room = {0};
    lk_shard_manifest kept, next, again;
    assert_int_equal(lk_shard_manifest_decode(unhex(text, bytes), &arena, &kept, &err), LK_OK);
    for (uint64_t number = 6; number < 300; number++) {
        lk_buf written = {0}, wanted = {0};
        int    size = snprintf(path, sizeof path, "a_%d", (int)number);
        next = kept;
        next.version++;
        next.current_generation = number + 1;
        next.replay_after = number % 3 == 0 ? number : next.replay_after;
        const lk_shard_generation added = {.number = number, .path = {path, (size_t)size}};
        lk_shard_manifest_follow(&kept, &arena, &room, &next, &added, 1);
        lk_shard_manifest_encode(&kept, &written);
        assert_int_equal(lk_shard_manifest_decode(lk_buf_view(&written), &arena, &again, &err), LK_OK);
        assert_int_equal(again.generation_count, number - 4);
        assert_int_equal(again.replay_after, number / 3 * 3);
        assert_true(lk_bytes_equal(again.generations[number - 5].path, added.path));
        assert_memory_equal(again.generations[0].rest.data, "\x20\x0c", 2);
        assert_memory_equal(again.rest.data, "\xf2\x01\x05hello", 8);
        lk_shard_manifest_encode(&again, &wanted);
        assert_true(lk_bytes_equal(lk_buf_view(&written), lk_buf_view(&wanted)));
        lk_buf_deinit(&wanted);
        lk_buf_deinit(&written);
    }
    lk_buf_deinit(&room);
    lk_arena_close(&arena);
}

static void a_damaged_manifest_is_refused(void **state)
{
    static const char *const bad[] = {
        "",                                           /* nothing */
        "0801",                                       /* no shard */
        "1001" ID,                                    /* no version */
        "08015a110a0f02e81b29f15054b99a08ce75944f68", /* a short id */
        "08015a120a1002e81b29f15054b99a08ce75944f68", /* cut */
        "08013001"
        "42050801120161" ID, /* a generation not given yet */
        "08013002"
        "4203080112" ID, /* a cut generation */
        "08013002"
        "420808011204612f2e2e" ID, /* a path that climbs */
        "08013002"
        "4206080112022e2e" ID, /* .. */
        "08013002"
        "42050801120161"
        "42050801120162" ID, /* a number twice */
        "0801" ID "7802",    /* an unknown status */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char              bytes[160];
        lk_arena          arena = {0};
        lk_err            err = {0};
        lk_shard_manifest manifest;
        lk_rc             rc = lk_shard_manifest_decode(unhex(bad[i], bytes), &arena, &manifest, &err);
        assert_int_equal(rc, LK_E_CORRUPT_FILE);
        lk_arena_close(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_claim_has_the_published_bytes),
        cmocka_unit_test(the_first_add_is_read_and_written_as_it_is),
        cmocka_unit_test(an_instance_has_the_shard_that_the_reference_gives_it),
        cmocka_unit_test(positions_are_named_lowest_bit_first),
        cmocka_unit_test(what_is_not_known_is_kept),
        cmocka_unit_test(a_kept_manifest_follows_what_is_added),
        cmocka_unit_test(a_damaged_manifest_is_refused),
    };
    return cmocka_run_group_tests_name("shard_manifest", tests, NULL, NULL);
}
