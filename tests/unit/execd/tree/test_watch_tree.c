#include "execd/tree/watch_tree.h"

#include "folder.h"

/* What was told since last time, a word and the path below the folder per event. */
struct noted {
    struct watch_tree tree;
    struct folder *folder;
    struct buf text;
};

static struct str below(const struct noted *n, struct str path)
{
    return str_skip(path, min_size(path.n, strlen(n->folder->path) + 1));
}

static void note(void *ctx, const struct watch_event *ev)
{
    static const char *const words[] = {"new", "mod", "del", "mov", "over", "gone"};
    struct noted *n = ctx;
    struct str path = below(n, ev->path), from = below(n, ev->from);

    CHECK_EQ(buf_addf(&n->text, "%s%s %.*s%s%.*s;", words[ev->kind], ev->directory ? "/" : "",
                      STR_ARG(path), from.n ? "<" : "", STR_ARG(from)),
             0);
}

static const char *told(struct noted *n)
{
    struct err e = {0};
    int r;

    buf_clear(&n->text);
    while ((r = watch_tree_step(&n->tree, &e)) > 0)
        ;
    CHECK_EQ(r, 0);
    return n->text.p;
}

static void begin(struct noted *n, struct folder *f, bool recursive)
{
    struct err e = {0};

    *n = (struct noted){.folder = f};
    buf_init(&n->text, 4 << 20);
    CHECK_EQ(watch_tree_open(&n->tree, f->path, recursive, note, n, &e), 0);
    CHECK_STR(told(n), "");
}

static void end(struct noted *n)
{
    watch_tree_done(&n->tree);
    buf_done(&n->text);
}

TEST(watch_tree, reports_each_kind_of_change)
{
    AUTO_FOLDER(folder);
    struct noted n;

    file_write("old", "1");
    begin(&n, &folder, false);
    file_write("f", "");
    CHECK_STR(told(&n), "new f;");
    file_write("f", "1");
    CHECK_STR(told(&n), "mod f;");
    CHECK_EQ(chmod("old", 0600), 0);
    CHECK_STR(told(&n), "mod old;");
    CHECK_EQ(rename("f", "g"), 0);
    CHECK_STR(told(&n), "mov g<f;");
    CHECK_EQ(unlink("g"), 0);
    CHECK_STR(told(&n), "del g;");
    CHECK_EQ(mkdir("d", 0755), 0);
    file_write("d/unseen", "");
    CHECK_STR(told(&n), "new/ d;");
    end(&n);
}

TEST(watch_tree, follows_new_directories_and_tells_each_file_once)
{
    AUTO_FOLDER(folder);
    struct noted n;

    begin(&n, &folder, true);
    CHECK_EQ(mkdir("a", 0755), 0);
    CHECK_EQ(mkdir("a/b", 0755), 0);
    file_write("a/b/early", "");
    CHECK_STR(told(&n), "new/ a;new/ a/b;new a/b/early;");
    file_write("a/b/late", "");
    CHECK_STR(told(&n), "new a/b/late;");
    end(&n);
}

/* Watches a, with a file f, and b, which is empty, when their scans are done and the queue of the
 * kernel was not yet found empty. The two have neighbouring watch descriptors. */
static void begin_between_scans_and_events(struct noted *n, struct folder *f)
{
    struct err e = {0};

    begin(n, f, true);
    CHECK_EQ(mkdir("a", 0755), 0);
    CHECK_EQ(mkdir("b", 0755), 0);
    file_write("a/f", "");
    CHECK_EQ(watch_tree_step(&n->tree, &e), 1); /* the two directories */
    while (n->tree.scans)
        CHECK_EQ(watch_tree_step(&n->tree, &e), 1);
    CHECK_STR(n->text.p, "new/ a;new/ b;new a/f;");
}

TEST(watch_tree, tells_files_of_neighbours_apart)
{
    AUTO_FOLDER(folder);
    struct noted n;
    char name[] = "b/?";

    begin_between_scans_and_events(&n, &folder);
    for (name[2] = 'a'; name[2] <= 'z'; name[2]++)
        file_write(name, "");
    CHECK_STR(told(&n), "new b/a;new b/b;new b/c;new b/d;new b/e;new b/f;new b/g;new b/h;new b/i;"
                        "new b/j;new b/k;new b/l;new b/m;new b/n;new b/o;new b/p;new b/q;new b/r;"
                        "new b/s;new b/t;new b/u;new b/v;new b/w;new b/x;new b/y;new b/z;");
    for (char c = 'e'; c <= 'g'; c++) {
        name[2] = c;
        CHECK_EQ(chmod("a/f", 0600), 0);
        CHECK_EQ(chmod(name, 0600), 0);
    }
    CHECK_STR(told(&n), "mod a/f;mod b/e;mod a/f;mod b/f;mod a/f;mod b/g;");
    end(&n);
}

