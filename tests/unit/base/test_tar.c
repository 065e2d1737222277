#include "base/tar.h"

#include "folder.h"

/* What a reader told: one line per entry, its content behind it. */
static int note_entry(void *ctx, const struct tar_entry *e, struct err *err UNUSED)
{
    return buf_addf(ctx, "%c %.*s>%.*s %o %llu:%llu %lld %llu=", (char)e->type, STR_ARG(e->path),
                    STR_ARG(e->target), e->mode, (unsigned long long)e->uid,
                    (unsigned long long)e->gid, (long long)e->mtime, (unsigned long long)e->size);
}

static int note_data(void *ctx, struct str piece, struct err *e UNUSED)
{
    return buf_add(ctx, piece);
}

static int note_end(void *ctx, struct err *e UNUSED)
{
    return buf_add_char(ctx, '\n');
}

static const struct tar_reader_ops note_ops = {note_entry, note_data, note_end};

/* Feeds the archive in pieces of this size. */
static int tar_read(struct str archive, size_t piece, struct buf *out, struct err *e)
{
    struct tar_reader r;
    int result = 0;

    tar_reader_init(&r, &note_ops, out);
    while (result == 0 && archive.n > 0) {
        size_t n = min_size(piece, archive.n);

        result = tar_reader_feed(&r, str_make(archive.p, n), e);
        archive = str_skip(archive, n);
    }
    if (result == 0)
        result = tar_reader_end(&r, e);
    tar_reader_done(&r);
    return result;
}

static void add_file(struct buf *out, struct tar_entry entry, const char *content)
{
    static const char zeros[TAR_BLOCK_BYTES];

    entry.type = entry.type ? entry.type : TAR_FILE;
    entry.size = strlen(content);
    CHECK_EQ(tar_write_head(out, &entry), 0);
    CHECK_EQ(buf_add(out, str_of(content)), 0);
    CHECK_EQ(buf_add(out, str_make(zeros, tar_padding(entry.size))), 0);
}

static void fix_checksum(struct buf *archive, size_t at)
{
    char *head = archive->p + at;
    unsigned sum = 0;

    memset(head + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += (unsigned char)head[i];
    (void)snprintf(head + 148, 8, "%06o", sum);
}

TEST(tar, reads_what_it_wrote_in_pieces_of_any_size)
{
    AUTO_BUF(archive, 64 << 10);
    char path[300], target[200];

    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    memset(target, 't', sizeof(target) - 1);
    target[sizeof(target) - 1] = '\0';
    add_file(&archive, (struct tar_entry){.path = STR("a/b"), .mode = 0644, .mtime = 7}, "hello");
    add_file(&archive, (struct tar_entry){.path = str_of(path), .mode = 04755, .uid = 1ULL << 30},
             "");
    add_file(&archive,
             (struct tar_entry){
                 .type = TAR_LINK, .path = STR("l"), .target = str_of(target), .mtime = -5},
             "");
    add_file(&archive, (struct tar_entry){.type = TAR_DIRECTORY, .path = STR("d/")}, "");
    CHECK_EQ(tar_write_end(&archive), 0);
    for (size_t piece = 1; piece < 2000; piece = piece * 3 + 1) {
        AUTO_BUF(told, 64 << 10);
        AUTO_BUF(wanted, 64 << 10);
        struct err e = {0};

        CHECK_EQ(tar_read(buf_str(&archive), piece, &told, &e), 0);
        CHECK_EQ(buf_addf(&wanted,
                          "0 a/b> 644 0:0 7 5=hello\n0 %s> 4755 1073741824:0 0 0=\n"
                          "2 l>%s 0 0:0 -5 0=\n5 d/> 0 0:0 0 0=\n",
                          path, target),
                 0);
        CHECK_STR(told.p, wanted.p);
    }
}

TEST(tar, tells_sizes_past_eight_gibibytes)
{
    AUTO_BUF(archive, 64 << 10);
    AUTO_BUF(told, 64 << 10);
    struct tar_entry entry = {
        .type = TAR_FILE, .path = STR("big"), .size = 10ULL << 30, .mode = 0600};
    struct tar_reader r;

    CHECK_EQ(tar_write_head(&archive, &entry), 0);
    CHECK_EQ(archive.n, 3 * TAR_BLOCK_BYTES); /* the PAX head, its content, and the head */
    tar_reader_init(&r, &note_ops, &told);
    CHECK_EQ(tar_reader_feed(&r, buf_str(&archive), NULL), 0);
    CHECK_STR(told.p, "0 big> 600 0:0 0 10737418240=");
    tar_reader_done(&r);
}

TEST(tar, reads_long_names_in_gnus_way_and_old_directories)
{
    AUTO_BUF(archive, 64 << 10);
    AUTO_BUF(told, 64 << 10);
    struct err e = {0};
    size_t at;

    add_file(&archive, (struct tar_entry){.type = (enum tar_type)'L', .path = STR("././@LongLink")},
             "a/very/long/name");
    add_file(&archive, (struct tar_entry){.type = (enum tar_type)'K', .path = STR("././@LongLink")},
             "far/away");
    add_file(&archive, (struct tar_entry){.type = TAR_HARD_LINK, .path = STR("short")}, "");
    at = archive.n;
    add_file(&archive, (struct tar_entry){.path = STR("dir/")}, "");
    archive.p[at + 156] = '\0';
    fix_checksum(&archive, at);
    CHECK_EQ(tar_read(buf_str(&archive), 100, &told, &e), 0);
    CHECK_STR(told.p, "1 a/very/long/name>far/away 0 0:0 0 0=\n5 dir/> 0 0:0 0 0=\n");
}

TEST(tar, reads_binary_sizes_and_prefixes)
{
    AUTO_BUF(archive, 64 << 10);
    AUTO_BUF(told, 64 << 10);
    struct err e = {0};

    add_file(&archive, (struct tar_entry){.path = STR("name")}, "12345");
    memset(archive.p + 124, 0, 12);
    archive.p[124] = (char)0x80;
    archive.p[135] = 5;
    memcpy(archive.p + 345, "some/where", 10);
    fix_checksum(&archive, 0);
    CHECK_EQ(tar_read(buf_str(&archive), 512, &told, &e), 0);
    CHECK_STR(told.p, "0 some/where/name> 0 0:0 0 5=12345\n");
}

TEST(tar, refuses_what_is_no_archive)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"",             -EBADMSG},
        {"not a tar",    -EBADMSG},
        {"\x1f\x8b\x08", -EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF(told, 4096);
        struct err e = {0};

        CHECK_EQ(tar_read(str_of(rows[i].text), 10, &told, &e), rows[i].code);
        CHECK(e.msg[0]);
    }
}

