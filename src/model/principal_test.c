/* principal_test.c - who gets in with which token, what they may see, and which files are refused. */
#include "model/principal.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64], path[96];

static int set_up(void **state)
{
    (void)snprintf(root, sizeof root, "/tmp/lk-principal-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/file", root);
    return 0;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) != LK_OK;
}

static void write_file(lk_bytes text)
{
    lk_err err = {0};
    assert_int_equal(lk_file_replace(path, text, 0600, &err), LK_OK);
}

static void without_files_everyone_is_the_development_admin(void **state)
{
    lk_err         err = {0};
    lk_principals *all = NULL;
    assert_int_equal(lk_principals_load(&all, NULL, NULL, &err), LK_OK);
    assert_false(lk_principals_required(all));
    const lk_principal *who = lk_principals_find(all, LK_LITERAL("anything"));
    assert_string_equal(who->id.data, "lake-development");
    assert_string_equal(who->tenant.data, "development");
    assert_int_equal(who->role, LK_ROLE_ADMIN);
    assert_true(lk_principal_may_use(who, LK_LITERAL("any")));
    lk_principals_close(all);
    lk_principals_close(NULL);
}

static void a_token_file_admits_its_one_token(void **state)
{
    lk_err         err = {0};
    lk_principals *all = NULL;
    write_file(LK_LITERAL("s3cret\r\n"));
    assert_int_equal(lk_principals_load(&all, path, NULL, &err), LK_OK);
    assert_true(lk_principals_required(all));
    const lk_principal *who = lk_principals_find(all, LK_LITERAL("s3cret"));
    assert_string_equal(who->id.data, "deployment-bearer");
    assert_string_equal(who->tenant.data, "deployment");
    assert_int_equal(who->role, LK_ROLE_ADMIN);
    assert_null(lk_principals_find(all, LK_LITERAL("s3cre")));
    assert_null(lk_principals_find(all, LK_LITERAL("s3cret\r\n")));
    assert_null(lk_principals_find(all, LK_LITERAL("")));
    lk_principals_close(all);
}

static const char bindings[] = "{\"bindings\":[{\"token\":\"alice-token\",\"principal_id\":\"alice@lab\","
                               "\"tenant_id\":\"lab\",\"role\":\"user\","
                               "\"namespaces\":[\"sim\",\"robots\",\"sim\"]},"
                               "{\"token\":\"query-token\",\"principal_id\":\"q\",\"tenant_id\":\"ops\","
                               "\"role\":\"query_service\",\"namespaces\":[]},"
                               "{\"token\":\"peer-token\",\"principal_id\":\"p\",\"tenant_id\":\"ops\","
                               "\"role\":\"metadata_peer\",\"namespaces\":[\"sim\"]},"
                               "{\"token\":\"root-token\",\"principal_id\":\"r\",\"tenant_id\":\"ops\","
                               "\"role\":\"admin\",\"namespaces\":[]}]}";

static void a_principals_file_maps_tokens_to_grants(void **state)
{
    lk_err         err = {0};
    lk_principals *all = NULL;
    write_file(LK_LITERAL(bindings));
    assert_int_equal(lk_principals_load(&all, NULL, path, &err), LK_OK);
    const lk_principal *alice = lk_principals_find(all, LK_LITERAL("alice-token"));
    assert_string_equal(alice->id.data, "alice@lab");
    assert_string_equal(alice->tenant.data, "lab");
    assert_int_equal(alice->namespace_count, 2); /* ascending, each once */
    assert_string_equal(alice->namespaces[0].data, "robots");
    assert_true(lk_principal_may_use(alice, LK_LITERAL("robots")));
    assert_true(lk_principal_may_use(alice, LK_LITERAL("sim")));
    assert_false(lk_principal_may_use(alice, LK_LITERAL("si")));
    assert_false(lk_principal_may_use(alice, LK_LITERAL("other")));
    /* Services see nothing of their own: only what a user delegates. */
    assert_false(lk_principal_may_use(lk_principals_find(all, LK_LITERAL("query-token")), LK_LITERAL("sim")));
    assert_false(lk_principal_may_use(lk_principals_find(all, LK_LITERAL("peer-token")), LK_LITERAL("sim")));
    assert_true(lk_principal_may_use(lk_principals_find(all, LK_LITERAL("root-token")), LK_LITERAL("other")));
    assert_null(lk_principals_find(all, LK_LITERAL("nobody")));
    lk_principals_close(all);
}

