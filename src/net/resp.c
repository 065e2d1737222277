#include "net/resp.h"

#include <errno.h>
#include <sys/types.h>

/* The line after the type's byte, without CRLF: its length with CRLF, 0 = incomplete, -errno. */
static ssize_t read_line(struct str in, struct str *ret)
{
    size_t end = str_find(in, '\r');

    if (end > RESP_LINE_MAX)
        return -EMSGSIZE;
    if (str_find(str_make(in.p, end), '\n') < end)
        return -EBADMSG;
    if (end + 1 >= in.n)
        return 0;
    if (in.p[end + 1] != '\n')
        return -EBADMSG;
    *ret = str_make(in.p, end);
    return (ssize_t)end + 2;
}

static ssize_t read_bulk(struct str in, size_t used, int64_t length, struct resp *ret)
{
    size_t n = (size_t)length;

    if (length == -1) {
        ret->text = STR_NONE;
        return (ssize_t)used;
    }
    if (length < 0)
        return -EBADMSG;
    if (n > RESP_BYTES_MAX)
        return -EMSGSIZE;
    if (in.n - used < n + 2)
        return 0;
    if (in.p[used + n] != '\r' || in.p[used + n + 1] != '\n')
        return -EBADMSG;
    ret->text = str_make(in.p + used, n);
    return (ssize_t)(used + n + 2);
}

static ssize_t read_one(struct str in, struct resp *ret)
{
    static const char types[] = "+-:$*";
    const char *type = in.n && in.p[0] ? strchr(types, in.p[0]) : NULL;
    struct str line;
    ssize_t used;

    if (in.n == 0)
        return 0;
    if (!type)
        return -EBADMSG;
    used = read_line(str_skip(in, 1), &line);
    if (used <= 0)
        return used;
    used++;
    *ret = (struct resp){.type = (enum resp_type)(type - types), .text = line};
    if (ret->type <= RESP_ERROR)
        return used;
    if (str_to_i64(line, &ret->number) < 0)
        return -EBADMSG;
    if (ret->type == RESP_INTEGER)
        return used;
    if (ret->type == RESP_BULK)
        return read_bulk(in, (size_t)used, ret->number, ret);
    if (ret->number < -1)
        return -EBADMSG;
    if (ret->number > RESP_ITEMS_MAX)
        return -EMSGSIZE;
    ret->text = ret->number < 0 ? STR_NONE : str_make(in.p + used, 0);
    return used;
}

/* Arrays are read without recursion: left[] counts the items that each open array still has. */
ssize_t resp_read(struct str in, struct resp *ret)
{
    int64_t left[RESP_DEPTH_MAX];
    size_t depth = 0, at = 0;
    struct resp item;

    do {
        ssize_t used = read_one(str_skip(in, at), &item);

        if (used < 0)
            return used;
        if (used == 0)
            return in.n > RESP_BYTES_MAX ? -EMSGSIZE : 0;
        if (at == 0)
            *ret = item;
        at += (size_t)used;
        if (at > RESP_BYTES_MAX)
            return -EMSGSIZE;
        if (depth)
            left[depth - 1]--;
        if (item.type == RESP_ARRAY && item.number > 0) {
            if (depth == RESP_DEPTH_MAX)
                return -EMSGSIZE;
            left[depth++] = item.number;
        }
        while (depth && left[depth - 1] == 0)
            depth--;
    } while (depth);
    if (ret->type == RESP_ARRAY && ret->text.p)
        ret->text.n = (size_t)(in.p + at - ret->text.p);
    return (ssize_t)at;
}

bool resp_next(struct str *items, struct resp *ret)
{
    ssize_t used = resp_read(*items, ret);

    if (used <= 0)
        return false;
    *items = str_skip(*items, (size_t)used);
    return true;
}

int resp_write(struct buf *out, const struct str *words, size_t count)
{
    size_t before = out->n;
    int r = buf_addf(out, "*%zu\r\n", count);

    for (size_t i = 0; r == 0 && i < count; i++) {
        r = buf_addf(out, "$%zu\r\n", words[i].n);
        if (r == 0)
            r = buf_add(out, words[i]);
        if (r == 0)
            r = buf_add(out, STR("\r\n"));
    }
    if (r < 0)
        buf_cut(out, before);
    return r;
}