TEST(tar, refuses_damage_sparse_entries_and_a_half_archive)
{
    AUTO_BUF(archive, 64 << 10);
    struct err e = {0};

    add_file(&archive, (struct tar_entry){.path = STR("a")}, "hello");
    for (size_t n = 1; n < archive.n; n += 100) {
        AUTO_BUF(told, 64 << 10);
        bool lacks_only_padding = n >= TAR_BLOCK_BYTES + strlen("hello");

        CHECK_EQ(tar_read(str_make(archive.p, n), n, &told, &e), lacks_only_padding ? 0 : -EBADMSG);
        CHECK(!lacks_only_padding || strstr(told.p, "=hello\n"));
    }
    archive.p[0] = 'b';
    {
        AUTO_BUF(told, 4096);

        CHECK_EQ(tar_read(buf_str(&archive), 4096, &told, &e), -EBADMSG);
    }
    archive.p[156] = 'S';
    fix_checksum(&archive, 0);
    {
        AUTO_BUF(told, 4096);

        CHECK_EQ(tar_read(buf_str(&archive), 4096, &told, &e), -EOPNOTSUPP);
    }
}

TEST(tar, refuses_heads_that_lie)
{
    static const char *const records[] = {
        "999 path=x\n", "5 path=x\n", "11 path=abc", "9 path=\n", "12 size=none\n", "0 =\n", "x",
    };

    for (size_t i = 0; i < ARRAY_LEN(records); i++) {
        AUTO_BUF(archive, 64 << 10);
        AUTO_BUF(told, 4096);
        struct err e = {0};

        add_file(&archive, (struct tar_entry){.type = (enum tar_type)'x', .path = STR("p")},
                 records[i]);
        add_file(&archive, (struct tar_entry){.path = STR("a")}, "");
        CHECK_EQ(tar_read(buf_str(&archive), 4096, &told, &e), -EBADMSG);
    }
}

TEST(tar, takes_a_file_in_pieces_and_fills_up_what_it_lost)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(out, 4096);
    struct tar_content c = {.fd = -EBADF};
    char text[700];
    struct stat st;

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    file_write("f", text);
    file_write("empty", "");
    CHECK_EQ(symlink("f", "link"), 0);
    CHECK_EQ(tar_content_open(&c, AT_FDCWD, "link", &st), 0);
    CHECK_EQ(tar_content_open(&c, AT_FDCWD, "gone", &st), 0);
    CHECK_EQ(tar_content_open(&c, AT_FDCWD, "empty", &st), 1);
    CHECK(c.fd < 0);
    CHECK_EQ(tar_content_open(&c, AT_FDCWD, "f", &st), 1);
    CHECK_EQ(tar_entry_of(&st).size, 699);
    CHECK_EQ(tar_content_add(&c, &out, 512), 0);
    CHECK_EQ(out.n, 512);
    CHECK_EQ(truncate("f", 600), 0);
    CHECK_EQ(tar_content_add(&c, &out, 512), 0);
    CHECK(c.fd < 0);
    CHECK_EQ(out.n, 1024);
    CHECK(out.p[599] == 'x' && out.p[600] == '\0' && out.p[1023] == '\0');
}

TEST(tar, asks_a_file_of_sys_how_long_it_is)
{
    AUTO_BUF(out, 8192);
    struct tar_content c = {.fd = -EBADF};
    struct stat st;

    if (tar_content_open(&c, AT_FDCWD, "/sys/kernel/uevent_seqnum", &st) != 1)
        test_skip("no /sys here");
    CHECK(st.st_size > 1 && st.st_size < 24); /* a number, where stat(2) says 4096 */
    CHECK_EQ(tar_content_add(&c, &out, 4096), 0);
    CHECK_EQ(out.n, 512);
    CHECK_EQ(out.p[st.st_size - 1], '\n');
}
