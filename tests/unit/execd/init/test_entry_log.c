#include "execd/init/entry_log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "test.h"

static int log_open(struct entry_log *log)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQ(entry_log_init(log, fd), 0);
    return fd;
}

/* The byte at a place of the stream: its period shares no factor with the ring's size. */
static char byte_at(uint64_t place)
{
    return (char)('a' + place % 23);
}

static void log_fill(struct entry_log *log, uint64_t bytes, size_t piece_max)
{
    auto_free char *piece = mem_alloc(piece_max);
    uint64_t end = log->written + bytes;

    while (log->written < end) {
        size_t n = min_size(piece_max, end - log->written);

        for (size_t i = 0; i < n; i++)
            piece[i] = byte_at(log->written + i);
        CHECK_EQ(entry_log_add(log, str_make(piece, n)), 0);
    }
}

static void check_tail(const struct buf *tail, uint64_t end)
{
    for (size_t i = 0; i < tail->n; i++)
        if (tail->p[i] != byte_at(end - tail->n + i))
            test_fail(__FILE__, __LINE__, "byte %zu of %zu is wrong", i, tail->n);
}

TEST(entry_log, is_empty_at_first)
{
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 100);
    uint64_t written = 1;

    CHECK_EQ(entry_log_read(fd, 100, &out, &written), 0);
    CHECK_EQ(out.n, 0);
    CHECK_EQ(written, 0);
}

TEST(entry_log, gives_back_what_was_added_or_its_end)
{
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 100);

    CHECK_EQ(entry_log_add(&log, STR("hello ")), 0);
    CHECK_EQ(entry_log_add(&log, STR("world")), 0);
    CHECK_EQ(entry_log_read(fd, 100, &out, NULL), 0);
    CHECK_STR(out.p, "hello world");
    buf_clear(&out);
    CHECK_EQ(entry_log_read(fd, 3, &out, NULL), 0);
    CHECK_STR(out.p, "rld");
}

TEST(entry_log, keeps_the_end_of_a_flood_in_a_file_of_bounded_size)
{
    static const size_t pieces[] = {1000, ENTRY_LOG_CHUNK_MAX, 3 * ENTRY_LOG_BYTES + 1};

    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct entry_log log;
        auto_fd fd = log_open(&log);
        AUTO_BUF(out, 2 * ENTRY_LOG_BYTES);
        uint64_t written;
        struct stat st;

        log_fill(&log, 5 * (uint64_t)ENTRY_LOG_BYTES + 4321, pieces[i]);
        CHECK_EQ(entry_log_read(fd, 2 * ENTRY_LOG_BYTES, &out, &written), 0);
        CHECK_EQ(written, 5 * (uint64_t)ENTRY_LOG_BYTES + 4321);
        CHECK_EQ(out.n, ENTRY_LOG_READ_MAX);
        check_tail(&out, written);
        CHECK_EQ(fstat(fd, &st), 0);
        CHECK(st.st_size <=
              (off_t)(ENTRY_LOG_MARKS_OFFSET + ENTRY_LOG_MARKS * sizeof(struct entry_log_mark)));
    }
}

TEST(entry_log, tells_that_lines_are_gone)
{
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 2 * ENTRY_LOG_BYTES);
    bool cut = true;

    log_fill(&log, ENTRY_LOG_READ_MAX, 1000);
    CHECK_EQ(entry_log_read_lines(fd, 0, UINT32_MAX, &out, &cut), 0);
    CHECK(!cut);
    log_fill(&log, ENTRY_LOG_BYTES, 1000);
    buf_clear(&out);
    CHECK_EQ(entry_log_read_lines(fd, 0, UINT32_MAX, &out, &cut), 0);
    CHECK(cut);
}

TEST(entry_log, starts_anew_in_a_file_that_held_one)
{
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 100);

    log_fill(&log, 100000, 1000);
    CHECK_EQ(entry_log_init(&log, fd), 0);
    CHECK_EQ(entry_log_add(&log, STR("new")), 0);
    CHECK_EQ(entry_log_read(fd, 100, &out, NULL), 0);
    CHECK_STR(out.p, "new");
}

