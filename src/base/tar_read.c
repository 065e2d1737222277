/* tar_read.c - the reading half of tar.h. By type, a header is followed by
 *
 * - 'x', 'L', 'K': content that is collected and applied to the next entry, then the next header
 * - 'g' and the like: content that is skipped, then the next header
 * - 'S': more of the map of a sparse file, then its content
 * - an entry: it is reported and its content passed on, then the next header
 * - a block of zeros: the end */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/tar_internal.h"

void tar_reader_init(struct tar_reader *r, const struct tar_reader_ops *ops, void *ctx)
{
    *r = (struct tar_reader){.ops = ops, .ctx = ctx};
    buf_init(&r->extra, TAR_EXTRA_BYTES_MAX);
    buf_init(&r->path, TAR_TEXT_BYTES_MAX);
    buf_init(&r->target, TAR_TEXT_BYTES_MAX);
}

void tar_reader_done(struct tar_reader *r)
{
    buf_done(&r->extra);
    buf_done(&r->path);
    buf_done(&r->target);
}

/* --- fields --- */

static struct str field_text(const char *field, size_t size)
{
    struct str s = str_make(field, size);

    return str_make(field, str_find(s, '\0'));
}

/* 95 bits of two's complement; the value must fit in 64. */
static int binary_read(struct str s, int64_t *ret)
{
    uint64_t value = (uint64_t)(s.p[0] & 0x3f);
    bool negative = s.p[0] & 0x40;

    if (negative)
        value |= ~(uint64_t)0x3f;
    for (size_t i = 1; i < s.n; i++) {
        uint64_t top = value >> 55; /* must be sign bits only before they are shifted out */

        if (top != (negative ? 0x1ff : 0))
            return -EBADMSG;
        value = value << 8 | (unsigned char)s.p[i];
    }
    *ret = (int64_t)value;
    return 0;
}

/* A blank field is 0. */
static int number_read(const char *field, size_t size, int64_t *ret)
{
    struct str s = str_make(field, size);
    uint64_t value = 0;
    size_t i = 0;

    if ((unsigned char)s.p[0] & 0x80)
        return binary_read(s, ret);
    while (i < s.n && s.p[i] == ' ')
        i++;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(s.p[i] - '0');
    if (i < s.n && s.p[i] != ' ' && s.p[i] != '\0')
        return -EBADMSG;
    *ret = (int64_t)value; /* 12 digits have 36 bits */
    return 0;
}

#define NUMBER_READ(field, ret) number_read(field, sizeof(field), ret)

static bool is_zero_block(const char *block)
{
    return block[0] == '\0' && memcmp(block, block + 1, TAR_BLOCK_BYTES - 1) == 0;
}

static int head_check(const struct tar_reader *r, struct err *e)
{
    const struct tar_head *h = (const struct tar_head *)(const void *)r->head;
    int64_t sum;

    if (NUMBER_READ(h->checksum, &sum) == 0 &&
        (sum == tar_head_sum(r->head, false) || sum == tar_head_sum(r->head, true)))
        return 0;
    if (!r->begun && memcmp(r->head, "\x1f\x8b", 2) == 0)
        return err_set(e, EBADMSG, "the archive is compressed; send it as plain tar");
    return err_set(e, EBADMSG,
                   r->begun ? "an entry is damaged: its checksum is wrong" : "not a tar archive");
}

/* --- extra headers --- */

static int text_keep(struct buf *out, bool *said, struct str text, struct err *e)
{
    buf_clear(out);
    if (text.n == 0 || str_has_nul(text) || buf_add(out, text) < 0)
        return err_set(e, EBADMSG, "a path is empty, longer than %d bytes or holds a NUL",
                       TAR_TEXT_BYTES_MAX);
    *said = true;
    return 0;
}

enum { NS_DIGITS = 9, NS_PER_SECOND = 1000000000 };

/* Digits behind the ninth are dropped. A fraction of a negative time counts down from it. */
static int pax_time(struct tar_override *said, struct str value)
{
    struct str whole, fraction = value;
    bool negative = str_starts(value, STR("-"));
    uint64_t ns = 0;
    int r;

    (void)str_cut(&fraction, '.', &whole);
    said->mtime = true;
    said->mtime_ns = 0;
    r = str_to_i64(whole, &said->mtime_value);
    if (r < 0 || !fraction.p || fraction.n == 0)
        return r;
    for (size_t i = 0; i < NS_DIGITS || i < fraction.n; i++) {
        char digit = i < fraction.n ? fraction.p[i] : '0';

        if (digit < '0' || digit > '9')
            return -EBADMSG;
        if (i < NS_DIGITS)
            ns = ns * 10 + (uint64_t)(digit - '0');
    }
    if (negative && ns > 0 && said->mtime_value > INT64_MIN) {
        said->mtime_value--;
        ns = NS_PER_SECOND - ns;
    }
    said->mtime_ns = (uint32_t)ns;
    return 0;
}

