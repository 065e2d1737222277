#include "unpack/layer.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>

#include "unpack/sparse.h"

#define WH        ".wh."
#define WH_OPAQUE ".wh..wh..opq"
#define WH_AUFS   ".wh..wh." /* files of a union file system that some archives have by mistake */

enum { ID_MAX = 65535, SHOWN_BYTES = 120 };

void layer_reader_done(struct layer_reader *r)
{
    tar_reader_done(&r->tar);
    buf_done(&r->path);
    buf_done(&r->target);
    buf_done(&r->given);
    buf_done(&r->extra);
    buf_done(&r->sparse_name);
    buf_done(&r->pieces);
}

/* Prepends the name of the current entry. */
static int refuse(const struct layer_reader *r, int code, struct err *e, const char *why)
{
    struct str name = buf_str(&r->given);

    return err_set(e, code, "'%.*s'%s: %s", (int)min_size(name.n, SHOWN_BYTES), name.p,
                   name.n > SHOWN_BYTES ? "..." : "", why);
}

/* --- names --- */

enum name_kind { NAME_PLAIN, NAME_WHITEOUT, NAME_OPAQUE, NAME_IGNORED };

/* Appends one component. */
static int name_add(const struct layer_reader *r, struct buf *out, struct str name, struct err *e)
{
    if (str_eq(name, STR("..")))
        return refuse(r, EBADMSG, e, "leads out of the layer by '..'");
    if (name.n > NAME_MAX)
        return refuse(r, ENAMETOOLONG, e, "a name in it is longer than 255 bytes");
    if (out->n + name.n + 2 > PATH_MAX || (out->n > 0 && buf_add_char(out, '/') < 0) ||
        buf_add(out, name) < 0)
        return refuse(r, ENAMETOOLONG, e, "the path is longer than 4096 bytes");
    return 0;
}

/* Cleans a path: no empty and "." components, and so no leading '/'. */
static int name_clean(const struct layer_reader *r, struct str path, struct buf *out, struct err *e)
{
    uint32_t depth = 0;
    struct str name;
    int bad;

    buf_clear(out);
    while (str_cut(&path, '/', &name)) {
        if (name.n == 0 || str_eq(name, STR(".")))
            continue;
        if (++depth > r->limits.depth)
            return refuse(r, ENAMETOOLONG, e, "is nested deeper than allowed");
        bad = name_add(r, out, name, e);
        if (bad < 0)
            return bad;
    }
    return 0;
}

/* The last component; *ret_dir is its length with what is before. */
static struct str name_last(const struct buf *path, size_t *ret_before)
{
    size_t at = path->n;

    while (at > 0 && path->p[at - 1] != '/')
        at--;
    *ret_before = at;
    return str_skip(buf_str(path), at);
}

/* Turns the name of a whiteout into what it hides. */
static int name_unwhite(const struct layer_reader *r, struct buf *path, enum name_kind *ret,
                        struct err *e)
{
    size_t before;
    struct str last = name_last(path, &before), hidden;
    struct str up = str_make(path->p, before);

    *ret = NAME_IGNORED;
    if (str_starts(buf_str(path), STR(WH_AUFS)) && !str_eq(last, STR(WH_OPAQUE)))
        return 0;
    for (struct str part; str_cut(&up, '/', &part);)
        if (str_starts(part, STR(WH)))
            return refuse(r, EBADMSG, e, "a directory of it has the name of a whiteout");
    *ret = NAME_PLAIN;
    if (!str_starts(last, STR(WH)))
        return 0;
    *ret = NAME_OPAQUE;
    if (str_eq(last, STR(WH_OPAQUE))) {
        buf_cut(path, before > 0 ? before - 1 : 0);
        return 0;
    }
    *ret = NAME_IGNORED;
    if (str_starts(last, STR(WH_AUFS)))
        return 0;
    *ret = NAME_WHITEOUT;
    hidden = str_skip(last, sizeof(WH) - 1);
    if (hidden.n == 0 || str_eq(hidden, STR(".")) || str_eq(hidden, STR("..")))
        return refuse(r, EBADMSG, e, "is a whiteout of nothing");
    memmove(path->p + before, hidden.p, hidden.n);
    buf_cut(path, before + hidden.n);
    return 0;
}

