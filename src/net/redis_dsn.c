#include <errno.h>

#include "base/url.h"
#include "net/redis.h"

enum { PORT = 6379, DB_MAX = 1 << 20 };

static int decode(struct str text, char out[REDIS_TEXT_MAX])
{
    AUTO_BUF(plain, REDIS_TEXT_MAX);
    int r = url_decode(text, 0, &plain);

    return r < 0 ? r : str_copy(out, REDIS_TEXT_MAX, buf_str(&plain));
}

/* "user:password@" in front; *rest becomes what follows. */
static int take_account(struct str *rest, struct redis_dsn *d)
{
    size_t slash = str_find(*rest, '/'), at = slash;
    struct str account, user;

    while (at > 0 && rest->p[at - 1] != '@')
        at--;
    if (at == 0)
        return 0;
    account = str_make(rest->p, at - 1);
    *rest = str_skip(*rest, at);
    (void)str_cut(&account, ':', &user);
    if (decode(user, d->user) < 0 || decode(account, d->password) < 0)
        return -EINVAL;
    return 0;
}

static int take_db(struct str text, struct redis_dsn *d)
{
    uint64_t db = 0;
    int r = text.n ? str_to_u64_range(text, 0, DB_MAX, &db) : 0;

    d->db = (uint32_t)db;
    return r;
}

/* "?db=N"; other parameters tune clients of another kind, and are ignored. */
static int take_query(struct str query, struct redis_dsn *d)
{
    struct str pair, key;

    while (str_cut(&query, '&', &pair))
        if (str_cut(&pair, '=', &key) && str_eq(key, STR("db")) && take_db(pair, d) < 0)
            return -EINVAL;
    return 0;
}

static int take_address(struct str rest, struct redis_dsn *d)
{
    struct str host = rest, port = STR_NONE;
    size_t end;

    if (str_starts(rest, STR("["))) {
        end = str_find(rest, ']');
        if (end == rest.n)
            return -EINVAL;
        host = str_make(rest.p + 1, end - 1);
        rest = str_skip(rest, end + 1);
        if (rest.n && rest.p[0] != ':')
            return -EINVAL;
        if (rest.n)
            port = str_skip(rest, 1);
    } else {
        end = str_find(rest, ':');
        host.n = end;
        if (end < rest.n)
            port = str_skip(rest, end + 1);
    }
    if (host.n == 0)
        host = STR("localhost");
    d->port = PORT;
    if (port.p && (str_to_u16(port, &d->port) < 0 || d->port == 0))
        return -EINVAL;
    return str_copy(d->host, sizeof(d->host), host);
}

static int dsn_parse(struct str text, struct redis_dsn *d)
{
    struct str rest, query, db;

    d->tls = str_starts(text, STR("rediss://"));
    d->is_path = str_starts(text, STR("unix://"));
    if (!d->tls && !d->is_path && !str_starts(text, STR("redis://")))
        return -EINVAL;
    text = str_skip(text, str_find_str(text, STR("://")) + 3);
    query = text;
    (void)str_cut(&query, '?', &rest);
    if (take_account(&rest, d) < 0 || take_query(query, d) < 0)
        return -EINVAL;
    if (d->is_path)
        return rest.n && rest.p[0] == '/' ? decode(rest, d->host) : -EINVAL;
    db = rest;
    (void)str_cut(&db, '/', &rest);
    if (db.n && take_db(db, d) < 0)
        return -EINVAL;
    return take_address(rest, d);
}

int redis_dsn_parse(struct str text, struct redis_dsn *ret, struct err *e)
{
    *ret = (struct redis_dsn){0};
    if (dsn_parse(text, ret) == 0)
        return 0;
    return err_set(e, EINVAL,
                   "expected redis://host:port/db, the same with rediss://, or unix:///path?db=N; "
                   "user:password@ may stand after the slashes");
}
