#include "ingress/access.h"

#include <errno.h>

#include "api/signed.h"
#include "base/codec.h"
#include "base/mem.h"

static struct access_key *find_key(const struct access_keys *keys, char id)
{
    for (size_t i = 0; i < keys->count; i++)
        if (keys->at[i].id == id)
            return (struct access_key *)&keys->at[i];
    return NULL;
}

static int take_key(struct str part, struct access_keys *keys, struct err *e)
{
    struct str id;
    struct access_key *key;
    size_t n;

    (void)str_cut(&part, '=', &id);
    id = str_trim(id);
    part = str_trim(part);
    if (id.n != 1 || (!ascii_is_digit(id.p[0]) && (id.p[0] < 'a' || id.p[0] > 'z')))
        return err_set(e, EINVAL, "a key id must be one of 0-9 or a-z, as in a=BASE64");
    key = find_key(keys, id.p[0]);
    if (!key)
        key = &keys->at[keys->count++]; /* there are no more ids than room */
    key->id = id.p[0];
    if (base64_decode(part, BASE64_STD, key->secret, sizeof(key->secret), &n) < 0 || n == 0)
        return err_set(e, EINVAL, "key %c must be padded base64 of 1 to %d bytes", id.p[0],
                       ACCESS_SECRET_MAX);
    key->bytes = (uint16_t)n;
    return 0;
}

static struct str trim_line(struct str s)
{
    s = str_trim(s);
    while (s.n && s.p[s.n - 1] == '\r')
        s = str_trim(str_make(s.p, s.n - 1));
    return s;
}

int access_keys_parse(struct str text, struct access_keys *ret, struct err *e)
{
    struct str line, part;
    int r = 0;

    mem_wipe(ret, sizeof(*ret));
    while (r == 0 && str_cut(&text, '\n', &line)) {
        line = trim_line(line);
        if (str_starts(line, STR("#")))
            continue;
        while (r == 0 && str_cut(&line, ',', &part))
            if (str_trim(part).n)
                r = take_key(str_trim(part), ret, e);
    }
    if (r < 0)
        mem_wipe(ret, sizeof(*ret));
    return r;
}

static struct access_verdict refuse(int status, const char *reason, bool guessed)
{
    return (struct access_verdict){status, reason, guessed};
}

static struct access_verdict verify(const struct access_rules *rules, const struct route *route)
{
    char expected[API_SIGNATURE_MAX];
    const struct access_key *key;

    if (rules->keys->count == 0)
        return refuse(503, "signature: ingress verifier not configured", false);
    if (rules->now_s > route->expires_s)
        return refuse(401, "signature: access expired", false);
    if (rules->ahead_max_s && route->expires_s - rules->now_s > rules->ahead_max_s)
        return refuse(401, "signature: expiry too far ahead", false);
    key = find_key(rules->keys, route->key_id);
    if (!key)
        return refuse(401, "signature: unauthorized: unknown signed_key_id", true);
    api_route_sign(str_make(key->secret, key->bytes), key->id, route->id, route->port,
                   route->expires_s, expected);
    if (!str_eq_secret(route->signature, str_of(expected)))
        return refuse(401, "signature: unauthorized: signature mismatch", true);
    return refuse(0, NULL, false);
}

struct access_verdict access_check(const struct access_rules *rules, struct str token,
                                   const struct http_headers *headers, const struct route *route)
{
    const struct http_header *shown = http_header_find(headers, STR(ACCESS_HEADER));

    if (str_trim(token).n == 0)
        return refuse(0, NULL, false);
    if (shown && str_trim(shown->value).n && str_eq_secret(str_trim(shown->value), token))
        return refuse(0, NULL, false);
    if (shown)
        return refuse(401, "signature: secure access header mismatch", true);
    if (!route->is_signed)
        return refuse(401, "signature: signature required for this sandbox", false);
    return verify(rules, route);
}
