#include "tls_identity.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "test.h"

char identity_dir[] = "/tmp/test-tls-XXXXXX";

void make_identity_dir(void)
{
    CHECK(mkdtemp(identity_dir));
}

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    CHECK(extension && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void write_pem(struct identity *id, const char *name)
{
    FILE *f;

    (void)snprintf(id->cert_file, sizeof(id->cert_file), "%s/%s.pem", identity_dir, name);
    (void)snprintf(id->key_file, sizeof(id->key_file), "%s/%s.key", identity_dir, name);
    f = fopen(id->cert_file, "we");
    CHECK(f && PEM_write_X509(f, id->cert) == 1 && fclose(f) == 0);
    f = fopen(id->key_file, "we");
    CHECK(f && PEM_write_PrivateKey(f, id->key, NULL, NULL, 0, NULL, NULL) == 1 && fclose(f) == 0);
}

struct identity make_identity(const char *name, const struct identity *issuer, const char *names,
                              long valid_from_s, long valid_to_s)
{
    struct identity id = {.key = EVP_EC_gen("P-256"), .cert = X509_new()};
    X509_NAME *subject = X509_get_subject_name(id.cert);
    static long serial;

    CHECK(id.key && id.cert);
    CHECK_EQ(X509_set_version(id.cert, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(id.cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(id.cert), valid_from_s);
    X509_gmtime_adj(X509_getm_notAfter(id.cert), valid_to_s);
    X509_set_pubkey(id.cert, id.key);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(id.cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
    if (!issuer)
        add_extension(id.cert, NID_basic_constraints, "critical,CA:TRUE");
    if (names)
        add_extension(id.cert, NID_subject_alt_name, names);
    CHECK(X509_sign(id.cert, issuer ? issuer->key : id.key, EVP_sha256()) > 0);
    write_pem(&id, name);
    return id;
}

void free_identity(struct identity *id)
{
    (void)unlink(id->cert_file);
    (void)unlink(id->key_file);
    EVP_PKEY_free(id->key);
    X509_free(id->cert);
}
