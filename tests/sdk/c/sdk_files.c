/* sdk_files.c - files and directories through libopensandbox. */
#include <sys/stat.h>
#include <unistd.h>

#include "sdk_test.h"

enum { BIG = 8 << 20 };

struct sum {
    size_t bytes;
    unsigned sum;
};

static int add(void *user, const char *data, size_t bytes)
{
    struct sum *s = user;

    for (size_t i = 0; i < bytes; i++)
        s->sum = s->sum * 31 + (unsigned char)data[i];
    s->bytes += bytes;
    return 0;
}

static long pattern(void *user, char *out, size_t size)
{
    size_t *at = user, n = BIG - *at < size ? BIG - *at : size;

    for (size_t i = 0; i < n; i++)
        out[i] = (char)((*at + i) * 7 % 251);
    *at += n;
    return (long)n;
}

TEST(files, writes_and_reads_streams)
{
    struct osb_upload big = {.path = "/tmp/d/big", .source = pattern, .mode = 0640};
    struct sum got = {0}, want = {0};
    size_t at = 0, again = 0;
    char block[4096];
    long n;

    open_box();
    big.user = &at;
    GOOD(osb_files_upload(box, &big, 1));
    CHECK_EQ(at, BIG);
    GOOD(osb_file_read(box, "/tmp/d/big", NULL, add, &got));
    while ((n = pattern(&again, block, sizeof(block))) > 0)
        add(&want, block, (size_t)n);
    CHECK(got.bytes == BIG && got.sum == want.sum);
    close_all();
}

TEST(files, describes_lists_and_searches)
{
    struct osb_upload files[] = {
        {.path = "/tmp/t/a.py", .data = "print(1)\n", .data_bytes = 9,            .mode = 0644},
        {.path = "/tmp/t/sub/b.py",                     .data = "",                 .mode = 0755            },
        {.path = "/tmp/t/sub/c \xc3\xa4&.txt",                     .data = "x",      .data_bytes = 1},
    };
    const char *paths[] = {"/tmp/t/a.py", "/tmp/t/sub"};
    struct osb_answer *a;

    open_box();
    GOOD(osb_files_upload(box, files, 3));
    GOOD(osb_files_info(box, paths, 2, &a));
    CHECK_EQ(osb_file_count(a), 2);
    CHECK_STR(osb_file_path(osb_file_at(a, 0)), "/tmp/t/a.py");
    CHECK_STR(osb_file_type(osb_file_at(a, 0)), "file");
    CHECK_EQ(osb_file_size(osb_file_at(a, 0)), 9);
    CHECK_EQ(osb_file_mode(osb_file_at(a, 0)), 0644);
    CHECK(osb_file_modified_us(osb_file_at(a, 0)) > 0);
    CHECK_STR(osb_file_type(osb_file_at(a, 1)), "directory");
    osb_answer_free(a);
    GOOD(osb_files_list(box, "/tmp/t", 2, &a));
    CHECK_EQ(osb_file_count(a), 4);
    osb_answer_free(a);
    GOOD(osb_files_search(box, "/tmp/t", "*.py", &a));
    CHECK_EQ(osb_file_count(a), 2);
    osb_answer_free(a);
    GOOD(osb_file_get(box, "/tmp/t/sub/c \xc3\xa4&.txt", NULL, &a));
    CHECK_STR(osb_answer_body(a, NULL), "x");
    osb_answer_free(a);
    paths[0] = "/none";
    CHECK_EQ(osb_files_info(box, paths, 1, &a), -ENOENT);
    CHECK_STR(osb_error_code(osb_client_error(client)), "FILE_NOT_FOUND");
    close_all();
}

TEST(files, reads_ranges_and_lines)
{
    struct osb_answer *a;

    open_box();
    GOOD(osb_file_put(box, "/tmp/l", "one\ntwo\nthree\n", 14, 0));
    GOOD(osb_file_get(box, "/tmp/l", &(struct osb_read){OSB_READ, .range = "bytes=4-6"}, &a));
    CHECK_STR(osb_answer_body(a, NULL), "two");
    CHECK_EQ(osb_answer_status(a), 206);
    osb_answer_free(a);
    GOOD(osb_file_get(box, "/tmp/l", &(struct osb_read){OSB_READ, .first_line = 2, .line_count = 1},
                      &a));
    CHECK(strstr(osb_answer_body(a, NULL), "two") && !strstr(osb_answer_body(a, NULL), "three"));
    osb_answer_free(a);
    close_all();
}

TEST(files, changes_files)
{
    struct osb_permission dir = {"/tmp/new/deep", 0750, NULL, NULL};
    struct osb_permission mode = {"/tmp/new/f", 0600, NULL, NULL};
    struct osb_move move = {"/tmp/new/f", "/tmp/new/deep/g"};
    struct osb_replace replace = {"/tmp/new/deep/g", "old", "new"};
    const char *file = "/tmp/new/deep/g", *tree = "/tmp/new";
    struct osb_answer *a;

    open_box();
    GOOD(osb_directories_make(box, &dir, 1));
    GOOD(osb_file_put(box, "/tmp/new/f", "old and old", 11, 0));
    GOOD(osb_files_chmod(box, &mode, 1));
    GOOD(osb_files_move(box, &move, 1));
    GOOD(osb_files_replace(box, &replace, 1, &a));
    CHECK_EQ(osb_answer_int(a, "\"/tmp/new/deep/g\".replacedCount", 0), 2);
    osb_answer_free(a);
    GOOD(osb_files_info(box, &file, 1, &a));
    CHECK_EQ(osb_file_mode(osb_file_at(a, 0)), 0600);
    osb_answer_free(a);
    GOOD(osb_files_remove(box, &file, 1));
    CHECK_EQ(osb_files_info(box, &file, 1, &a), -ENOENT);
    GOOD(osb_directories_remove(box, &tree, 1));
    close_all();
}

