/* outputs.c - keeps long texts and finds them by URI. */
#include "mcp/outputs.h"

#include <errno.h>
#include <stdio.h>

#include "base/id.h"
#include "base/mem.h"

enum { ID_LEN = 20 };

void outputs_init(struct outputs *o)
{
    list_init(&o->all);
    o->count = o->bytes = 0;
}

/* False when there is none. */
static bool drop_oldest(struct outputs *o)
{
    struct list *at = list_take(&o->all);
    struct output *one;

    if (!at)
        return false;
    one = container_of(at, struct output, link);
    o->count--;
    o->bytes -= one->text.n;
    buf_done(&one->text);
    free(one->name);
    free(one);
    return true;
}

void outputs_done(struct outputs *o)
{
    while (drop_oldest(o))
        ;
}

int outputs_add(struct outputs *o, const char *name, struct str text, const struct output **ret)
{
    char id[ID_LEN + 1];
    struct output *one;
    int r;

    if (text.n > OUTPUT_BYTES_MAX)
        return -EFBIG;
    while ((o->count >= OUTPUTS_MAX || o->bytes + text.n > OUTPUTS_BYTES_MAX) && drop_oldest(o))
        ;
    one = mem_new(struct output);
    buf_init(&one->text, OUTPUT_BYTES_MAX + 1);
    r = buf_add(&one->text, text);
    if (r < 0) {
        free(one);
        return r;
    }
    id_short(id, ID_LEN);
    (void)snprintf(one->uri, sizeof(one->uri), OUTPUT_URI "%s", id);
    one->name = mem_strdup(name);
    list_push(&o->all, &one->link);
    o->count++;
    o->bytes += text.n;
    *ret = one;
    return 0;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

struct str outputs_part(struct str text, uint64_t offset, uint64_t length)
{
    size_t begin = (size_t)(offset < text.n ? offset : text.n);
    size_t end = length < text.n - begin ? begin + (size_t)length : text.n;

    while (begin < text.n && continues(text.p[begin]))
        begin++;
    while (end < text.n && continues(text.p[end]))
        end++;
    return str_make(text.p + begin, end > begin ? end - begin : 0);
}

/* "offset=1&length=2", either or both. */
static int read_query(struct str query, uint64_t *offset, uint64_t *length)
{
    struct str piece;

    while (str_cut(&query, '&', &piece)) {
        uint64_t *to = NULL;
        int r;

        if (str_starts(piece, STR("offset="))) {
            to = offset;
            piece = str_skip(piece, sizeof("offset=") - 1);
        } else if (str_starts(piece, STR("length="))) {
            to = length;
            piece = str_skip(piece, sizeof("length=") - 1);
        }
        r = to ? str_to_u64(piece, to) : -EINVAL;
        if (r < 0)
            return r;
    }
    return 0;
}

const struct output *outputs_find(const struct outputs *o, struct str uri, struct str *ret_part)
{
    size_t at = str_find(uri, '?');
    struct str base = str_make(uri.p, at), query = at < uri.n ? str_skip(uri, at + 1) : STR_NONE;
    uint64_t offset = 0, length = UINT64_MAX;

    if (read_query(query, &offset, &length) < 0)
        return NULL;
    LIST_EACH(&o->all, at_link)
    {
        const struct output *one = container_of(at_link, struct output, link);

        if (!str_eq(str_of(one->uri), base))
            continue;
        *ret_part = outputs_part(buf_str(&one->text), offset, length);
        return one;
    }
    return NULL;
}