TEST(watch_tree, tells_a_file_again_that_is_made_again)
{
    AUTO_FOLDER(folder);
    struct noted n;

    begin_between_scans_and_events(&n, &folder);
    CHECK_EQ(unlink("a/f"), 0);
    file_write("a/f", "");
    CHECK_EQ(rename("a/f", "b/f"), 0);
    file_write("a/f", "");
    CHECK_STR(told(&n), "del a/f;new a/f;mov b/f<a/f;new a/f;");
    end(&n);
}

TEST(watch_tree, goes_along_when_directories_move)
{
    AUTO_FOLDER(folder);
    struct noted n;

    CHECK_EQ(mkdir("a", 0755), 0);
    CHECK_EQ(mkdir("a/b", 0755), 0);
    CHECK_EQ(mkdir("c", 0755), 0);
    begin(&n, &folder, true);
    CHECK_EQ(rename("a", "c/d"), 0);
    CHECK_STR(told(&n), "mov/ c/d<a;");
    file_write("c/d/b/f", "");
    CHECK_STR(told(&n), "new c/d/b/f;");
    end(&n);
}

TEST(watch_tree, catches_up_with_a_directory_moved_before_it_was_seen)
{
    AUTO_FOLDER(folder);
    struct noted n;

    begin(&n, &folder, true);
    CHECK_EQ(mkdir("a", 0755), 0);
    CHECK_EQ(rename("a", "b"), 0);
    file_write("b/f", "");
    CHECK_STR(told(&n), "new/ a;mov/ b<a;new b/f;");
    file_write("b/g", "");
    CHECK_STR(told(&n), "new b/g;");
    end(&n);
}

TEST(watch_tree, forgets_what_leaves_the_tree)
{
    AUTO_FOLDER(folder);
    struct noted n;
    char away[] = "/tmp/test-watch-XXXXXX", to[64];

    CHECK(mkdtemp(away));
    (void)snprintf(to, sizeof(to), "%s/d", away);
    CHECK_EQ(mkdir("d", 0755), 0);
    begin(&n, &folder, true);
    CHECK_EQ(rename("d", to), 0);
    CHECK_STR(told(&n), "");
    CHECK(watch_tree_waits(&n.tree));
    watch_tree_flush(&n.tree);
    CHECK_STR(n.text.p, "del/ d;");
    CHECK_EQ(n.tree.count, 1);
    CHECK_EQ(tree_remove(AT_FDCWD, away, NULL), 0);
    CHECK_STR(told(&n), "");
    end(&n);
}

TEST(watch_tree, ends_with_its_directory)
{
    AUTO_FOLDER(folder);
    struct noted n;

    begin(&n, &folder, true);
    CHECK_EQ(chdir("/"), 0); /* a working directory would stay alive */
    CHECK_EQ(rmdir(folder.path), 0);
    CHECK(strstr(told(&n), "gone/"));
    CHECK(n.tree.gone);
    CHECK_STR(told(&n), "");
    end(&n);
    CHECK_EQ(mkdir(folder.path, 0755), 0);
}

enum { EVENTS_MAX = 200000 };

/* More events than the kernel queues for a process that does not read. */
static void lose_events(void)
{
    long kept = strtol(file_read("/proc/sys/fs/inotify/max_queued_events"), NULL, 10);

    if (kept > EVENTS_MAX)
        test_skip("the kernel keeps too many events for us to lose some");
    for (long i = 0; i < kept / 2 + 1000; i++) { /* two for each */
        file_write("f", "");
        CHECK_EQ(unlink("f"), 0);
    }
}

TEST(watch_tree, does_not_go_in_circles_after_it_missed_a_move)
{
    AUTO_FOLDER(folder);
    struct noted n;

    CHECK_EQ(mkdir("a", 0755), 0);
    CHECK_EQ(mkdir("a/b", 0755), 0);
    begin(&n, &folder, true);
    lose_events();
    CHECK_EQ(rename("a/b", "b"), 0);
    CHECK(strstr(told(&n), "over"));
    CHECK_EQ(rename("a", "b/a"), 0);
    CHECK(strstr(told(&n), "over"));
    CHECK_EQ(mkdir("c", 0755), 0);
    CHECK_STR(told(&n), "new/ c;");
    CHECK_EQ(rmdir("c"), 0);
    CHECK_STR(told(&n), "del/ c;");
    file_write("b/a/f", "");
    CHECK_STR(told(&n), "new b/a/f;");
    end(&n);
}
