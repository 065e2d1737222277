#include "base/io.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

enum { PAGE = 4096, PAGES = 64 };

/* A file of PAGES pages, each filled with its number. */
static int make_file(void)
{
    int fd = memfd_create("test_io_map", MFD_CLOEXEC);
    char page[PAGE];

    CHECK(fd >= 0);
    for (int i = 0; i < PAGES; i++) {
        memset(page, i, sizeof(page));
        CHECK_EQ(write(fd, page, sizeof(page)), PAGE);
    }
    return fd;
}

TEST(io_map, copies_out_of_a_file)
{
    auto_fd fd = make_file();
    struct io_map map;
    char got[2];

    CHECK_EQ(io_map_open(fd, PAGE * PAGES, &map), 0);
    CHECK_EQ(map.n, PAGE * PAGES);
    CHECK_EQ(io_map_copy(&map, PAGE - 1, got, 2), 0);
    CHECK(got[0] == 0 && got[1] == 1);
    CHECK_EQ(io_map_copy(&map, map.n, got, 0), 0);
    CHECK_EQ(io_map_copy(&map, map.n, got, 1), -ERANGE);
    CHECK_EQ(io_map_copy(&map, map.n - 1, got, 2), -ERANGE);
    CHECK_EQ(io_map_copy(&map, SIZE_MAX, got, 2), -ERANGE);
    io_map_close(&map);
    CHECK(!map.p && map.n == 0);
    io_map_close(&map);
    io_map_close(NULL);
}

TEST(io_map, opens_empty_files_and_refuses_what_is_too_long_or_no_file)
{
    auto_fd fd = make_file();
    auto_fd empty = memfd_create("empty", MFD_CLOEXEC);
    struct io_map map = {"x", 99};
    int p[2];

    CHECK_EQ(io_map_open(fd, PAGE * PAGES - 1, &map), -EFBIG);
    CHECK_EQ(pipe(p), 0);
    CHECK_EQ(io_map_open(p[0], 100, &map), -EINVAL);
    CHECK_EQ(io_map_open(-1, 100, &map), -EBADF);
    CHECK_EQ(map.n, 99);
    CHECK_EQ(io_map_open(empty, 0, &map), 0);
    CHECK_EQ(map.n, 0);
    CHECK_EQ(io_map_copy(&map, 0, p, 0), 0);
    CHECK_EQ(io_map_copy(&map, 0, p, 1), -ERANGE);
}

TEST(io_map, answers_eio_when_the_file_shrank)
{
    static char all[PAGE * PAGES];
    auto_fd fd = make_file();
    struct io_map map;

    CHECK_EQ(io_map_open(fd, PAGE * PAGES, &map), 0);
    CHECK_EQ(ftruncate(fd, PAGE), 0);
    for (int again = 0; again < 3; again++) {
        CHECK_EQ(io_map_copy(&map, PAGE, all, 1), -EIO);
        CHECK_EQ(io_map_copy(&map, 0, all, sizeof(all)), -EIO);
        CHECK_EQ(io_map_copy(&map, 0, all, PAGE), 0); /* what is left is still readable */
    }
    io_map_close(&map);
}

/* Shrinks and grows the file under four threads that copy. */
static atomic_bool stop_copying;
static atomic_int bad_answers, lost, copied;

static void *copy_until_told(void *arg)
{
    const struct io_map *map = arg;
    char page[PAGE];

    while (!atomic_load(&stop_copying)) {
        int r = io_map_copy(map, PAGE * (PAGES - 1), page, PAGE);

        if (r == 0)
            atomic_fetch_add(&copied, 1);
        else if (r == -EIO)
            atomic_fetch_add(&lost, 1);
        else
            atomic_fetch_add(&bad_answers, 1);
    }
    return NULL;
}

TEST(io_map, survives_in_many_threads_at_once)
{
    auto_fd fd = make_file();
    pthread_t threads[4];
    struct io_map map;

    CHECK_EQ(io_map_open(fd, PAGE * PAGES, &map), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, copy_until_told, &map), 0);
    for (int i = 0; i < 200 || !lost || !copied; i++) {
        CHECK_EQ(ftruncate(fd, PAGE), 0);
        usleep(200);
        CHECK_EQ(ftruncate(fd, PAGE * PAGES), 0);
        usleep(200);
    }
    atomic_store(&stop_copying, true);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(bad_answers, 0);
    io_map_close(&map);
}

/* Maps a page of a shrunken file by hand and touches it: a fault that is not io_map's. */
static void touch_lost_page(void)
{
    int fd = make_file();
    volatile char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

    CHECK(p != MAP_FAILED);
    CHECK_EQ(ftruncate(fd, 0), 0);
    (void)p[0];
}

static void open_some_map(void)
{
    auto_fd fd = make_file();
    struct io_map map;
    char c;

    CHECK_EQ(io_map_open(fd, PAGE * PAGES, &map), 0);
    CHECK_EQ(io_map_copy(&map, 0, &c, 1), 0);
}

static int wait_status(pid_t pid)
{
    int status = 0;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(io_map, lets_a_foreign_fault_kill_as_ever)
{
    int status;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL); /* a sanitizer may have its own */
        open_some_map();
        touch_lost_page();
        _exit(0);
    }
    status = wait_status(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    pid = fork();
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        open_some_map();
        raise(SIGBUS);
        _exit(0);
    }
    status = wait_status(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void exit_with_42(int sig)
{
    _exit(42);
}

static void exit_with_43(int sig, siginfo_t *info, void *context)
{
    _exit(info && context ? 43 : 1);
}

TEST(io_map, hands_a_foreign_fault_to_the_handler_that_was_there)
{
    struct sigaction simple = {.sa_handler = exit_with_42};
    struct sigaction detailed = {.sa_sigaction = exit_with_43, .sa_flags = SA_SIGINFO};

    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        int status;

        CHECK(pid >= 0);
        if (pid == 0) {
            sigaction(SIGBUS, i ? &detailed : &simple, NULL);
            open_some_map();
            touch_lost_page();
            _exit(0);
        }
        status = wait_status(pid);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 42 + i);
    }
}
