/* tls.c - reads PEM files and lets OpenSSL say whether they are what they claim. Threads: stateless. */
#include "net/tls.h"

#include "base/crypt.h"
#include "base/file.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

enum { PEM_BYTES_MAX = 1024 * 1024 };

static lk_rc check_mode(const char *key_file, lk_err *err)
{
    struct stat about;
    if (lstat(key_file, &about) != 0 || !S_ISREG(about.st_mode)) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "%s is not a regular file", key_file);
        lk_detail(err, "the TLS key must be a regular file");
        return rc;
    }
    if ((about.st_mode & 077) != 0) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "%s has mode %o", key_file, about.st_mode & 0777);
        lk_detail(err, "the TLS key must not be readable by others (chmod 600)");
        return rc;
    }
    return LK_OK;
}

static lk_rc check_pair(const lk_tls_identity *identity, lk_err *err)
{
    BIO  *cert_bio = BIO_new_mem_buf(identity->certificate_chain.data, (int)identity->certificate_chain.size);
    BIO  *key_bio = BIO_new_mem_buf(identity->private_key.data, (int)identity->private_key.size);
    X509 *cert = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, (void *)(uintptr_t) "");
    lk_rc     rc = LK_OK;
    if (cert == NULL || key == NULL || X509_check_private_key(cert, key) != 1) {
        rc = lk_fail(
            err, LK_E_INVALID_CONFIG, "certificate read: %d, key read: %d", cert != NULL, key != NULL);
        lk_detail(err, "%s",
            cert == NULL  ? "the TLS certificate file holds no PEM certificate"
            : key == NULL ? "the TLS key file holds no unencrypted PEM key"
                          : "the TLS certificate and key do not belong together");
    }
    ERR_clear_error();
    X509_free(cert);
    EVP_PKEY_free(key);
    BIO_free(cert_bio);
    BIO_free(key_bio);
    return rc;
}

static lk_rc load(lk_tls_identity *out, const char *cert_file, const char *key_file, lk_err *err)
{
    lk_rc rc = check_mode(key_file, err);
    if (rc == LK_OK) {
        rc = lk_file_read(cert_file, PEM_BYTES_MAX, &out->certificate_chain, err);
        rc = rc == LK_E_NOT_FOUND
                 ? lk_refuse(err, LK_E_INVALID_CONFIG, "there is no TLS certificate %.160s", cert_file)
                 : rc;
    }
    if (rc == LK_OK) {
        rc = lk_file_read(key_file, PEM_BYTES_MAX, &out->private_key, err);
    }
    return rc == LK_OK ? check_pair(out, err) : rc;
}

lk_rc lk_tls_identity_load(lk_tls_identity *out, const char *cert_file, const char *key_file, lk_err *err)
{
    *out = (lk_tls_identity){0};
    if (cert_file == NULL && key_file == NULL) {
        return LK_OK;
    }
    if (cert_file == NULL || key_file == NULL) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "one of two TLS files is set");
        lk_detail(err, "set both LAKE_TLS_CERT_FILE and LAKE_TLS_KEY_FILE, or neither");
        return rc;
    }
    lk_rc rc = load(out, cert_file, key_file, err);
    if (rc != LK_OK) {
        lk_context(err, "load TLS identity");
        lk_tls_identity_deinit(out);
    }
    return rc;
}

void lk_tls_identity_deinit(lk_tls_identity *identity)
{
    if (identity->private_key.data != NULL) {
        lk_wipe(identity->private_key.data, identity->private_key.size);
    }
    lk_buf_deinit(&identity->private_key);
    lk_buf_deinit(&identity->certificate_chain);
}

bool lk_tls_identity_present(const lk_tls_identity *identity)
{
    return identity != NULL && identity->private_key.size > 0;
}

lk_rc lk_tls_roots_load(lk_buf *out, const char *ca_file, lk_err *err)
{
    lk_rc rc = lk_file_read(ca_file, PEM_BYTES_MAX, out, err);
    if (rc != LK_OK) {
        lk_context(err, "load certificate authorities");
        return rc;
    }
    BIO  *bio = BIO_new_mem_buf(out->data, (int)out->size);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    if (cert == NULL) {
        rc = lk_fail(err, LK_E_INVALID_CONFIG, "no certificate in %s", ca_file);
        lk_detail(err, "the CA file holds no PEM certificate");
    }
    ERR_clear_error();
    X509_free(cert);
    BIO_free(bio);
    return rc;
}