/* A writer in another process, never resting, and a reader that must see no torn byte. */
TEST(entry_log, is_read_whole_while_it_is_written)
{
    struct entry_log log;
    auto_fd fd = log_open(&log);
    pid_t writer = fork();
    int good = 0;

    CHECK(writer >= 0);
    if (writer == 0)
        for (;;)
            log_fill(&log, 1 << 20, 50000);
    for (int i = 0; i < 300; i++) {
        AUTO_BUF(out, ENTRY_LOG_BYTES);
        uint64_t written;
        int r = entry_log_read(fd, i % 2 ? ENTRY_LOG_BYTES : 1000, &out, &written);

        if (r == -EAGAIN)
            continue; /* it was overtaken each time, and says so */
        CHECK_EQ(r, 0);
        check_tail(&out, written);
        good++;
    }
    CHECK_EQ(kill(writer, SIGKILL), 0);
    CHECK_EQ(waitpid(writer, NULL, 0), writer);
    CHECK(good > 100);
}

TEST(entry_log, reports_a_full_disk_and_recovers)
{
    struct rlimit limit = {ENTRY_LOG_DATA_OFFSET + 10, RLIM_INFINITY};
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 100);

    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(entry_log_add(&log, STR("before ")), 0);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(entry_log_add(&log, STR("too much of it")), -EFBIG);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(entry_log_add(&log, STR("after")), 0);
    CHECK_EQ(entry_log_read(fd, 100, &out, NULL), 0);
    CHECK_STR(out.p, "before after");
}

TEST(entry_log, without_a_file_takes_everything_and_keeps_nothing)
{
    struct entry_log log;

    CHECK_EQ(entry_log_init(&log, -EBADF), 0);
    CHECK_EQ(entry_log_add(&log, STR("gone")), 0);
}

TEST(entry_log, tells_when_lines_were_printed)
{
    const struct timespec pause = {.tv_nsec = 2 * ENTRY_LOG_MARK_MS * 1000000L};
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 1000);
    int64_t before = time_wall_us(), between, at;
    bool cut = true;

    CHECK_EQ(entry_log_add(&log, STR("one\ntw")), 0);
    (void)nanosleep(&pause, NULL);
    between = time_wall_us();
    (void)nanosleep(&pause, NULL);
    CHECK_EQ(entry_log_add(&log, STR("o\nthree\nfour")), 0);
    CHECK_EQ(entry_log_read_lines(fd, 0, 100, &out, &cut), 0);
    CHECK(!cut);
    CHECK_EQ(time_parse(str_make(out.p, str_find(buf_str(&out), ' ')), &at, NULL), 0);
    CHECK(at >= before && at < between);
    CHECK(strstr(out.p, "Z one\n") && strstr(out.p, "Z two\n") && strstr(out.p, "Z four"));

    buf_clear(&out); /* "two" was begun before */
    CHECK_EQ(entry_log_read_lines(fd, between, 100, &out, &cut), 0);
    CHECK(!cut && !strstr(out.p, "two") && strstr(out.p, "Z three\n") && strstr(out.p, "Z four"));
    CHECK_EQ(time_parse(str_make(out.p, str_find(buf_str(&out), ' ')), &at, NULL), 0);
    CHECK(at >= between);

    buf_clear(&out);
    CHECK_EQ(entry_log_read_lines(fd, between, 1, &out, &cut), 0);
    CHECK(cut && !strstr(out.p, "three") && strstr(out.p, "Z four"));
    buf_clear(&out);
    CHECK_EQ(entry_log_read_lines(fd, time_wall_us(), 100, &out, &cut), 0);
    CHECK_EQ(out.n, 0);
}

TEST(entry_log, forgets_times_that_are_too_many)
{
    struct entry_log log;
    auto_fd fd = log_open(&log);
    AUTO_BUF(out, 8 << 20);
    bool cut;

    for (int i = 0; i < ENTRY_LOG_MARKS + 10; i++) {
        log.marked_ms = 0; /* as if time had passed */
        CHECK_EQ(entry_log_add(&log, STR("x\n")), 0);
    }
    CHECK_EQ(entry_log_read_lines(fd, 0, UINT32_MAX, &out, &cut), 0);
    CHECK(!cut && str_starts(buf_str(&out), STR("- x\n")));
    CHECK(strstr(out.p, "- x\n2") || strstr(out.p, "- x\n1")); /* the rest have a year */
    buf_clear(&out);
    CHECK_EQ(entry_log_read_lines(fd, 0, ENTRY_LOG_MARKS, &out, &cut), 0);
    CHECK(cut && !strstr(out.p, "- x"));
}
