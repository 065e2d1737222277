#include "net/tls_mint.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <time.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "net/tls_internal.h"

enum {
    DAY_S = 24 * 3600,
    AUTHORITY_DAYS = 3650,
    LEAF_DAYS = 30,
    SELF_SIGNED_DAYS = 3650,
    LEAF_RENEW_S = DAY_S, /* a leaf is replaced this long before its end */
    SERIAL_BYTES = 16,
    COMMON_NAME_MAX = 64, /* ub-common-name of X.520 */
};

struct leaf {
    X509 *cert;
    time_t renew_at;
};

struct tls_mint {
    struct stream_security security;
    SSL_CTX *ctx; /* made by the first session */
    EVP_PKEY *authority_key, *leaf_key;
    X509 *authority;
    struct map leaves; /* by name */
    struct buf cert_pem, keys_pem;
    uint64_t made;
};

static void leaf_free(void *value)
{
    struct leaf *leaf = value;

    X509_free(leaf->cert);
    free(leaf);
}

/* --- certificates --- */

struct extension {
    int nid;
    const char *value;
};

static const struct extension authority_extensions[] = {
    {NID_basic_constraints,        "critical,CA:TRUE,pathlen:0"  },
    {NID_key_usage,                "critical,keyCertSign,cRLSign"},
    {NID_subject_key_identifier,   "hash"                        },
    {NID_authority_key_identifier, "keyid:always"                },
};

static const struct extension leaf_extensions[] = {
    {NID_basic_constraints,        "critical,CA:FALSE"        },
    {NID_key_usage,                "critical,digitalSignature"},
    {NID_ext_key_usage,            "serverAuth"               },
    {NID_subject_key_identifier,   "hash"                     },
    {NID_authority_key_identifier, "keyid:always"             },
};

static bool add_extensions(X509 *cert, X509 *issuer, const struct extension *rows, size_t count)
{
    X509V3_CTX ctx;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, rows[i].nid, rows[i].value);
        bool ok = ext && X509_add_ext(cert, ext, -1) == 1;

        X509_EXTENSION_free(ext);
        if (!ok)
            return false;
    }
    return true;
}

/* The name itself, not by OpenSSL's syntax of configuration files, in which a comma means more. */
static bool add_subject_name(X509 *cert, const char *host)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value =
        tls_is_address(host) ? a2i_IPADDRESS(host) : ASN1_STRING_type_new(V_ASN1_IA5STRING);
    bool ok = names && name && value;

    if (ok && !tls_is_address(host))
        ok = ASN1_STRING_set(value, host, -1) == 1;
    if (ok) {
        GENERAL_NAME_set0_value(name, tls_is_address(host) ? GEN_IPADD : GEN_DNS, value);
        value = NULL;
        ok = sk_GENERAL_NAME_push(names, name) > 0;
        if (ok)
            name = NULL;
        ok = ok && X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) == 1;
    }
    ASN1_STRING_free(value);
    GENERAL_NAME_free(name);
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
    return ok;
}

static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *number = NULL;
    bool ok;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and not 0 */
    number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return ok;
}

static bool set_common_name(X509 *cert, const char *name)
{
    size_t n = strlen(name);

    if (n > COMMON_NAME_MAX)
        name = "opensandbox"; /* the alternative name counts */
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                                      (const unsigned char *)name, -1, -1, 0) == 1;
}

/* Everything but extensions and signature. A day early: clocks differ. */
static X509 *cert_new(const char *name, EVP_PKEY *key, int days)
{
    X509 *cert = X509_new();

    if (cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_S) &&
        X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY_S) &&
        X509_set_pubkey(cert, key) == 1 && set_common_name(cert, name))
        return cert;
    X509_free(cert);
    return NULL;
}

