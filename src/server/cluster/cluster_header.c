/* cluster_header.c - VALUE = "1;<seconds>;<from>;<key id>;<tenant>;<role>;<everywhere>;<sandbox>;
 * <user in hexadecimal>;<MAC in hexadecimal>". */
#include <errno.h>

#include "base/codec.h"
#include "base/sha.h"
#include "server/cluster/cluster.h"

enum { PARTS = 10, MAC_TEXT = 2 * SHA256_BYTES };

static void mac_of(struct str secret, struct str to, const struct cluster_request *request,
                   struct str text, char ret[MAC_TEXT + 1])
{
    const struct str parts[] = {
        STR("opensandbox cluster 1"), to, request->method, request->target, request->id, text};
    uint8_t mac[SHA256_BYTES];
    struct hmac_sha256 h;

    hmac_sha256_init(&h, secret);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        hmac_sha256_add(&h, parts[i]);
        hmac_sha256_add(&h, str_make("", 1)); /* a NUL between them */
    }
    hmac_sha256_end(&h, mac);
    (void)hex_encode(str_make((const char *)mac, sizeof(mac)), ret);
}

static bool is_part(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~' || *text == ';')
            return false;
    return true;
}

int cluster_header_write(struct str secret, struct str from, struct str to,
                         const struct cluster_request *request, const struct principal *by,
                         int64_t now_s, struct buf *out)
{
    char user[2 * PRINCIPAL_USER_MAX], mac[MAC_TEXT + 1];
    size_t n = hex_encode(str_make(by->user, strlen(by->user)), user);
    int r;

    if (!is_part(by->key_id) || !is_part(by->tenant) || !is_part(by->sandbox))
        return -EINVAL;
    r = buf_addf(out, "1;%lld;%.*s;%s;%s;%d;%d;%s;%.*s", (long long)now_s, STR_ARG(from),
                 by->key_id, by->tenant, (int)by->role, by->everywhere, by->sandbox, (int)n, user);
    if (r < 0)
        return r;
    mac_of(secret, to, request, buf_str(out), mac);
    return buf_addf(out, ";%.*s", MAC_TEXT, mac);
}

static int read_parts(const struct str *parts, int64_t now_s, struct principal *ret)
{
    struct principal p = {0};
    uint64_t at_s, role, everywhere;
    size_t n;

    if (!str_eq(parts[0], STR("1")) || str_to_u64(parts[1], &at_s) < 0 ||
        at_s > (uint64_t)now_s + CLUSTER_HEADER_AGE_S ||
        at_s + CLUSTER_HEADER_AGE_S < (uint64_t)now_s ||
        str_copy(p.key_id, sizeof(p.key_id), parts[3]) < 0 ||
        str_copy(p.tenant, sizeof(p.tenant), parts[4]) < 0 || str_to_u64(parts[5], &role) < 0 ||
        role > ROLE_ADMIN || str_to_u64(parts[6], &everywhere) < 0 || everywhere > 1 ||
        str_copy(p.sandbox, sizeof(p.sandbox), parts[7]) < 0 ||
        hex_decode(parts[8], p.user, sizeof(p.user) - 1, &n) < 0)
        return -EACCES;
    p.role = (enum principal_role)role;
    p.everywhere = everywhere;
    *ret = p;
    return 0;
}

int cluster_header_read(struct str secret, struct str to, const struct cluster_request *request,
                        struct str value, int64_t now_s, struct principal *ret)
{
    struct str parts[PARTS] = {0}, rest = value, signed_text = value;
    char mac[MAC_TEXT + 1];
    size_t n = 0;

    while (n < PARTS && str_cut(&rest, ';', &parts[n]))
        n++;
    if (n != PARTS || rest.p || parts[PARTS - 1].n != MAC_TEXT)
        return -EACCES;
    signed_text.n -= MAC_TEXT + 1;
    mac_of(secret, to, request, signed_text, mac);
    if (!str_eq_secret(parts[PARTS - 1], str_make(mac, MAC_TEXT)))
        return -EACCES;
    return read_parts(parts, now_s, ret);
}