static int pax_record(struct tar_reader *r, struct str key, struct str value, struct err *e)
{
    struct tar_override *said = &r->said;
    int bad = 0;

    if (str_eq(key, STR("path")))
        return text_keep(&r->path, &said->path, value, e);
    if (str_eq(key, STR("linkpath")))
        return text_keep(&r->target, &said->target, value, e);
    if (!r->ops->extra && str_starts(key, STR("GNU.sparse.")))
        return err_set(e, EOPNOTSUPP, "the archive has sparse entries; write it without them");
    if (str_eq(key, STR("size"))) {
        said->size = true;
        bad = str_to_u64_range(value, 0, INT64_MAX, &said->size_value);
    } else if (str_eq(key, STR("uid"))) {
        said->uid = true;
        bad = str_to_u64(value, &said->uid_value);
    } else if (str_eq(key, STR("gid"))) {
        said->gid = true;
        bad = str_to_u64(value, &said->gid_value);
    } else if (str_eq(key, STR("mtime"))) {
        bad = pax_time(said, value);
    } else if (r->ops->extra) {
        return r->ops->extra(r->ctx, key, value, e);
    }
    return bad < 0 ? err_set(e, EBADMSG, "a PAX head holds a bad %.*s", STR_ARG(key)) : 0;
}

/* Parses records of "LENGTH KEY=VALUE\n". */
static int pax_read(struct tar_reader *r, struct err *e)
{
    struct str rest = buf_str(&r->extra), record, key;

    while (rest.n > 0) {
        size_t space = str_find(rest, ' ');
        uint64_t length;
        int bad;

        if (str_to_u64_range(str_make(rest.p, space), space + 2, rest.n, &length) < 0 ||
            rest.p[length - 1] != '\n')
            return err_set(e, EBADMSG, "a PAX head is damaged");
        record = str_make(rest.p + space + 1, (size_t)length - space - 2);
        rest = str_skip(rest, (size_t)length);
        if (!str_cut(&record, '=', &key) || !record.p)
            return err_set(e, EBADMSG, "a PAX head is damaged");
        bad = pax_record(r, key, record, e);
        if (bad < 0)
            return bad;
    }
    return 0;
}

static int extra_end(struct tar_reader *r, struct err *e)
{
    struct str text = field_text(r->extra.p, r->extra.n);
    int result;

    if (r->extra_type == 'x')
        result = pax_read(r, e);
    else if (r->extra_type == 'L')
        result = text_keep(&r->path, &r->said.path, text, e);
    else
        result = text_keep(&r->target, &r->said.target, text, e);
    buf_done(&r->extra);
    return result;
}

/* --- headers --- */

/* The path of a header, when no extra header gave one. */
static int head_path(struct tar_reader *r, const struct tar_head *h, struct err *e)
{
    char path[sizeof(h->prefix) + 1 + sizeof(h->name)];
    struct str prefix = field_text(h->prefix, sizeof(h->prefix));
    struct str name = field_text(h->name, sizeof(h->name));
    size_t n = 0;
    bool said;

    if (memcmp(h->magic, "ustar", 6) == 0 && prefix.n > 0) {
        memcpy(path, prefix.p, prefix.n);
        n = prefix.n;
        path[n++] = '/';
    }
    memcpy(path + n, name.p, name.n);
    return text_keep(&r->path, &said, str_make(path, n + name.n), e);
}

static int head_texts(struct tar_reader *r, const struct tar_head *h, bool link, struct err *e)
{
    bool said;
    int result = r->said.path ? 0 : head_path(r, h, e);

    if (result < 0 || !link || r->said.target)
        return result;
    return text_keep(&r->target, &said, field_text(h->target, sizeof(h->target)), e);
}

struct head_numbers {
    int64_t mode, uid, gid, size, mtime, dev_major, dev_minor;
};

static int head_numbers(const struct tar_reader *r, const struct tar_head *h,
                        struct head_numbers *n, struct err *e)
{
    if (NUMBER_READ(h->mode, &n->mode) < 0 || NUMBER_READ(h->uid, &n->uid) < 0 ||
        NUMBER_READ(h->gid, &n->gid) < 0 || NUMBER_READ(h->size, &n->size) < 0 ||
        NUMBER_READ(h->mtime, &n->mtime) < 0 || NUMBER_READ(h->dev_major, &n->dev_major) < 0 ||
        NUMBER_READ(h->dev_minor, &n->dev_minor) < 0 || n->size < 0 || n->uid < 0 || n->gid < 0)
        return err_set(e, EBADMSG, "an entry has a bad number");
    if (r->said.size)
        n->size = (int64_t)r->said.size_value;
    if (r->said.mtime)
        n->mtime = r->said.mtime_value;
    if (n->mtime == INT64_MIN)
        return err_set(e, EBADMSG, "an entry has a bad time");
    return 0;
}

