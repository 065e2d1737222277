/* tls_identity.h - certificates and their keys, made for one test. */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

enum { DAY_S = 86400 };

struct identity {
    EVP_PKEY *key;
    X509 *cert;
    char cert_file[64], key_file[64];
};

extern char identity_dir[]; /* holds the files; the test removes it */
void make_identity_dir(void);

/* Signed by `issuer`, or an authority of its own with NULL. `names` as in subjectAltName; the times
 * are seconds from now. */
struct identity make_identity(const char *name, const struct identity *issuer, const char *names,
                              long valid_from_s, long valid_to_s);
void free_identity(struct identity *id); /* with its files */
