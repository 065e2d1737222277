/* The first byte chooses flags and set, the rest is text, encoded text, a query, a URL and a path
 * in turn. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/url.h"
#include "fuzz.h"

enum { ROOM = 8 * 1024 * 1024 };

static void check_encode(struct str text, enum url_set set)
{
    AUTO_BUF(encoded, ROOM);
    AUTO_BUF(decoded, ROOM);

    FUZZ_CHECK(url_encode(text, set, &encoded) == 0);
    FUZZ_CHECK(encoded.n >= text.n && encoded.n <= text.n * 3);
    FUZZ_CHECK(url_decode(buf_str(&encoded), URL_ALLOW_NUL, &decoded) == 0);
    FUZZ_CHECK(str_eq(buf_str(&decoded), text));
}

static void check_decode(struct str text, unsigned flags)
{
    AUTO_BUF(decoded, ROOM);
    AUTO_ARENA(arena, ROOM);
    struct str same = STR_NONE;
    int r = url_decode(text, flags, &decoded);

    FUZZ_CHECK(r == 0 || decoded.n == 0);
    FUZZ_CHECK(decoded.n <= text.n);
    FUZZ_CHECK(url_decode_in(&arena, text, flags, &same) == r);
    FUZZ_CHECK(str_eq(same, buf_str(&decoded)));
    if (!(flags & URL_ALLOW_NUL))
        FUZZ_CHECK(str_find(buf_str(&decoded), '\0') == decoded.n);
}

static bool lies_in(struct str piece, struct str whole)
{
    return piece.p >= whole.p && piece.n <= whole.n &&
           (size_t)(piece.p - whole.p) <= whole.n - piece.n;
}

static void check_query(struct str query)
{
    AUTO_ARENA(arena, ROOM);
    struct url_query_iter it;
    size_t calls = 0, bytes = 0;
    int r;

    url_query_init(&it, query, &arena);
    while ((r = url_query_next(&it)) != 0) {
        FUZZ_CHECK(++calls <= query.n);
        FUZZ_CHECK(lies_in(it.raw_key, query) && lies_in(it.raw_value, query));
        FUZZ_CHECK(it.key.n <= it.raw_key.n && it.value.n <= it.raw_value.n);
        bytes += it.raw_key.n + it.raw_value.n;
    }
    FUZZ_CHECK(bytes <= query.n);
}

static void check_split(struct str text)
{
    struct err e = {0};
    struct url u;
    int r = url_split(text, &u, &e);

    if (r < 0) {
        FUZZ_CHECK(e.code == EINVAL && e.msg[0]);
        return;
    }
    FUZZ_CHECK(u.host.n > 0 && u.port > 0);
    FUZZ_CHECK(lies_in(u.host, text) && lies_in(u.path, text));
    FUZZ_CHECK(!u.query.p || lies_in(u.query, text));
    FUZZ_CHECK(u.path.n == 0 || u.path.p[0] == '/');
    FUZZ_CHECK(str_find(u.path, '?') == u.path.n);
}

static void check_path(struct str path)
{
    AUTO_BUF(once, ROOM);
    AUTO_BUF(twice, ROOM);
    int r = url_path_normalize(path, &once);

    FUZZ_CHECK((r == -EPERM) <= url_path_has_dot_segment(path));
    if (r < 0)
        return;
    FUZZ_CHECK(once.n <= path.n);
    FUZZ_CHECK(!url_path_has_dot_segment(buf_str(&once)));
    FUZZ_CHECK(url_path_normalize(buf_str(&once), &twice) == 0);
    FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text;

    if (size == 0)
        return 0;
    text = str_make((const char *)data + 1, size - 1);
    check_encode(text, (enum url_set)(data[0] % 3));
    check_decode(text, data[0] & 3);
    check_query(text);
    check_split(text);
    check_path(text);
    return 0;
}
