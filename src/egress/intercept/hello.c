#include "egress/intercept/hello.h"

enum {
    RECORD_HANDSHAKE = 22,
    RECORD_HEADER = 5,
    RECORD_BYTES_MAX = 1 << 14,
    CLIENT_HELLO = 1,
    RANDOM_BYTES = 32,
    EXT_SERVER_NAME = 0,
    EXT_ALPN = 16,
    EXT_ECH = 0xfe0d,
    NAME_HOST = 0,
    METHOD_BYTES_MAX = 32,
    RECORDS_MAX = 64,
};

/* Takes numbers and vectors from the front; after the first failure everything is empty. */
struct reader {
    struct str rest;
    bool bad;
};

static struct str take(struct reader *r, size_t n)
{
    struct str part = str_make(r->rest.p, n);

    if (r->bad || n > r->rest.n) {
        r->bad = true;
        return STR("");
    }
    r->rest = str_skip(r->rest, n);
    return part;
}

static unsigned take_number(struct reader *r, size_t bytes)
{
    struct str part = take(r, bytes);
    unsigned v = 0;

    for (size_t i = 0; i < part.n; i++)
        v = v << 8 | (unsigned char)part.p[i];
    return v;
}

static struct reader take_vector(struct reader *r, size_t length_bytes)
{
    unsigned n = take_number(r, length_bytes);
    struct reader v = {take(r, n), false};

    v.bad = r->bad;
    return v;
}

/* --- extensions --- */

/* A name as DNS has them; underscores occur. Not an address: its last label is no number. */
static bool take_name(struct str name, char out[static HELLO_NAME_MAX + 1])
{
    size_t label = 0;
    bool letters = false;

    if (str_ends(name, STR(".")))
        name.n--;
    if (name.n == 0 || name.n > HELLO_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = ascii_lower(name.p[i]);

        out[i] = c;
        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
            letters = false;
            continue;
        }
        if (!ascii_is_alpha(c) && !ascii_is_digit(c) && c != '-' && c != '_')
            return false;
        letters |= !ascii_is_digit(c);
        if (++label > 63)
            return false;
    }
    out[name.n] = '\0';
    return label > 0 && letters;
}

/* Exactly one name of the only kind there is. */
static bool read_server_name(struct reader ext, struct hello *h)
{
    struct reader list = take_vector(&ext, 2);
    unsigned kind = take_number(&list, 1);
    struct reader name = take_vector(&list, 2);

    return !ext.bad && ext.rest.n == 0 && !name.bad && kind == NAME_HOST && list.rest.n == 0 &&
           take_name(name.rest, h->name);
}

static bool read_alpn(struct reader ext, struct hello *h)
{
    struct reader list = take_vector(&ext, 2);

    h->has_http1 = false;
    while (!list.bad && list.rest.n) {
        struct reader protocol = take_vector(&list, 1);

        h->has_http1 |= str_eq(protocol.rest, STR("http/1.1"));
    }
    return !list.bad && !ext.bad && ext.rest.n == 0;
}

static bool read_extensions(struct reader list, struct hello *h)
{
    bool has_name = false, has_alpn = false;

    while (!list.bad && list.rest.n) {
        unsigned type = take_number(&list, 2);
        struct reader ext = take_vector(&list, 2);

        if (list.bad)
            return false;
        switch (type) {
        case EXT_SERVER_NAME:
            if (has_name || !read_server_name(ext, h))
                return false;
            has_name = true;
            break;
        case EXT_ALPN:
            if (has_alpn || !read_alpn(ext, h))
                return false;
            has_alpn = true;
            break;
        case EXT_ECH:
            h->has_ech = true;
            break;
        default:
            break;
        }
    }
    return !list.bad;
}

static enum hello_kind read_client_hello(struct str body, struct hello *ret)
{
    struct reader r = {body, false};
    struct hello h = {.has_http1 = true};
    struct reader extensions = {STR(""), false};

    (void)take_number(&r, 2); /* version */
    (void)take(&r, RANDOM_BYTES);
    (void)take_vector(&r, 1); /* session id */
    (void)take_vector(&r, 2); /* cipher suites */
    (void)take_vector(&r, 1); /* compression methods */
    if (!r.bad && r.rest.n)
        extensions = take_vector(&r, 2);
    if (r.bad || r.rest.n || !read_extensions(extensions, &h))
        return HELLO_BAD;
    *ret = h;
    return HELLO_TLS;
}

/* --- records --- */

/* Joins the records that carry the message. */
static enum hello_kind read_records(struct str in, struct hello *ret)
{
    char message[4 + HELLO_BYTES_MAX];
    size_t have = 0, need = 4;

    for (int i = 0; i < RECORDS_MAX; i++) {
        struct reader r = {in, false};
        unsigned type = take_number(&r, 1), version = take_number(&r, 2), n = take_number(&r, 2);
        size_t part;

        if (r.bad)
            return HELLO_AGAIN;
        if (type != RECORD_HANDSHAKE || version >> 8 != 3 || n == 0 || n > RECORD_BYTES_MAX)
            return HELLO_BAD;
        part = min_size(n, r.rest.n);
        if (part > sizeof(message) - have)
            return HELLO_BAD;
        memcpy(message + have, r.rest.p, part);
        have += part;
        if (have >= 4) {
            struct reader head = {str_make(message, 4), false};

            if (take_number(&head, 1) != CLIENT_HELLO)
                return HELLO_BAD;
            need = 4 + (size_t)take_number(&head, 3);
            if (need > sizeof(message))
                return HELLO_BAD;
        }
        if (have >= need && need > 4)
            return have == need ? read_client_hello(str_make(message + 4, need - 4), ret)
                                : HELLO_BAD;
        if (part < n)
            return HELLO_AGAIN;
        in = str_skip(r.rest, n);
    }
    return HELLO_BAD;
}

/* A method and a space; a longer word is no method. */
static enum hello_kind read_method(struct str in)
{
    for (size_t i = 0; i < in.n && i <= METHOD_BYTES_MAX; i++) {
        if (in.p[i] == ' ' && i > 0)
            return HELLO_HTTP;
        if (!ascii_is_alpha(in.p[i]) && in.p[i] != '-')
            return HELLO_OTHER;
    }
    return in.n > METHOD_BYTES_MAX ? HELLO_OTHER : HELLO_AGAIN;
}

enum hello_kind hello_read(struct str in, struct hello *ret)
{
    if (in.n == 0)
        return HELLO_AGAIN;
    if (in.p[0] == RECORD_HANDSHAKE)
        return read_records(in, ret);
    return read_method(in);
}
