#include "ingress/route.h"

#include <errno.h>
#include <stdio.h>

#include "api/signed.h"
#include "base/codec.h"
#include "base/sha.h"

static const char no_port[] = "the port must be a number from 1 to 65535";

static size_t last_dash(struct str s)
{
    size_t at = s.n;

    while (at > 0 && s.p[at - 1] != '-')
        at--;
    return at; /* one past it; 0 = none */
}

/* A port without leading zeros. */
static bool is_port(struct str text, uint16_t *ret)
{
    return !str_starts(text, STR("0")) && str_to_u16(text, ret) == 0 && *ret;
}

static int check_id(struct str id, const char **why)
{
    if (id.n == 0)
        *why = "the sandbox id is empty";
    else if (id.n > ROUTE_ID_MAX)
        *why = "the sandbox id is longer than 253 bytes";
    else
        return 0;
    return -EINVAL;
}

static void take_signature(const struct api_route *from, struct route *ret)
{
    ret->is_signed = true;
    ret->expires_s = from->expires_s;
    ret->signature = from->signature;
    ret->key_id = from->key_id;
}

int route_parse_label(struct str text, struct route *ret, const char **ret_why)
{
    struct api_route api;
    uint64_t port;
    size_t dash;

    *ret = (struct route){0};
    if (str_starts(text, STR("https://")))
        text = str_skip(text, STR("https://").n);
    else if (str_starts(text, STR("http://")))
        text = str_skip(text, STR("http://").n);
    text.n = str_find(text, '.');
    if (str_starts(text, STR("-"))) {
        *ret_why = "the sandbox id is empty";
        return -EINVAL;
    }
    if (api_route_parse(text, &api) == 0) {
        ret->id = api.sandbox_id;
        ret->port = api.port;
        take_signature(&api, ret);
        return check_id(ret->id, ret_why);
    }
    dash = last_dash(text);
    if (dash == 0) {
        *ret_why = "expected <sandbox id>-<port>";
        return -EINVAL;
    }
    if (str_to_u64_range(str_skip(text, dash), 1, UINT16_MAX, &port) < 0) {
        *ret_why = no_port;
        return -EINVAL;
    }
    ret->id = str_make(text.p, dash - 1);
    ret->port = (uint16_t)port;
    return check_id(ret->id, ret_why);
}

/* The segment at the beginning of "/segment/...", which becomes the rest. */
static struct str take_segment(struct str *path)
{
    struct str segment = *path;

    if (path->n == 0)
        return STR_NONE;
    segment = str_skip(segment, 1);
    segment.n = str_find(segment, '/');
    *path = str_skip(*path, 1 + segment.n);
    return segment;
}

int route_parse_path(struct str path, struct route *ret, const char **ret_why)
{
    struct str port, expires, signature;
    char token[BASE36_TEXT_MAX + API_SIGNATURE_MAX + sizeof("s-65535--")];
    struct api_route api;
    int n;

    *ret = (struct route){0};
    ret->id = take_segment(&path);
    port = take_segment(&path);
    if (!port.p) {
        *ret_why = "expected /<sandbox id>/<port>";
        return -EINVAL;
    }
    if (!is_port(port, &ret->port)) {
        *ret_why = no_port;
        return -EINVAL;
    }
    ret->rest = ret->rest_unsigned = path;
    expires = take_segment(&path);
    signature = take_segment(&path);
    n = snprintf(token, sizeof(token), "s-%u-%.*s-%.*s", ret->port, STR_ARG(expires),
                 STR_ARG(signature));
    if (n > 0 && (size_t)n < sizeof(token) &&
        api_route_parse(str_make(token, (size_t)n), &api) == 0 &&
        str_eq(api.sandbox_id, STR("s"))) {
        take_signature(&api, ret);
        ret->signature = signature; /* not in token[] */
        ret->rest = path;
    }
    return check_id(ret->id, ret_why);
}

/* Removes the last segment of what was written so far. */
static void drop_segment(struct buf *out, size_t start)
{
    size_t n = out->n;

    while (n > start && out->p[n - 1] != '/')
        n--;
    buf_cut(out, n > start ? n - 1 : start);
}

