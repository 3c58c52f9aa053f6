/* tls_test.c - identities from files, and a call over TLS. Keys and certificates are made by OpenSSL here. */
#include "net/tls.h"

#include "base/clock.h"
#include "net/grpc_client.h"
#include "net/grpc_server.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH_SIZE = 256 };

typedef struct fixture {
    char   directory[64], cert[PATH_SIZE], key[PATH_SIZE], other_cert[PATH_SIZE], other_key[PATH_SIZE];
    lk_err err;
} fixture;

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* A self-signed certificate for lake.test, and its key. */
static void make_pair(const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509     *cert = X509_new();
    assert_int_equal(X509_set_version(cert, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(cert), 7), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), -60));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), 3600));
    X509_NAME *name = X509_get_subject_name(cert);
    assert_int_equal(
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"lake.test", -1, -1, 0), 1);
    assert_int_equal(X509_set_issuer_name(cert, name), 1);
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_alt_name, "DNS:lake.test");
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);

    FILE *out = fopen(cert_path, "w");
    assert_int_equal(PEM_write_X509(out, cert), 1);
    fclose(out);
    out = fopen(key_path, "w");
    assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(out);
    assert_int_equal(chmod(key_path, 0600), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/lake-tls-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->cert, PATH_SIZE, "%s/cert.pem", f->directory);
    (void)snprintf(f->key, PATH_SIZE, "%s/key.pem", f->directory);
    (void)snprintf(f->other_cert, PATH_SIZE, "%s/other-cert.pem", f->directory);
    (void)snprintf(f->other_key, PATH_SIZE, "%s/other-key.pem", f->directory);
    make_pair(f->cert, f->key);
    make_pair(f->other_cert, f->other_key);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    unlink(f->cert);
    unlink(f->key);
    unlink(f->other_cert);
    unlink(f->other_key);
    rmdir(f->directory);
    free(f);
    return 0;
}

static void refused(fixture *f, const char *cert, const char *key, const char *why)
{
    lk_tls_identity identity;
    assert_int_equal(lk_tls_identity_load(&identity, cert, key, &f->err), LK_E_INVALID_CONFIG);
    assert_non_null(strstr(f->err.detail, why));
    assert_false(lk_tls_identity_present(&identity));
}

static void a_pair_that_fits_is_loaded_and_none_is_no_tls(void **state)
{
    fixture        *f = *state;
    lk_tls_identity identity;
    assert_int_equal(lk_tls_identity_load(&identity, NULL, NULL, &f->err), LK_OK);
    assert_false(lk_tls_identity_present(&identity));
    assert_int_equal(lk_tls_identity_load(&identity, f->cert, f->key, &f->err), LK_OK);
    assert_true(lk_tls_identity_present(&identity));
    lk_tls_identity_deinit(&identity);
    lk_tls_identity_deinit(&identity);
}

static void half_a_pair_strangers_and_open_keys_are_refused(void **state)
{
    fixture *f = *state;
    refused(f, "/nowhere/cert.pem", f->key, "there is no TLS certificate /nowhere/cert.pem");
    refused(f, f->cert, NULL, "both");
    refused(f, NULL, f->key, "both");
    refused(f, f->cert, f->other_key, "do not belong together");
    refused(f, f->key, f->key, "no PEM certificate");
    refused(f, f->cert, f->cert, "readable by others");
    assert_int_equal(chmod(f->cert, 0600), 0);
    refused(f, f->cert, f->cert, "no unencrypted PEM key");
    assert_int_equal(chmod(f->key, 0640), 0);
    refused(f, f->cert, f->key, "chmod 600");
    refused(f, f->cert, "/nonexistent/key.pem", "regular file");
}

/* -- a call over it -- */

static lk_rc echo(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_bytes request;
    lk_rc    rc = lk_grpc_call_request(call, &request, err);
    return rc == LK_OK ? lk_grpc_call_write_bytes(call, request, err) : rc;
}

static lk_rc call_with(const char *endpoint, const char *ca, const char *name, lk_err *err)
{
    lk_arena                arena = {0};
    lk_bytes                reply = {0};
    lk_grpc_channel        *channel = NULL;
    lk_grpc_channel_options options = {.endpoint = endpoint, .ca_file = ca, .server_name = name};
    lk_grpc_rpc_options     within = {.deadline_ms = lk_clock_monotonic_ms(lk_clock_real()) + 5000};
    lk_rc                   rc = lk_grpc_channel_open(&channel, &options, err);
    if (rc == LK_OK) {
        rc = lk_grpc_unary(channel, "/t.S/Echo", &within, LK_LITERAL("over TLS"), &arena, &reply, err);
    }
    if (rc == LK_OK) {
        assert_true(lk_bytes_equal(reply, LK_LITERAL("over TLS")));
    }
    lk_grpc_channel_close(channel);
    lk_arena_close(&arena);
    return rc;
}

static void a_client_that_trusts_the_certificate_gets_through_and_no_other(void **state)
{
    static const lk_grpc_method method = {"/t.S/Echo", LK_GRPC_UNARY, echo, NULL, 0, 0, false};
    fixture                    *f = *state;
    lk_tls_identity             identity;
    lk_grpc_server             *server = NULL;
    lk_grpc_server_options      options = {
             .address = "127.0.0.1:0", .tls = &identity, .methods = &method, .method_count = 1, .worker_count = 1};
    char tls[PATH_SIZE], plain[PATH_SIZE];
    assert_int_equal(lk_tls_identity_load(&identity, f->cert, f->key, &f->err), LK_OK);
    assert_int_equal(lk_grpc_server_open(&server, &options, &f->err), LK_OK);
    (void)snprintf(tls, sizeof tls, "grpc+tls://%s", lk_grpc_server_address(server));
    (void)snprintf(plain, sizeof plain, "grpc://%s", lk_grpc_server_address(server));

    assert_int_equal(call_with(tls, f->cert, "lake.test", &f->err), LK_OK);
    assert_int_equal(call_with(tls, f->other_cert, "lake.test", &f->err), LK_E_UNREACHABLE);
    assert_int_equal(call_with(tls, f->cert, "elsewhere.test", &f->err), LK_E_UNREACHABLE);
    assert_int_equal(call_with(plain, NULL, NULL, &f->err), LK_E_UNREACHABLE);
    assert_int_equal(call_with(plain, f->cert, NULL, &f->err), LK_E_INVALID_CONFIG);
    assert_int_equal(call_with(tls, f->key, NULL, &f->err), LK_E_INVALID_CONFIG);
    lk_grpc_server_close(server);
    lk_tls_identity_deinit(&identity);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_pair_that_fits_is_loaded_and_none_is_no_tls),
        T(half_a_pair_strangers_and_open_keys_are_refused),
        T(a_client_that_trusts_the_certificate_gets_through_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