static X509 *authority_new(const char *name, EVP_PKEY *key)
{
    X509 *cert = cert_new(name, key, AUTHORITY_DAYS);

    if (cert && X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
        add_extensions(cert, cert, authority_extensions, ARRAY_LEN(authority_extensions)) &&
        X509_sign(cert, key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

static X509 *leaf_cert_new(struct tls_mint *m, const char *host)
{
    X509 *cert = cert_new(host, m->leaf_key, LEAF_DAYS);

    if (cert && X509_set_issuer_name(cert, X509_get_subject_name(m->authority)) == 1 &&
        add_extensions(cert, m->authority, leaf_extensions, ARRAY_LEN(leaf_extensions)) &&
        add_subject_name(cert, host) && X509_sign(cert, m->authority_key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

int tls_self_sign(SSL_CTX *ctx, const char *name, struct err *e)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? cert_new(name, key, SELF_SIGNED_DAYS) : NULL;
    bool ok = cert && X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
              add_extensions(cert, cert, leaf_extensions, ARRAY_LEN(leaf_extensions)) &&
              add_subject_name(cert, name) && X509_sign(cert, key, EVP_sha256()) > 0 &&
              SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    X509_free(cert);
    EVP_PKEY_free(key);
    return ok ? 0 : tls_err(e, ENOMEM, "make a certificate for %s", name);
}

/* --- leaves --- */

/* The map is in order of insertion: the first is the oldest. */
static void drop_oldest(struct map *leaves)
{
    size_t at = 0;
    struct str key;

    if (map_next(leaves, &at, &key, NULL))
        (void)map_remove(leaves, key);
}

static X509 *leaf_for(struct tls_mint *m, const char *host, struct err *e)
{
    struct str name = str_of(host);
    struct leaf *leaf = map_get(&m->leaves, name);
    time_t now = time(NULL);

    if (leaf && now < leaf->renew_at)
        return leaf->cert;
    leaf = mem_new(struct leaf);
    leaf->cert = leaf_cert_new(m, host);
    leaf->renew_at = now + (time_t)LEAF_DAYS * DAY_S - LEAF_RENEW_S;
    (void)map_remove(&m->leaves, name);
    if (m->leaves.n >= TLS_MINT_LEAVES_MAX)
        drop_oldest(&m->leaves);
    if (!leaf->cert || map_add(&m->leaves, name, leaf) < 0) {
        leaf_free(leaf);
        (void)tls_err(e, ENOMEM, "make a certificate for %s", host);
        return NULL;
    }
    m->made++;
    return leaf->cert;
}

/* --- sessions --- */

/* The client must ask for the name that the connection was judged by; also on a session that it
 * resumes, where OpenSSL tells the name of the ticket. */
static int check_server_name(SSL *ssl, int *alert, void *user UNUSED)
{
    const struct tls_session *t = SSL_get_app_data(ssl);
    const char *sent = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    struct str name = str_of(sent ? sent : "");

    if (str_ends(name, STR(".")))
        name.n--;
    if (name.n == 0 ? tls_is_address(t->host) : str_eq_nocase(name, str_of(t->host)))
        return SSL_TLSEXT_ERR_OK;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int mint_context(struct tls_mint *m, struct err *e)
{
    static const unsigned char id[] = "opensandbox";

    if (m->ctx)
        return 0;
    m->ctx = tls_context_new(TLS_server_method(), e);
    if (!m->ctx)
        return -ENOMEM;
    SSL_CTX_set_session_cache_mode(m->ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_session_id_context(m->ctx, id, sizeof(id) - 1);
    SSL_CTX_set_alpn_select_cb(m->ctx, tls_choose_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback(m->ctx, check_server_name);
    return 0;
}

static int mint_session_new(struct stream_security *security, int fd, struct str host,
                            void **ret_session, struct err *e)
{
    struct tls_mint *m = container_of(security, struct tls_mint, security);
    struct tls_session *t;
    X509 *leaf;
    int r = mint_context(m, e);

    if (r == 0)
        r = tls_session_new(m->ctx, fd, &t, e);
    if (r < 0)
        return r;
    if (host.n == 0 || str_copy(t->host, sizeof(t->host), host) < 0) {
        tls_session_free(t);
        return err_set(e, EINVAL, "expected a server's name, 1 to %d bytes", TLS_HOST_MAX - 1);
    }
    leaf = leaf_for(m, t->host, e);
    if (!leaf || SSL_use_certificate(t->ssl, leaf) != 1 ||
        SSL_use_PrivateKey(t->ssl, m->leaf_key) != 1) {
        tls_session_free(t);
        return leaf ? tls_err(e, ENOMEM, "begin a TLS session") : -ENOMEM;
    }
    SSL_set_accept_state(t->ssl);
    *ret_session = t;
    return 0;
}

/* --- the mint --- */

static int pem_of(BIO *bio, struct buf *out)
{
    char *p = NULL;
    long n = BIO_get_mem_data(bio, &p);

    return n > 0 ? buf_add(out, str_make(p, (size_t)n)) : -ENOMEM;
}

/* Writes both texts: the certificate, and it with its key. */
static int mint_write(struct tls_mint *m, struct err *e)
{
    BIO *public = BIO_new(BIO_s_mem());
    BIO *secret = BIO_new(BIO_s_secmem());
    bool ok = public && secret && PEM_write_bio_X509(public, m->authority) == 1 &&
              PEM_write_bio_PrivateKey(secret, m->authority_key, NULL, NULL, 0, NULL, NULL) == 1 &&
              PEM_write_bio_X509(secret, m->authority) == 1 && pem_of(public, &m->cert_pem) == 0 &&
              pem_of(secret, &m->keys_pem) == 0;

    BIO_free(public);
    BIO_free(secret);
    return ok ? 0 : tls_err(e, ENOMEM, "write the authority");
}

static int no_passphrase(char *p UNUSED, int size UNUSED, int write UNUSED, void *user UNUSED)
{
    return -1;
}

static int mint_read(struct tls_mint *m, struct str keys, struct err *e)
{
    BIO *bio = keys.n <= TLS_MINT_PEM_BYTES_MAX ? BIO_new_mem_buf(keys.p, (int)keys.n) : NULL;

    if (bio) {
        m->authority_key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
        m->authority = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
    }
    BIO_free(bio);
    if (!m->authority_key || !m->authority ||
        X509_check_private_key(m->authority, m->authority_key) != 1 ||
        X509_check_ca(m->authority) != 1)
        return tls_err(e, EINVAL, "not the key and certificate of an authority in PEM form");
    return 0;
}

static int mint_make(struct tls_mint *m, const char *name, struct err *e)
{
    m->authority_key = EVP_EC_gen("P-256");
    m->authority = m->authority_key ? authority_new(name, m->authority_key) : NULL;
    return m->authority ? 0 : tls_err(e, ENOMEM, "make an authority");
}

int tls_mint_new(const char *name, struct str keys, struct tls_mint **ret, struct err *e)
{
    struct tls_mint *m = mem_new(struct tls_mint);
    int r;

    m->security = (struct stream_security){&tls_transport, EPOLLIN, mint_session_new};
    map_init(&m->leaves, TLS_MINT_LEAVES_MAX, leaf_free);
    buf_init(&m->cert_pem, TLS_MINT_PEM_BYTES_MAX);
    buf_init(&m->keys_pem, TLS_MINT_PEM_BYTES_MAX);
    buf_keep_secret(&m->keys_pem);
    r = keys.n ? mint_read(m, keys, e) : mint_make(m, name, e);
    if (r == 0) {
        m->leaf_key = EVP_EC_gen("P-256");
        r = m->leaf_key ? mint_write(m, e) : tls_err(e, ENOMEM, "make a key");
    }
    if (r < 0) {
        tls_mint_free(m);
        return r;
    }
    *ret = m;
    return 0;
}

void tls_mint_free(struct tls_mint *m)
{
    if (!m)
        return;
    map_done(&m->leaves);
    SSL_CTX_free(m->ctx);
    X509_free(m->authority);
    EVP_PKEY_free(m->authority_key);
    EVP_PKEY_free(m->leaf_key);
    buf_done(&m->cert_pem);
    buf_done(&m->keys_pem);
    free(m);
}

struct str tls_mint_certificate(const struct tls_mint *m)
{
    return buf_str(&m->cert_pem);
}

struct str tls_mint_keys(const struct tls_mint *m)
{
    return buf_str(&m->keys_pem);
}

struct stream_security *tls_mint_security(struct tls_mint *m)
{
    return &m->security;
}

void tls_mint_stats(const struct tls_mint *m, struct tls_mint_stats *ret)
{
    *ret = (struct tls_mint_stats){m->made, m->leaves.n};
}