static void content_begin(struct tar_reader *r, enum tar_reader_state state, uint64_t size)
{
    r->state = state;
    r->left = size;
    r->padding = tar_padding(size);
}

static int head_extra(struct tar_reader *r, char type, uint64_t size, struct err *e)
{
    if (size > TAR_EXTRA_BYTES_MAX)
        return err_set(e, EBADMSG, "a head of more than %d bytes", TAR_EXTRA_BYTES_MAX);
    r->extra_type = type;
    content_begin(r, TAR_IN_EXTRA, size);
    return 0;
}

/* In old archives only a trailing '/' marks a directory. */
static char entry_type(char type, struct str path)
{
    if (type == '\0' || type == '7')
        type = TAR_FILE;
    return type == TAR_FILE && path.p[path.n - 1] == '/' ? TAR_DIRECTORY : type;
}

static int head_entry(struct tar_reader *r, const struct tar_head *h, const struct head_numbers *n,
                      struct err *e)
{
    int result = head_texts(r, h, h->type == TAR_HARD_LINK || h->type == TAR_LINK, e);
    struct tar_entry entry = {
        .path = buf_str(&r->path),
        .mode = (uint32_t)n->mode & 07777,
        .uid = r->said.uid ? r->said.uid_value : (uint64_t)n->uid,
        .gid = r->said.gid ? r->said.gid_value : (uint64_t)n->gid,
        .mtime = n->mtime,
        .mtime_ns = r->said.mtime ? r->said.mtime_ns : 0,
        .dev_major = (uint32_t)n->dev_major,
        .dev_minor = (uint32_t)n->dev_minor,
    };
    char type;

    if (result < 0)
        return result;
    type = h->type == TAR_SPARSE ? TAR_FILE : entry_type(h->type, entry.path);
    if (type < TAR_FILE || type > TAR_FIFO)
        return err_set(e, EOPNOTSUPP, "%.*s: entries of type %d are not supported",
                       (int)min_size(entry.path.n, 100), entry.path.p, (unsigned char)type);
    entry.type = (enum tar_type)type;
    if (type == TAR_FILE)
        entry.size = (uint64_t)n->size;
    if (type == TAR_HARD_LINK || type == TAR_LINK)
        entry.target = buf_str(&r->target);
    r->said = (struct tar_override){0};
    /* Some programs write a size for links and directories, but no content. */
    content_begin(r, TAR_IN_CONTENT, entry.size);
    return r->ops->entry(r->ctx, &entry, e);
}

/* --- sparse files of the old GNU format --- */

/* Adds pieces to the map; a piece without an offset ends it. */
static int sparse_add(struct tar_reader *r, const char *at, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        struct tar_piece piece;
        int64_t offset, bytes;

        memcpy(&piece, at + i * sizeof(piece), sizeof(piece));
        if (piece.offset[0] == '\0')
            return 0;
        if (NUMBER_READ(piece.offset, &offset) < 0 || NUMBER_READ(piece.bytes, &bytes) < 0 ||
            offset < 0 || bytes < 0 ||
            buf_addf(&r->extra, "%s%" PRId64 ",%" PRId64, r->extra.n ? "," : "", offset, bytes) < 0)
            return err_set(e, EBADMSG, "the map of a sparse file is damaged");
    }
    return 0;
}

/* The map is complete: tells it, and reports the entry. */
static int sparse_end(struct tar_reader *r, struct err *e)
{
    const struct tar_head *h = (const struct tar_head *)(const void *)r->sparse_head;
    struct head_numbers n;
    char digits[24], size[12];
    int64_t real;
    int result;

    memcpy(size, r->sparse_head + TAR_SPARSE_SIZE_AT, sizeof(size));
    if (NUMBER_READ(size, &real) < 0 || real < 0)
        return err_set(e, EBADMSG, "a sparse file has a bad size");
    (void)snprintf(digits, sizeof(digits), "%" PRId64, real);
    result = head_numbers(r, h, &n, e);
    if (result == 0)
        result = r->ops->extra(r->ctx, STR("GNU.sparse.realsize"), str_of(digits), e);
    if (result == 0)
        result = r->ops->extra(r->ctx, STR("GNU.sparse.map"), buf_str(&r->extra), e);
    buf_done(&r->extra);
    return result < 0 ? result : head_entry(r, h, &n, e);
}