/* --- archives: out of one directory, into another --- */

struct archive {
    char *p;
    size_t n, at;
};

static int collect(void *user, const char *data, size_t bytes)
{
    struct archive *a = user;

    a->p = realloc(a->p, a->n + bytes);
    memcpy(a->p + a->n, data, bytes);
    a->n += bytes;
    return 0;
}

static long give(void *user, char *out, size_t size)
{
    struct archive *a = user;
    size_t n = a->n - a->at < size ? a->n - a->at : size;

    memcpy(out, a->p + a->at, n);
    a->at += n;
    return (long)n;
}

TEST(files, copies_a_tree_as_an_archive)
{
    struct archive archive = {0};
    struct osb_answer *a;

    open_box();
    GOOD(osb_file_put(box, "/tmp/from/x/y", "why", 3, 0));
    GOOD(osb_archive_read(box, "/tmp/from", collect, &archive));
    CHECK(archive.n >= 1024);
    GOOD(osb_archive_write(box, "/tmp/to", give, &archive));
    GOOD(osb_file_get(box, "/tmp/to/x/y", NULL, &a));
    CHECK_STR(osb_answer_body(a, NULL), "why");
    osb_answer_free(a);
    archive.at = 0;
    archive.p[200] ^= 1; /* its checksum no longer fits */
    CHECK_EQ(osb_archive_write(box, "/tmp/bad", give, &archive), -EINVAL);
    free(archive.p);
    close_all();
}

/* --- whole directories --- */

struct tree_seen {
    int entries;
    int64_t bytes;
    int stop_at;
};

static int on_tree(void *user, const char *path, int64_t bytes)
{
    struct tree_seen *s = user;

    CHECK(path[0] && path[0] != '/');
    s->bytes += bytes;
    return ++s->entries == s->stop_at;
}

static void check_shell(const char *fmt, const char *dir)
{
    char command[512];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    snprintf(command, sizeof(command), fmt, dir, dir, dir, dir);
#pragma GCC diagnostic pop
    CHECK_EQ(system(command), 0);
}

TEST(files, moves_whole_directories_both_ways)
{
    char dir[] = "/tmp/osb-tree-XXXXXX", up[64], down[64];
    struct tree_seen seen = {0};
    struct osb_tree tree = {OSB_TREE, .on_entry = on_tree, .user = &seen};

    CHECK(mkdtemp(dir));
    snprintf(up, sizeof(up), "%s/up", dir);
    snprintf(down, sizeof(down), "%s/down", dir);
    check_shell("mkdir -p %s/up/a/b/c && seq 1 100000 > %s/up/a/b/big && ln -s /etc/passwd %s/up/l "
                "&& printf x > %s/up/x",
                dir);
    check_shell("chmod 750 %s/up/x && mkfifo %s/up/fifo", dir);
    open_box();
    GOOD(osb_tree_upload(box, up, "/tmp/tree", &tree));
    CHECK_EQ(seen.entries, 3); /* two files and a link; directories are not told */
    CHECK_EQ(seen.bytes, 588895 + 1);
    seen = (struct tree_seen){0};
    GOOD(osb_tree_download(box, "/tmp/tree", down, &tree));
    CHECK_EQ(seen.bytes, 588895 + 1);
    check_shell("cmp %s/up/a/b/big %s/down/a/b/big && test -d %s/down/a/b/c && test -x %s/down/x",
                dir);
    check_shell("test \"$(readlink %s/down/l)\" = /etc/passwd && ! test -e %s/down/fifo", dir);
    seen = (struct tree_seen){.stop_at = 1};
    CHECK_EQ(osb_tree_upload(box, up, "/tmp/other", &tree), -ECANCELED);
    seen = (struct tree_seen){.stop_at = 1};
    CHECK_EQ(osb_tree_download(box, "/tmp/tree", down, &tree), -ECANCELED);
    CHECK_EQ(osb_tree_upload(box, "/none/such", "/tmp/other", NULL), -ENOENT);
    CHECK_EQ(osb_tree_download(box, "/none/such", down, NULL), -ENOENT);
    check_shell("rm -r %s", dir);
    close_all();
}

/* --- watching --- */

struct changes {
    char text[256];
};

static int on_change(void *user, enum osb_change change, const char *path, const char *from,
                     bool is_directory)
{
    static const char letters[] = "RCMDVO";
    struct changes *c = user;
    size_t n = strlen(c->text);
    struct osb_move move = {"/tmp/w/a", "/tmp/w/b"};
    const char *gone = "/tmp/w/b";

    CHECK(!is_directory && path[0] == '/');
    CHECK((change == OSB_CHANGE_MOVE) == (from != NULL));
    snprintf(c->text + n, sizeof(c->text) - n, "%c", letters[change]);
    if (change == OSB_CHANGE_READY)
        GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "touch /tmp/w/a"}, NULL));
    if (change == OSB_CHANGE_CREATE)
        GOOD(osb_files_move(box, &move, 1));
    if (change == OSB_CHANGE_MOVE)
        GOOD(osb_files_remove(box, &gone, 1));
    return change == OSB_CHANGE_DELETE;
}

TEST(files, watches_a_directory)
{
    struct osb_permission dir = {.path = "/tmp/w"};
    struct changes changes = {{0}};

    open_box();
    GOOD(osb_directories_make(box, &dir, 1));
    GOOD(osb_files_watch(box, "/tmp/w", true, on_change, &changes));
    CHECK(changes.text[0] == 'R' && strchr(changes.text, 'C') && strchr(changes.text, 'V'));
    CHECK_EQ(osb_files_watch(box, "/none", false, on_change, &changes), -ENOENT);
    close_all();
}
