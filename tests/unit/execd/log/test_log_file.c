#include "execd/log/log_file.h"

#include <time.h>

#include "folder.h"

static void say(struct log_file *f, const char *text)
{
    log_file_write(f, LOG_INFO, text, str_of(text));
}

TEST(log_file, begins_anew_and_keeps_some)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct err e = {0};
    struct stat st;

    CHECK_EQ(setenv("EXECD_LOG_FILE", "log", 1), 0);
    CHECK_EQ(log_file_open(&f, 2, &e), 0);
    CHECK(log_file_is_kept_small(&f));
    for (int round = 0; round < LOG_FILES_KEPT + 3; round++) {
        int fd = f.sinks[0].fd;

        CHECK_EQ(ftruncate(fd, 100 << 20), 0);
        say(&f, "x");
        log_file_check(&f);
        CHECK_EQ(f.sinks[0].fd, fd);
        say(&f, "new");
        CHECK_STR(file_read("log"), "new");
        log_file_check(&f);
    }
    CHECK_EQ(stat("log.1", &st), 0);
    CHECK_EQ(stat("log.10", &st), 0);
    CHECK_EQ(stat("log.11", &st), -1);
    log_file_close(&f);
}

TEST(log_file, drops_what_is_old)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct timespec old[2] = {{.tv_sec = time(NULL) - 31 * 86400},
                              {.tv_sec = time(NULL) - 31 * 86400}};

    CHECK_EQ(setenv("EXECD_LOG_FILE", "log", 1), 0);
    file_write("log.1", "young");
    file_write("log.2", "old");
    CHECK_EQ(utimensat(AT_FDCWD, "log.2", old, 0), 0);
    CHECK_EQ(log_file_open(&f, 2, NULL), 0);
    CHECK_EQ(access("log.1", F_OK), 0);
    CHECK_EQ(access("log.2", F_OK), -1);
    log_file_close(&f);
}

TEST(log_file, writes_wherever_a_list_says)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct err e = {0};

    CHECK_EQ(log_file_open(&f, 7, &e), 0);
    CHECK(f.sink_count == 1 && f.sinks[0].fd == 7 && !log_file_is_kept_small(&f));
    CHECK_EQ(setenv("OPENSANDBOX_LOG_OUTPUT", "stdout, here,,stderr,there ", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), 0);
    CHECK_EQ(f.sink_count, 4);
    CHECK(f.sinks[0].fd == 1 && f.sinks[2].fd == 2);
    f.sinks[0].fd = f.sinks[2].fd = -EBADF; /* where the test reports */
    say(&f, "line\n");
    CHECK_STR(file_read("here"), "line\n");
    CHECK_STR(file_read("there"), "line\n");
    log_file_close(&f);
    CHECK_EQ(setenv("OPENSANDBOX_LOG_OUTPUT", "here,no/such/dir/f", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), -ENOENT);
    CHECK_EQ(setenv("OPENSANDBOX_LOG_OUTPUT", "1,2,3,4,5,6,7,8,9", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), -E2BIG);
}

TEST(log_file, waits_for_no_pipe)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct err e = {0};
    char text[64];
    int fds[2];

    CHECK_EQ(mkfifo("pipe", 0600), 0);
    CHECK_EQ(setenv("EXECD_LOG_FILE", "pipe", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), -ENXIO);
    CHECK_EQ(unsetenv("EXECD_LOG_FILE"), 0);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(log_file_open(&f, fds[1], &e), 0);
    for (int i = 0; i < 70000; i++) {
        (void)snprintf(text, sizeof(text), "line %d", i);
        say(&f, text);
    }
}

TEST(log_file, leaves_out_some_of_what_repeats)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct stat st;

    CHECK_EQ(setenv("EXECD_LOG_FILE", "log", 1), 0);
    CHECK_EQ(log_file_open(&f, 2, NULL), 0);
    for (int i = 0; i < 2000; i++)
        say(&f, "x");
    CHECK_EQ(stat("log", &st), 0);
    CHECK(st.st_size >= 100 && st.st_size < 500); /* a second or two */
    log_file_close(&f);
}