static int sparse_begin(struct tar_reader *r, struct err *e)
{
    int result;

    if (!r->ops->extra)
        return err_set(e, EOPNOTSUPP, "the archive has sparse entries; write it without them");
    memcpy(r->sparse_head, r->head, sizeof(r->sparse_head));
    result = sparse_add(r, r->head + TAR_SPARSE_AT, TAR_SPARSE_HEAD_PIECES, e);
    if (result < 0)
        return result;
    if (!r->head[TAR_SPARSE_MORE_AT])
        return sparse_end(r, e);
    r->state = TAR_IN_SPARSE;
    return 0;
}

static int sparse_more(struct tar_reader *r, struct err *e)
{
    int result = sparse_add(r, r->head, TAR_SPARSE_BLOCK_PIECES, e);

    if (result < 0 || r->head[TAR_SPARSE_BLOCK_MORE_AT])
        return result;
    return sparse_end(r, e);
}

static int head_read(struct tar_reader *r, struct err *e)
{
    const struct tar_head *h = (const struct tar_head *)(const void *)r->head;
    struct head_numbers n;
    int result;

    if (is_zero_block(r->head)) {
        r->state = TAR_AT_END;
        return 0;
    }
    result = head_check(r, e);
    if (result == 0)
        result = head_numbers(r, h, &n, e);
    if (result < 0)
        return result;
    r->begun = true;
    switch (h->type) {
    case 'x':
    case 'L':
    case 'K':
        return head_extra(r, h->type, (uint64_t)n.size, e);
    case 'g': /* global header; in practice a comment */
    case 'V': /* a volume label */
        content_begin(r, TAR_IN_SKIPPED, (uint64_t)n.size);
        return 0;
    case TAR_SPARSE:
        return sparse_begin(r, e);
    default:
        return head_entry(r, h, &n, e);
    }
}

/* --- bytes --- */

static int content_end(struct tar_reader *r, struct err *e)
{
    enum tar_reader_state state = r->state;

    r->state = TAR_AT_HEAD;
    if (state == TAR_IN_EXTRA)
        return extra_end(r, e);
    return state == TAR_IN_CONTENT ? r->ops->entry_end(r->ctx, e) : 0;
}

static int content_take(struct tar_reader *r, struct str piece, struct err *e)
{
    if (r->state == TAR_IN_CONTENT)
        return r->ops->data(r->ctx, piece, e);
    if (r->state == TAR_IN_EXTRA && buf_add(&r->extra, piece) < 0)
        return err_set(e, ENOMEM, "no memory for a head of the archive");
    return 0;
}

/* Consumes some of the input: the number of bytes > 0, or -errno. */
static ssize_t reader_take(struct tar_reader *r, struct str rest, struct err *e)
{
    size_t n;
    int result = 0;

    if (r->state == TAR_AT_HEAD || r->state == TAR_IN_SPARSE) {
        n = min_size(rest.n, TAR_BLOCK_BYTES - r->head_n);
        memcpy(r->head + r->head_n, rest.p, n);
        r->head_n += n;
        if (r->head_n < TAR_BLOCK_BYTES)
            return (ssize_t)n;
        r->head_n = 0;
        result = r->state == TAR_AT_HEAD ? head_read(r, e) : sparse_more(r, e);
    } else if (r->left > 0) {
        n = r->left < rest.n ? (size_t)r->left : rest.n;
        r->left -= n;
        result = content_take(r, str_make(rest.p, n), e);
    } else {
        n = min_size(rest.n, r->padding);
        r->padding -= n;
    }
    if (result == 0 && r->state != TAR_AT_HEAD && r->state != TAR_IN_SPARSE &&
        r->state != TAR_AT_END && r->left == 0 && r->padding == 0)
        result = content_end(r, e);
    return result < 0 ? result : (ssize_t)n;
}

int tar_reader_feed(struct tar_reader *r, struct str piece, struct err *e)
{
    if (r->state == TAR_BROKEN)
        return err_set(e, EBADMSG, "the archive was given up before");
    while (piece.n > 0 && r->state != TAR_AT_END) {
        ssize_t n = reader_take(r, piece, e);

        if (n < 0) {
            r->state = TAR_BROKEN;
            return (int)n;
        }
        piece = str_skip(piece, (size_t)n);
    }
    return 0;
}

/* Some programs omit the final blocks of zeros, or even the padding of the last entry. */
int tar_reader_end(struct tar_reader *r, struct err *e)
{
    if (r->state == TAR_IN_CONTENT && r->left == 0) {
        r->padding = 0;
        return content_end(r, e);
    }
    if (r->state == TAR_AT_END || (r->state == TAR_AT_HEAD && r->head_n == 0 && r->begun))
        return 0;
    return err_set(e, EBADMSG, r->begun || r->head_n ? "the archive ends half way" : "no archive");
}