static void assert_refused(const char *token_file, const char *principals_file, const char *detail)
{
    lk_err         err = {0};
    lk_principals *all = NULL;
    assert_int_equal(lk_principals_load(&all, token_file, principals_file, &err), LK_E_INVALID_CONFIG);
    assert_null(all);
    assert_non_null(strstr(err.detail, detail));
    assert_null(strstr(err.context, "tok-")); /* no token is ever shown */
}

#define BINDING(token, id, tenant, role, namespaces)                                                     \
    "{\"token\":\"" token "\",\"principal_id\":\"" id "\",\"tenant_id\":\"" tenant "\",\"role\":\"" role \
    "\",\"namespaces\":[" namespaces "]}"

static void a_wrong_binding_is_refused_by_position(void **state)
{
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"{\"bindings\":[]}", "at least one binding is needed"},
        {"{}", "field \"bindings\" is missing"},
        {"{\"bindings\":[" BINDING("tok-a", "a", "t", "user", "") "]}",
            "binding 0 is a user without namespaces"},
        {"{\"bindings\":[" BINDING("tok-a", "a", "t", "root", "\"n\"") "]}",
            "binding 0 has a role that is not"},
        {"{\"bindings\":[" BINDING("tok-a", "a b", "t", "admin", "") "]}", "binding 0 has a principal_id"},
        {"{\"bindings\":[" BINDING("tok-a", "", "t", "admin", "") "]}", "binding 0 has a principal_id"},
        {"{\"bindings\":[" BINDING("tok-a", "a", "-t", "admin", "") "]}",
            "binding 0 has an invalid tenant_id"},
        {"{\"bindings\":[" BINDING("tok-a", "a", "t", "user", "\"a.b\"") "]}",
            "binding 0 grants an invalid namespace"},
        {"{\"bindings\":[" BINDING("", "a", "t", "admin", "") "]}", "binding 0 has a token that is empty"},
        {"{\"bindings\":[" BINDING("tok- a", "a", "t", "admin", "") "]}",
            "binding 0 has a token that is empty or not"},
        {"{\"bindings\":[" BINDING("tok-a", "a", "t", "admin", "") "," BINDING(
             "tok-a", "b", "t", "admin", "") "]}",
            "binding 1 repeats the token of another"},
        {"{\"bindings\":[{\"token\":\"tok-a\",\"more\":1}]}", "binding 0: field \"more\" is unknown"},
        {"{\"bindings\":[" BINDING("tok-a", "a", "t", "admin", "") "]} x", "more after the value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(lk_bytes_of(cases[i].text));
        assert_refused(NULL, path, cases[i].detail);
    }
}

static void a_file_that_others_may_use_is_refused(void **state)
{
    char link_path[128];
    (void)snprintf(link_path, sizeof link_path, "%s/link", root);
    write_file(LK_LITERAL(bindings));
    assert_int_equal(symlink(path, link_path), 0);
    assert_refused(NULL, link_path, "is a symbolic link");
    assert_int_equal(chmod(path, 0640), 0);
    assert_refused(NULL, path, "make it mode 0600");
    assert_refused(path, NULL, "make it mode 0600");
    assert_refused(NULL, root, "is not a regular file");
    assert_refused(NULL, "/nowhere/at/all", "No such file or directory");
    assert_refused(path, path, "exclude each other");
    lk_buf big = {0};
    lk_buf_append_zeros(&big, 1024 * 1024 + 1);
    write_file(lk_buf_view(&big));
    assert_refused(NULL, path, "is larger than 1048576 bytes");
    lk_buf_deinit(&big);
    write_file(LK_LITERAL("\n"));
    assert_refused(path, NULL, "the token is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_files_everyone_is_the_development_admin),
        cmocka_unit_test_setup_teardown(a_token_file_admits_its_one_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_principals_file_maps_tokens_to_grants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_binding_is_refused_by_position, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_others_may_use_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("principal", tests, NULL, NULL);
}