static bool is_clean(struct str path)
{
    while (path.n) {
        struct str rest = path, segment = take_segment(&rest);

        if ((segment.n == 0 && rest.n) || str_eq(segment, STR(".")) || str_eq(segment, STR("..")))
            return false;
        path = rest;
    }
    return true;
}

int route_clean_path(struct str path, struct buf *out)
{
    size_t start = out->n;
    bool slash = str_ends(path, STR("/"));
    int r = 0;

    if (!str_starts(path, STR("/")) || is_clean(path))
        return 0;
    while (r == 0 && path.n) {
        struct str segment = take_segment(&path);

        if (str_eq(segment, STR("..")))
            drop_segment(out, start);
        else if (segment.n && !str_eq(segment, STR(".")))
            r = buf_addf(out, "/%.*s", STR_ARG(segment));
    }
    if (r == 0 && (slash || out->n == start))
        r = buf_add_char(out, '/');
    return r < 0 ? r : 1;
}

static int redact_query(struct str query, struct buf *out)
{
    struct str pair;
    int r = buf_add_char(out, '?');

    for (bool first = true; r == 0 && str_cut(&query, '&', &pair); first = false) {
        struct str key = str_make(pair.p, str_find(pair, '='));

        if (!first)
            r = buf_add_char(out, '&');
        if (r == 0)
            r = buf_add(out, key);
        if (r == 0 && key.n < pair.n)
            r = buf_add(out, STR("=***"));
    }
    return r;
}

int route_redact(struct str path, struct str query, bool by_path, struct buf *out)
{
    struct route route;
    const char *why;
    size_t start = out->n;
    int r;

    if (by_path && route_parse_path(path, &route, &why) == 0 && route.is_signed) {
        r = buf_add(out, str_make(path.p, (size_t)(route.signature.p - path.p)));
        if (r == 0)
            r = buf_add(out, STR("***"));
        if (r == 0)
            r = buf_add(out, route.rest);
    } else {
        r = buf_add(out, path);
    }
    if (r == 0 && query.p)
        r = redact_query(query, out);
    if (r < 0)
        buf_cut(out, start);
    return r;
}

enum { HASH_DIGITS = 8, CUT = ROUTE_DNS_MAX - 1 - HASH_DIGITS - 1 };

static void hash_digits(struct str id, char out[HASH_DIGITS + 1])
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(id, digest);
    (void)hex_encode(str_make((const char *)digest, HASH_DIGITS / 2), out);
}

/* Letters in lower case, digits, and single hyphens between them. */
static void add_dns(struct str id, struct buf *out, size_t start)
{
    bool dash = false;

    for (size_t i = 0; i < id.n; i++) {
        char c = ascii_lower(id.p[i]);

        if (!ascii_is_alpha(c) && !ascii_is_digit(c)) {
            dash = true;
            continue;
        }
        if (dash && out->n > start)
            (void)buf_add_char(out, '-');
        dash = false;
        (void)buf_add_char(out, c);
    }
}

void route_dns_label(struct str id, char out[ROUTE_DNS_MAX])
{
    AUTO_BUF(label, ROUTE_ID_MAX * 2);
    char hash[HASH_DIGITS + 1];
    const char *prefix = "";

    id.n = min_size(id.n, ROUTE_ID_MAX);
    add_dns(id, &label, 0);
    hash_digits(id, hash);
    if (label.n == 0) {
        (void)snprintf(out, ROUTE_DNS_MAX, "sandbox-%s", hash);
        return;
    }
    if (!ascii_is_alpha(label.p[0]))
        prefix = "sandbox-";
    if (strlen(prefix) + label.n < ROUTE_DNS_MAX) {
        (void)snprintf(out, ROUTE_DNS_MAX, "%s%s", prefix, label.p);
        return;
    }
    buf_cut(&label, min_size(label.n, CUT - strlen(prefix)));
    while (label.n && label.p[label.n - 1] == '-')
        buf_cut(&label, label.n - 1);
    (void)snprintf(out, ROUTE_DNS_MAX, "%s%s-%s", prefix, label.p, hash);
}