/* --- records of extended headers --- */

#define XATTR_PREFIX "SCHILY.xattr."

/* Attributes are kept that mean the same in a sandbox. Others are of the machine that made the
 * archive (labels of security modules), and some would change how layers are joined. */
static int xattr_verdict(struct str name, const char **ret_why)
{
    *ret_why = NULL;
    if (str_starts(name, STR("trusted.overlay.")) || str_starts(name, STR("user.overlay.")))
        *ret_why = "has an attribute that steers the union of layers";
    else if (str_has_nul(name) || name.n == 0 || name.n > XATTR_NAME_MAX)
        *ret_why = "has an attribute with a bad name";
    if (*ret_why)
        return -EBADMSG;
    return str_starts(name, STR("user.")) || str_eq(name, STR("security.capability"));
}

/* Names of users of another namespace mean nothing here: the kernel takes version 2, which has
 * none, as of ours. */
static int capability_check(struct str *value, char out[XATTR_CAPS_SZ_2])
{
    uint32_t magic;

    if (value->n != XATTR_CAPS_SZ_2 && value->n != XATTR_CAPS_SZ_3)
        return -EBADMSG;
    memcpy(&magic, value->p, sizeof(magic));
    if ((magic & VFS_CAP_REVISION_MASK) !=
        (value->n == XATTR_CAPS_SZ_2 ? VFS_CAP_REVISION_2 : VFS_CAP_REVISION_3))
        return -EBADMSG;
    magic = VFS_CAP_REVISION_2 | (magic & VFS_CAP_FLAGS_EFFECTIVE);
    memcpy(out, value->p, XATTR_CAPS_SZ_2);
    memcpy(out, &magic, sizeof(magic));
    *value = str_make(out, XATTR_CAPS_SZ_2);
    return 0;
}

static int xattr_add(struct layer_reader *r, struct str name, struct str value, struct err *e)
{
    char caps[XATTR_CAPS_SZ_2];
    const char *why;
    int keep = xattr_verdict(name, &why);

    if (keep < 0)
        return err_set(e, -keep, "an entry %s: '%.*s'", why, (int)min_size(name.n, SHOWN_BYTES),
                       name.p);
    if (!keep) {
        r->skipped++;
        return 0;
    }
    if (str_eq(name, STR("security.capability")) && capability_check(&value, caps) < 0)
        return err_set(e, EBADMSG, "an entry has a security.capability that is none");
    if (r->xattr_count == LAYER_XATTRS_MAX)
        return err_set(e, E2BIG, "an entry has more than %d attributes", LAYER_XATTRS_MAX);
    r->xattr_at[r->xattr_count][0] = r->extra.n;
    if (buf_add(&r->extra, name) < 0 || buf_add_char(&r->extra, '\0') < 0)
        return err_set(e, E2BIG, "an entry has more than %u bytes of attributes",
                       r->limits.xattr_bytes);
    r->xattr_at[r->xattr_count][1] = r->extra.n;
    if (buf_add(&r->extra, value) < 0)
        return err_set(e, E2BIG, "an entry has more than %u bytes of attributes",
                       r->limits.xattr_bytes);
    r->xattr_count++;
    return 0;
}

static int on_extra(void *ctx, struct str key, struct str value, struct err *e)
{
    struct layer_reader *r = ctx;

    if (str_starts(key, STR(XATTR_PREFIX)))
        return xattr_add(r, str_skip(key, sizeof(XATTR_PREFIX) - 1), value, e);
    if (str_starts(key, STR("GNU.sparse.")))
        return sparse_record(r, str_skip(key, sizeof("GNU.sparse.") - 1), value, e);
    return 0;
}

