#include "unpack/layer.h"

#include "test.h"

static const struct unpack_limits limits = UNPACK_LIMITS_DEFAULT;

/* What a reader told: one line per change, its content with its offset behind it. */
static int note_change(void *ctx, const struct layer_change *c, struct err *e UNUSED)
{
    static const char kinds[] = {
        [LAYER_FILE] = 'f', [LAYER_DIRECTORY] = 'd', [LAYER_SYMLINK] = 's', [LAYER_HARD_LINK] = 'h',
        [LAYER_FIFO] = 'p', [LAYER_WHITEOUT] = 'w',  [LAYER_OPAQUE] = 'o',
    };
    int r = buf_addf(ctx, "%c %s>%s %llu", kinds[c->kind], c->path, c->target,
                     (unsigned long long)c->size);

    for (size_t i = 0; r == 0 && i < c->xattr_count; i++)
        r = buf_addf(ctx, " %s=%.*s", c->xattrs[i].name.p, STR_ARG(c->xattrs[i].value));
    return r;
}

static int note_data(void *ctx, uint64_t offset, struct str piece, struct err *e UNUSED)
{
    return buf_addf(ctx, " @%llu:%.*s", (unsigned long long)offset, STR_ARG(piece));
}

static int note_end(void *ctx, struct err *e UNUSED)
{
    return buf_add_char(ctx, '\n');
}

static const struct layer_ops note_ops = {note_change, note_data, note_end};

static int read_layer(struct str bytes, struct buf *told, struct err *e)
{
    struct layer_reader r;
    int result;

    layer_reader_init(&r, &limits, &note_ops, told);
    result = layer_reader_feed(&r, bytes, e);
    if (result == 0)
        result = layer_reader_end(&r, e);
    layer_reader_done(&r);
    return result;
}

static void add(struct buf *out, enum tar_type type, const char *path, const char *target,
                const char *content)
{
    static const char zeros[TAR_BLOCK_BYTES];
    struct tar_entry entry = {.type = type,
                              .path = str_of(path),
                              .target = str_of(target),
                              .mode = 0644,
                              .size = strlen(content)};

    CHECK_EQ(tar_write_head(out, &entry), 0);
    CHECK_EQ(buf_add(out, str_of(content)), 0);
    CHECK_EQ(buf_add(out, str_make(zeros, tar_padding(entry.size))), 0);
}

TEST(layer, tells_clean_names_and_whiteouts)
{
    AUTO_BUF(archive, 64 << 10);
    AUTO_BUF(told, 64 << 10);
    struct err e = {0};

    add(&archive, TAR_FILE, "/a//./b", "", "x");
    add(&archive, TAR_DIRECTORY, "./", "", "");
    add(&archive, TAR_HARD_LINK, "h", "/a/./b", "");
    add(&archive, TAR_LINK, "s", "../../x", "");
    add(&archive, TAR_FILE, "d/.wh.gone", "", "");
    add(&archive, TAR_FILE, "d/.wh..wh..opq", "", "");
    add(&archive, TAR_FILE, ".wh..wh..opq", "", "");
    add(&archive, TAR_FILE, ".wh..wh.plnk/1", "", "");
    add(&archive, TAR_CHAR_DEVICE, "dev/null", "", "");
    CHECK_EQ(read_layer(buf_str(&archive), &told, &e), 0);
    CHECK_STR(told.p, "f a/b> 1 @0:x\nd > 0\nh h>a/b 0\ns s>../../x 0\n"
                      "w d/gone> 0\no d> 0\no > 0\n");
}

TEST(layer, refuses_by_name_what_leads_out)
{
    static const struct {
        enum tar_type type;
        const char *path, *target;
    } rows[] = {
        {TAR_FILE,         "../a",      ""    },
        {TAR_FILE,         "a/../../b", ""    },
        {TAR_DIRECTORY,    "..",        ""    },
        {TAR_HARD_LINK,    "l",         "../x"},
        {TAR_HARD_LINK,    "l",         "/"   },
        {TAR_CHAR_DEVICE,  "null",      ""    },
        {TAR_BLOCK_DEVICE, "x/dev/sda", ""    },
        {TAR_FILE,         ".wh.",      ""    },
        {TAR_FILE,         ".wh...",    ""    },
        {TAR_FILE,         ".wh.a/b",   ""    },
        {TAR_LINK,         "/",         "x"   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF(archive, 64 << 10);
        AUTO_BUF(told, 4096);
        struct err e = {0};

        add(&archive, rows[i].type, rows[i].path, rows[i].target, "");
        CHECK(read_layer(buf_str(&archive), &told, &e) < 0);
        CHECK(e.msg[0] == '\'' && strstr(e.msg, rows[i].path));
        CHECK_EQ(told.n, 0);
    }
}

/* An extended header for the next entry. */
static void add_pax(struct buf *out, const char *records)
{
    size_t at = out->n;
    unsigned sum = 0;

    add(out, TAR_FILE, "x", "", records);
    out->p[at + 156] = 'x';
    memset(out->p + at + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += (unsigned char)out->p[at + i];
    (void)snprintf(out->p + at + 148, 8, "%06o", sum);
}

TEST(layer, keeps_attributes_of_users_only)
{
    AUTO_BUF(archive, 64 << 10);
    AUTO_BUF(told, 64 << 10);
    struct err e = {0};

    add_pax(&archive, "25 SCHILY.xattr.user.a=b\n37 SCHILY.xattr.security.selinux=abc\n");
    add(&archive, TAR_FILE, "f", "", "");
    add(&archive, TAR_FILE, "g", "", "");
    CHECK_EQ(read_layer(buf_str(&archive), &told, &e), 0);
    CHECK_STR(told.p, "f f> 0 user.a=b\nf g> 0\n");
    buf_clear(&archive);
    add_pax(&archive, "41 SCHILY.xattr.trusted.overlay.opaque=y\n");
    add(&archive, TAR_DIRECTORY, "d", "", "");
    CHECK_EQ(read_layer(buf_str(&archive), &told, &e), -EBADMSG);
    CHECK(strstr(e.msg, "trusted.overlay.opaque"));
}

TEST(layer, places_pieces_of_sparse_files)
{
    AUTO_BUF(archive, 64 << 10);
    AUTO_BUF(told, 64 << 10);
    struct err e = {0};

    add_pax(&archive, "27 GNU.sparse.realsize=100\n28 GNU.sparse.map=10,2,50,3\n");
    add(&archive, TAR_FILE, "f", "", "abcde");
    CHECK_EQ(read_layer(buf_str(&archive), &told, &e), 0);
    CHECK_STR(told.p, "f f> 100 @10:ab @50:cde\n");
    buf_clear(&archive);
    add_pax(&archive, "26 GNU.sparse.realsize=52\n28 GNU.sparse.map=10,2,50,3\n");
    add(&archive, TAR_FILE, "f", "", "abcde");
    CHECK_EQ(read_layer(buf_str(&archive), &told, &e), -EBADMSG);
    CHECK(strstr(e.msg, "outside"));
}
