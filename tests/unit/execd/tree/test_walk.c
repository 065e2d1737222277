#include "execd/tree/walk.h"

#include <signal.h>
#include <sys/wait.h>

#include "folder.h"

/* Walks all of it, into directories too, as one line: "a a/x ^ b", where ^ is the way up. */
static void walk_all(const char *root, struct buf *out)
{
    struct walk_entry entry;
    struct err e = {0};
    struct walk w;
    int event;

    CHECK_EQ(walk_open(&w, root, &e), 0);
    while ((event = walk_next(&w, &entry, &e)) > WALK_END) {
        if (event == WALK_ENTRY)
            CHECK_EQ(buf_addf(out, "%s ", entry.path.p), 0);
        if (event == WALK_ENTRY && S_ISDIR(entry.st.st_mode))
            CHECK_EQ(walk_enter(&w, &entry, &e), 0);
        if (event == WALK_UP)
            CHECK_EQ(buf_addf(out, "^ "), 0);
    }
    CHECK_EQ(event, WALK_END);
    walk_done(&w);
}

TEST(walk, goes_in_order_of_names)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(out, 4096);

    CHECK_EQ(mkdir("r", 0755), 0);
    CHECK_EQ(mkdir("r/b", 0755), 0);
    CHECK_EQ(mkdir("r/b/empty", 0755), 0);
    file_write("r/b/2", "");
    file_write("r/c", "");
    file_write("r/a", "");
    CHECK_EQ(symlink("b", "r/z"), 0);
    walk_all("r", &out);
    CHECK_STR(out.p, "r/a r/b r/b/2 r/b/empty ^ ^ r/c r/z ");
}

TEST(walk, sorts_directories_that_take_many_reads)
{
    AUTO_FOLDER(folder);
    struct walk_entry entry;
    struct walk w;
    char name[64], last[64] = "";
    int event, count = 0;

    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "%08x-a-name-of-some-length", i * 2654435761U);
        file_write(name, "");
    }
    CHECK_EQ(walk_open(&w, ".", NULL), 0);
    while ((event = walk_next(&w, &entry, NULL)) > WALK_END) {
        if (event != WALK_ENTRY)
            continue;
        CHECK(strcmp(last, entry.name.p) < 0);
        CHECK_EQ(str_copy(last, sizeof(last), entry.name), 0);
        count++;
    }
    CHECK_EQ(count, 5000);
    walk_done(&w);
}

TEST(walk, enters_no_link_and_no_file)
{
    AUTO_FOLDER(folder);
    struct walk_entry entry = {.name = STR("d")};
    struct err e = {0};
    struct walk w = {0};

    walk_done(&w); /* zeroed is fine */
    CHECK_EQ(mkdir("r", 0755), 0);
    CHECK_EQ(symlink("/etc", "r/d"), 0);
    CHECK_EQ(symlink("r", "link"), 0);
    CHECK_EQ(walk_open(&w, "link", &e), -ENOTDIR);
    walk_done(&w);
    CHECK_EQ(walk_open(&w, "r", &e), 0);
    CHECK(walk_enter(&w, &entry, &e) < 0);
    CHECK_EQ(walk_next(&w, &entry, &e), WALK_MORE); /* and goes on */
    walk_done(&w);
}

/* The next event that tells something. */
static int walk_on(struct walk *w, struct walk_entry *ret)
{
    int event;

    do
        event = walk_next(w, ret, NULL);
    while (event == WALK_MORE);
    return event;
}

static void walk_into(struct walk *w, const char *path)
{
    struct walk_entry entry;

    CHECK_EQ(walk_on(w, &entry), WALK_ENTRY);
    CHECK_STR(entry.path.p, path);
    CHECK_EQ(walk_enter(w, &entry, NULL), 0);
}

TEST(walk, notices_a_directory_that_moved)
{
    AUTO_FOLDER(folder);
    struct walk_entry entry;
    struct walk w;

    CHECK_EQ(mkdir("r", 0755), 0);
    CHECK_EQ(mkdir("r/a", 0755), 0);
    CHECK_EQ(walk_open(&w, "r", NULL), 0);
    walk_into(&w, "r/a");
    CHECK_EQ(rename("r/a", "elsewhere"), 0);
    CHECK_EQ(walk_on(&w, &entry), -ESTALE);
    walk_done(&w);
}

TEST(walk, finds_back_from_a_directory_that_moved_when_lenient)
{
    static const char *const dirs[] = {"r", "r/a", "r/a/b", "r/a/b/c", "r/z"};
    AUTO_FOLDER(folder);
    struct walk_entry entry;
    struct walk w;

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        CHECK_EQ(mkdir(dirs[i], 0755), 0);
    file_write("r/a/b/d", "");
    file_write("r/a/e", "");
    CHECK_EQ(walk_open(&w, "r", NULL), 0);
    w.lenient = true;
    walk_into(&w, "r/a");
    walk_into(&w, "r/a/b");
    walk_into(&w, "r/a/b/c");
    CHECK_EQ(rename("r/a/b/c", "c"), 0);
    CHECK_EQ(rename("r/a/b", "b"), 0);
    CHECK_EQ(walk_on(&w, &entry), WALK_UP); /* to where d was */
    CHECK_EQ(walk_on(&w, &entry), WALK_UP);
    CHECK_EQ(walk_on(&w, &entry), WALK_ENTRY);
    CHECK_STR(entry.path.p, "r/a/e");
    CHECK_EQ(walk_on(&w, &entry), WALK_UP);
    walk_into(&w, "r/z");
    CHECK_EQ(rename("r", "moved"), 0);
    CHECK_EQ(rename("moved/z", "z"), 0);
    CHECK_EQ(walk_on(&w, &entry), -ENOENT); /* the root */
    walk_done(&w);
}

TEST(walk, finds_back_from_a_process_that_ended_when_lenient)
{
    pid_t child = fork();
    char name[16];
    struct walk_entry entry;
    struct walk w;

    CHECK(child >= 0);
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    (void)snprintf(name, sizeof(name), "%d", (int)child);
    CHECK_EQ(walk_open(&w, "/proc", NULL), 0);
    w.lenient = true;
    entry = (struct walk_entry){.name = str_of(name)};
    CHECK_EQ(walk_enter(&w, &entry, NULL), 0);
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(walk_on(&w, &entry), WALK_UP); /* from where ".." is nothing any more */
    CHECK_EQ(walk_on(&w, &entry), WALK_ENTRY);
    walk_done(&w);
}