/* The offsets become strings once nothing is added any more. */
static void xattrs_place(struct layer_reader *r)
{
    for (size_t i = 0; i < r->xattr_count; i++) {
        size_t name = r->xattr_at[i][0], value = r->xattr_at[i][1];
        size_t end = i + 1 < r->xattr_count ? r->xattr_at[i + 1][0] : r->extra.n;

        r->xattrs[i].name = str_make(r->extra.p + name, value - name - 1);
        r->xattrs[i].value = str_make(r->extra.p + value, end - value);
    }
}

/* --- entries --- */

static void records_forget(struct layer_reader *r)
{
    buf_clear(&r->extra);
    buf_clear(&r->sparse_name);
    buf_clear(&r->pieces);
    r->xattr_count = 0;
    r->sparse = r->sparse_in_content = r->has_sparse_offset = false;
    r->sparse_size = 0;
}

/* Counts, and refuses what is too much. */
static int entry_count(struct layer_reader *r, const struct tar_entry *entry, struct err *e)
{
    uint64_t size = r->sparse ? r->sparse_size : entry->size;

    if (++r->entries > r->limits.entries)
        return refuse(r, E2BIG, e, "the layer has more entries than allowed");
    if (size > r->limits.bytes || r->bytes + size > r->limits.bytes)
        return refuse(r, EFBIG, e, "the layer has more bytes than allowed");
    r->bytes += size;
    if (entry->uid > ID_MAX || entry->gid > ID_MAX)
        return refuse(r, EBADMSG, e, "its owner or group is above 65535");
    return 0;
}

static int kind_of(const struct layer_reader *r, const struct tar_entry *entry,
                   enum layer_kind *ret, struct err *e)
{
    switch (entry->type) {
    case TAR_FILE:
        *ret = LAYER_FILE;
        return 0;
    case TAR_DIRECTORY:
        *ret = LAYER_DIRECTORY;
        return 0;
    case TAR_LINK:
        *ret = LAYER_SYMLINK;
        return 0;
    case TAR_HARD_LINK:
        *ret = LAYER_HARD_LINK;
        return 0;
    case TAR_FIFO:
        *ret = LAYER_FIFO;
        return 0;
    default:
        return refuse(r, EPERM, e, "is a device; images may not have any outside /dev");
    }
}

static int target_take(struct layer_reader *r, enum layer_kind kind, struct str target,
                       struct err *e)
{
    int bad;

    if (kind == LAYER_HARD_LINK) {
        bad = name_clean(r, target, &r->target, e);
        return bad < 0 || r->target.n > 0 ? bad : refuse(r, EBADMSG, e, "is a link to the root");
    }
    buf_clear(&r->target);
    if (kind == LAYER_SYMLINK && buf_add(&r->target, target) < 0)
        return refuse(r, ENAMETOOLONG, e, "the target is longer than 4096 bytes");
    return 0;
}

static int entry_tell(struct layer_reader *r, const struct tar_entry *entry, enum name_kind name,
                      struct err *e)
{
    struct layer_change change = {
        .path = r->path.p,
        .mode = entry->mode,
        .uid = (uint32_t)entry->uid,
        .gid = (uint32_t)entry->gid,
        .mtime = entry->mtime,
        .mtime_ns = entry->mtime_ns,
        .xattrs = r->xattrs,
        .xattr_count = r->xattr_count,
    };
    int bad = name == NAME_PLAIN ? kind_of(r, entry, &change.kind, e) : 0;

