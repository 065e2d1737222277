#include "broker/layer_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/tree.h"
#include "sandbox/layer_ids.h"
#include "test.h"

enum { FIRST = 0x70000000 };
#define RUN_ON                                                                                     \
    {                                                                                              \
        -EBADF, DEADLINE_NEVER                                                                     \
    }
#define OPAQUE "trusted.overlay.opaque"

static char place[] = "/tmp/osb-copy-XXXXXX";

/* A directory to work in; needs root. */
static int place_make(void)
{
    if (getuid() != 0)
        test_skip("only root may give files away");
    CHECK(mkdtemp(place));
    return open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void place_remove(int dir)
{
    fd_close(dir);
    CHECK_EQ(tree_remove(AT_FDCWD, place, NULL), 0);
}

static void put(int dir, const char *path, const char *text, uint32_t owner)
{
    auto_fd fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    CHECK_EQ(fchown(fd, owner, owner), 0);
}

static void make_dir(int dir, const char *path)
{
    CHECK_EQ(mkdirat(dir, path, 0755), 0);
    CHECK_EQ(fchownat(dir, path, FIRST, FIRST, 0), 0);
}

static int open_dir(int dir, const char *path)
{
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

static bool exists(int dir, const char *path)
{
    return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_whiteout(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
           st.st_rdev == 0;
}

static bool is_opaque(int dir, const char *path)
{
    auto_fd fd = open_dir(dir, path);
    char value[2];

    return fgetxattr(fd, OPAQUE, value, sizeof(value)) == 1;
}

static struct stat look(int dir, const char *path)
{
    struct stat st;

    CHECK_EQ(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static char text_of(int dir, const char *path)
{
    auto_fd fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    char c = '\0';

    CHECK_EQ(read(fd, &c, 1), 1);
    return c;
}

TEST(layer_copy, shifts_ids_and_keeps_bits_links_and_times)
{
    auto_fd top = place_make(), to = -EBADF;
    struct layer_size size;
    struct stat st;
    struct timespec times[] = {{.tv_sec = 1000}, {.tv_sec = 2000}};

    make_dir(top, "upper");
    make_dir(top, "upper/d");
    put(top, "upper/d/su", "x", FIRST + 7);
    CHECK_EQ(fchmodat(top, "upper/d/su", 06755, 0), 0);
    CHECK_EQ(linkat(top, "upper/d/su", top, "upper/other", 0), 0);
    put(top, "upper/strange", "x", 12);
    CHECK_EQ(mknodat(top, "upper/gone", S_IFCHR, 0), 0);
    CHECK_EQ(symlinkat("/etc/passwd", top, "upper/link"), 0);
    CHECK_EQ(mknodat(top, "upper/fifo", S_IFIFO, 0), 0);
    CHECK_EQ(fchmodat(top, "upper/fifo", 0622, 0), 0);
    CHECK_EQ(utimensat(top, "upper/d", times, 0), 0);
    CHECK_EQ(mkdirat(top, "to", 0755), 0);
    to = open_dir(top, "to");
    CHECK_EQ(layer_copy(&(struct layer_copy){top, FIRST, false, RUN_ON, NULL}, to, &size, NULL), 0);
    st = look(to, "d/su");
    CHECK_EQ(st.st_uid, LAYER_UID_FIRST + 7);
    CHECK_EQ(st.st_mode & 07777, 06755);
    CHECK_EQ(st.st_nlink, 2);
    CHECK_EQ(st.st_ino, look(to, "other").st_ino);
    CHECK_EQ(look(to, "strange").st_uid, LAYER_UID_FIRST + 65535);
    CHECK_EQ(look(to, "d").st_mtim.tv_sec, 2000);
    CHECK_EQ(look(to, ".").st_uid, LAYER_UID_FIRST);
    CHECK(S_ISLNK(look(to, "link").st_mode));
    CHECK_EQ(look(to, "fifo").st_mode, S_IFIFO | 0622);
    CHECK(is_whiteout(to, "gone"));
    CHECK_EQ(size.bytes, 2);
    place_remove(take_fd(&top));
}

TEST(layer_copy, leaves_out_what_we_put_into_sandboxes)
{
    static const char *const kept[] = {"etc/passwd", "etc/d/hosts", "hosts", "usr/etc/hosts"};
    static const char *const gone[] = {"etc/hosts", "etc/hostname", "etc/resolv.conf",
                                       "opt/opensandbox/.env", "opt/opensandbox/.env.claim"};
    static const char *const dirs[] = {
        "upper/etc", "upper/etc/d", "upper/opt", "upper/opt/opensandbox", "usr", "usr/etc"};
    auto_fd top = place_make(), to = -EBADF;
    struct layer_size size;

    make_dir(top, "upper");
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        make_dir(top, dirs[i]);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        char path[64];

        snprintf(path, sizeof(path), "%s%s", i == 3 ? "" : "upper/", kept[i]);
        put(top, path, "k", FIRST);
    }
    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        char path[64];

        snprintf(path, sizeof(path), "upper/%s", gone[i]);
        put(top, path, "g", FIRST);
    }
    CHECK_EQ(mkdirat(top, "to", 0755), 0);
    to = open_dir(top, "to");
    CHECK_EQ(layer_copy(&(struct layer_copy){top, FIRST, true, RUN_ON, NULL}, to, &size, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        CHECK(exists(to, kept[i]));
    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        CHECK(!exists(to, gone[i]));
    place_remove(take_fd(&top));
}

TEST(layer_copy, stops_when_its_caller_is_gone)
{
    auto_fd top = place_make(), to = -EBADF;
    struct layer_size size;
    struct err e = {0};
    int pair[2];

    make_dir(top, "upper");
    put(top, "upper/f", "x", FIRST);
    CHECK_EQ(mkdirat(top, "to", 0755), 0);
    to = open_dir(top, "to");
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fd_close(pair[1]);
    CHECK_EQ(layer_copy(
                 &(struct layer_copy){
                     top, FIRST, false, {pair[0], DEADLINE_NEVER},
                        NULL
    },
                 to, &size, &e),
             -ECANCELED);
    fd_close(pair[0]);
    place_remove(take_fd(&top));
}

TEST(layer_copy, stops_at_its_deadline)
{
    auto_fd top = place_make(), to = -EBADF;
    struct layer_size size;
    struct err e = {0};

    make_dir(top, "upper");
    put(top, "upper/f", "x", FIRST);
    CHECK_EQ(mkdirat(top, "to", 0755), 0);
    to = open_dir(top, "to");
    CHECK_EQ(layer_copy(
                 &(struct layer_copy){
                     top, FIRST, false, {-EBADF, deadline_in_ms(0)},
                        NULL
    },
                 to, &size, &e),
             -ETIMEDOUT);
    CHECK(!exists(to, "f"));
    place_remove(take_fd(&top));
}

enum { LARGE_BYTES = 100 * 1024 };

static void put_large(int dir, const char *path, char c)
{
    auto_fd fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    char *bytes = mem_alloc(LARGE_BYTES);

    memset(bytes, c, LARGE_BYTES);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes, LARGE_BYTES), LARGE_BYTES);
    CHECK_EQ(fchown(fd, FIRST, FIRST), 0);
    free(bytes);
}

/* Until files that were written before count as being at rest. */
static void let_rest(void)
{
    uint64_t end = deadline_in_ms(200);

    while (!deadline_passed(end))
        (void)usleep(5000);
}

static size_t copies_ahead(int to, const struct layer_ahead *ahead)
{
    auto_fd dir = open_dir(to, ahead->name);
    DIR *list = fdopendir(dir);
    size_t n = 0;

    CHECK(list);
    (void)take_fd(&dir);
    while (readdir(list))
        n++;
    closedir(list);
    return n - 2;
}

TEST(layer_copy, takes_what_it_copied_ahead_unless_it_changed)
{
    auto_fd top = place_make(), to = -EBADF, writer = -EBADF;
    struct layer_ahead ahead = {.dir = -EBADF};
    struct layer_copy copy = {top, FIRST, false, RUN_ON, &ahead};
    const struct timespec times[] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    struct layer_size size;
    struct stat kept;

    make_dir(top, "upper");
    make_dir(top, "upper/d");
    put_large(top, "upper/d/kept", 'k');
    CHECK_EQ(linkat(top, "upper/d/kept", top, "upper/other", 0), 0);
    put_large(top, "upper/changed", 'a');
    put_large(top, "upper/gone", 'g');
    put_large(top, "upper/open", 'o');
    put(top, "upper/small", "s", FIRST);
    CHECK_EQ(utimensat(top, "upper/changed", times, 0), 0);
    writer = openat(top, "upper/open", O_WRONLY | O_CLOEXEC);
    let_rest();
    CHECK_EQ(mkdirat(top, "to", 0755), 0);
    to = open_dir(top, "to");

    layer_ahead_start(&copy, to, &ahead);
    CHECK_EQ(copies_ahead(to, &ahead), 3); /* kept, changed, gone */
    put_large(top, "upper/changed", 'b');
    CHECK_EQ(utimensat(top, "upper/changed", times, 0), 0);
    CHECK_EQ(unlinkat(top, "upper/gone", 0), 0);
    CHECK_EQ(layer_copy(&copy, to, &size, NULL), 0);
    CHECK_EQ(copies_ahead(to, &ahead), 2);
    CHECK_EQ(layer_ahead_end(&ahead, to, NULL), 0);
    CHECK(!exists(to, ahead.name) && !exists(to, "gone"));

    kept = look(to, "d/kept");
    CHECK_EQ(kept.st_size, LARGE_BYTES);
    CHECK_EQ(kept.st_uid, LAYER_UID_FIRST);
    CHECK_EQ(kept.st_mode & 07777, 0640);
    CHECK_EQ(kept.st_nlink, 2);
    CHECK_EQ(kept.st_ino, look(to, "other").st_ino);
    CHECK_EQ(text_of(to, "d/kept"), 'k');
    CHECK_EQ(text_of(to, "changed"), 'b');
    CHECK_EQ(look(to, "changed").st_mtim.tv_sec, 2000);
    CHECK_EQ(text_of(to, "open"), 'o');
    CHECK_EQ(text_of(to, "small"), 's');
    CHECK_EQ(size.bytes, 3 * LARGE_BYTES + 1);
    place_remove(take_fd(&top));
}

/* A shared mapping outlives its descriptor, and stores into it move no time. */
TEST(layer_copy, copies_nothing_ahead_that_is_mapped_for_writing)
{
    auto_fd top = place_make(), to = -EBADF, fd = -EBADF;
    struct layer_ahead ahead = {.dir = -EBADF};
    struct layer_copy copy = {top, FIRST, false, RUN_ON, &ahead};
    struct layer_size size;
    char *map;

    make_dir(top, "upper");
    put_large(top, "upper/f", 'a');
    fd = openat(top, "upper/f", O_RDWR | O_CLOEXEC);
    map = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    map[0] = 'b';
    fd_close(take_fd(&fd));
    CHECK_EQ(mkdirat(top, "to", 0755), 0);
    to = open_dir(top, "to");
    let_rest();
    layer_ahead_start(&copy, to, &ahead);
    map[0] = 'c';
    CHECK_EQ(layer_copy(&copy, to, &size, NULL), 0);
    CHECK_EQ(layer_ahead_end(&ahead, to, NULL), 0);
    CHECK_EQ(text_of(to, "f"), 'c');
    CHECK_EQ(munmap(map, LARGE_BYTES), 0);
    place_remove(take_fd(&top));
}

/* Three layers: what is above hides what is below by name, by whiteout and by opaque marks. */
static void merge_and_check(bool link)
{
    auto_fd top = place_make(), to = -EBADF;
    int layers[3];
    struct layer_size size;

    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), '\0'};

        CHECK_EQ(mkdirat(top, name, 0755), 0);
        layers[i] = open_dir(top, name);
        CHECK_EQ(fchown(layers[i], LAYER_UID_FIRST, LAYER_UID_FIRST), 0);
        make_dir(layers[i], "d");
        put(layers[i], "d/common", name, LAYER_UID_FIRST);
        put(layers[i], i == 0 ? "d/0" : i == 1 ? "d/1" : "d/2", name, LAYER_UID_FIRST);
    }
    make_dir(layers[0], "cut"); /* made after b had deleted it */
    put(layers[0], "cut/new", "a", LAYER_UID_FIRST);
    CHECK_EQ(mknodat(layers[1], "cut", S_IFCHR, 0), 0);
    make_dir(layers[2], "cut");
    put(layers[2], "cut/old", "c", LAYER_UID_FIRST);
    make_dir(layers[0], "opaque");
    make_dir(layers[1], "opaque");
    put(layers[1], "opaque/b", "b", LAYER_UID_FIRST);
    {
        auto_fd dir = open_dir(layers[1], "opaque");

        CHECK_EQ(fsetxattr(dir, OPAQUE, "y", 1, 0), 0);
    }
    make_dir(layers[2], "opaque");
    put(layers[2], "opaque/c", "c", LAYER_UID_FIRST);
    CHECK_EQ(mknodat(layers[0], "gone", S_IFCHR, 0), 0);
    put(layers[1], "gone", "b", LAYER_UID_FIRST);
    put(layers[0], "was-dir", "a", LAYER_UID_FIRST);
    make_dir(layers[1], "was-dir");
    CHECK_EQ(mkdirat(top, "to", 0700), 0);
    to = open_dir(top, "to");
    CHECK_EQ(layer_merge(&(struct layer_merge){layers, 3, link, RUN_ON}, to, &size, NULL), 0);
    CHECK_EQ(text_of(to, "d/common"), 'a');
    CHECK_EQ(text_of(to, "d/1"), 'b');
    CHECK_EQ(text_of(to, "d/2"), 'c');
    CHECK(exists(to, "cut/new") && !exists(to, "cut/old") && is_opaque(to, "cut"));
    CHECK(exists(to, "opaque/b") && !exists(to, "opaque/c") && is_opaque(to, "opaque"));
    CHECK(is_whiteout(to, "gone"));
    CHECK(S_ISREG(look(to, "was-dir").st_mode));
    CHECK(!is_opaque(to, "d"));
    CHECK_EQ(look(to, ".").st_uid, LAYER_UID_FIRST);
    CHECK_EQ(look(to, "d/2").st_ino == look(layers[2], "d/2").st_ino, link);
    for (int i = 0; i < 3; i++)
        fd_close(layers[i]);
    place_remove(take_fd(&top));
}

TEST(layer_merge, copies)
{
    merge_and_check(false);
}

TEST(layer_merge, links)
{
    merge_and_check(true);
}