    if (name != NAME_PLAIN)
        change.kind = name == NAME_OPAQUE ? LAYER_OPAQUE : LAYER_WHITEOUT;
    if (bad == 0)
        bad = target_take(r, change.kind, entry->target, e);
    if (bad < 0)
        return bad;
    if (r->path.n == 0 && change.kind != LAYER_DIRECTORY && change.kind != LAYER_OPAQUE)
        return refuse(r, EBADMSG, e, "names the root, but is no directory");
    if (r->sparse && change.kind != LAYER_FILE)
        return refuse(r, EBADMSG, e, "is sparse, but no file");
    if (change.kind == LAYER_FILE)
        change.size = r->sparse ? r->sparse_size : entry->size;
    change.target = r->target.p;
    xattrs_place(r);
    r->telling = true;
    return r->ops->change(r->ctx, &change, e);
}

/* Nodes below /dev are left out, not refused: every sandbox has a /dev of its own, and archives of
 * whole systems have some. */
static bool is_dev_node(const struct layer_reader *r, const struct tar_entry *entry)
{
    return (entry->type == TAR_CHAR_DEVICE || entry->type == TAR_BLOCK_DEVICE) &&
           str_starts(buf_str(&r->path), STR("dev/"));
}

static int on_entry(void *ctx, const struct tar_entry *entry, struct err *e)
{
    struct layer_reader *r = ctx;
    struct str path = r->sparse && r->sparse_name.n ? buf_str(&r->sparse_name) : entry->path;
    enum name_kind name = NAME_PLAIN;
    int bad;

    buf_clear(&r->given);
    (void)buf_add(&r->given, path);
    r->telling = false;
    r->piece = 0;
    r->piece_at = r->offset = r->map_bytes = r->map_numbers = r->map_count = r->map_value = 0;
    r->map_digits = false;
    r->content_left = entry->size;
    bad = name_clean(r, path, &r->path, e);
    if (bad == 0)
        bad = entry_count(r, entry, e);
    if (bad == 0)
        bad = name_unwhite(r, &r->path, &name, e);
    if (bad == 0 && r->sparse)
        bad = sparse_begin(r, e);
    if (bad < 0)
        return bad;
    if (name == NAME_IGNORED || is_dev_node(r, entry)) {
        r->skipped++;
        return 0;
    }
    return entry_tell(r, entry, name, e);
}

static int on_data(void *ctx, struct str piece, struct err *e)
{
    struct layer_reader *r = ctx;
    int bad;

    r->content_left -= piece.n;
    if (!r->telling)
        return 0;
    if (r->sparse) {
        bad = sparse_data(r, piece, e);
    } else {
        r->file_bytes += piece.n;
        bad = r->ops->data(r->ctx, r->offset, piece, e);
        r->offset += piece.n;
    }
    return bad;
}

static int on_entry_end(void *ctx, struct err *e)
{
    struct layer_reader *r = ctx;
    int bad = 0;

    if (r->telling && r->sparse)
        bad = sparse_end(r, e);
    if (bad == 0 && r->telling)
        bad = r->ops->end(r->ctx, e);
    r->telling = false;
    records_forget(r);
    return bad;
}

static const struct tar_reader_ops layer_tar_ops = {on_entry, on_data, on_entry_end, on_extra};

/* --- interface --- */

void layer_reader_init(struct layer_reader *r, const struct unpack_limits *limits,
                       const struct layer_ops *ops, void *ctx)
{
    *r = (struct layer_reader){.ops = ops, .ctx = ctx, .limits = *limits};
    buf_init(&r->path, PATH_MAX);
    buf_init(&r->target, TAR_TEXT_BYTES_MAX);
    buf_init(&r->given, TAR_TEXT_BYTES_MAX);
    buf_init(&r->extra, limits->xattr_bytes);
    buf_init(&r->sparse_name, TAR_TEXT_BYTES_MAX);
    buf_init(&r->pieces, LAYER_PIECES_MAX * sizeof(struct layer_piece));
    tar_reader_init(&r->tar, &layer_tar_ops, r);
}

int layer_reader_feed(struct layer_reader *r, struct str piece, struct err *e)
{
    return tar_reader_feed(&r->tar, piece, e);
}

int layer_reader_end(struct layer_reader *r, struct err *e)
{
    return tar_reader_end(&r->tar, e);
}
