#include "broker/jobs.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

enum { DEADLINE_MS = 60000 };

/* Of the broker, for jobs that freeze a sandbox: none here does. */
int life_find(const struct broker *b UNUSED, const char *id UNUSED, struct slot_record *ret UNUSED,
              int *ret_dir UNUSED, struct err *e UNUSED)
{
    CHECK(false);
    return -ENOENT;
}

void pause_heal(const struct broker *b UNUSED, const struct slot_record *record UNUSED,
                int dir UNUSED)
{
    CHECK(false);
}

static int run_until_closed(void *user UNUSED, int client)
{
    char byte;

    return recv(client, &byte, 1, 0) != 0;
}

static int start(struct broker *b, bool counts, struct err *e)
{
    return job_start(
        b, &(struct job){.name = "test job", .counts = counts, .run = run_until_closed}, e);
}

/* Waits until `left` jobs are left. */
static void tend_until(struct broker *b, size_t left)
{
    while (b->jobs.count > left) {
        struct pollfd p = {.fd = b->jobs.ended, .events = POLLIN};

        CHECK_EQ(poll(&p, 1, DEADLINE_MS), 1);
        jobs_tend(b);
    }
    CHECK_EQ(b->jobs.count, left);
}

TEST(jobs, counts_a_job_when_two_descriptors_are_left)
{
    static struct broker b;
    struct rlimit limit;
    struct err e = {0};
    int first, second, sock;

    CHECK(jobs_open(&b, -EBADF, &e) >= 0);
    first = dup(STDIN_FILENO);
    second = dup(STDIN_FILENO);
    CHECK(first >= 0 && second > first);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)second + 1;
    fd_close(first);
    fd_close(second);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

    sock = start(&b, false, &e);
    CHECK(sock >= 0);
    CHECK_EQ(b.jobs.count, 1);
    CHECK_EQ(start(&b, false, &e), -EMFILE);
    CHECK_EQ(b.jobs.count, 1);
    fd_close(sock);
    tend_until(&b, 0);
}

TEST(jobs, gives_counts_places_of_their_own)
{
    static struct broker b;
    int socks[JOBS_MAX + JOBS_COUNTS_MAX];
    struct err e = {0};

    CHECK(jobs_open(&b, -EBADF, &e) >= 0);
    for (size_t i = 0; i < ARRAY_LEN(socks); i++) {
        socks[i] = start(&b, i >= JOBS_MAX, &e);
        CHECK(socks[i] >= 0);
    }
    CHECK_EQ(start(&b, true, &e), -EBUSY);
    CHECK(strstr(e.msg, "4 volumes are being counted"));
    CHECK_EQ(start(&b, false, &e), -EBUSY);
    CHECK(strstr(e.msg, "16 layers and volumes"));

    fd_close(socks[0]);
    tend_until(&b, ARRAY_LEN(socks) - 1);
    CHECK_EQ(start(&b, true, &e), -EBUSY); /* that place was not a count's */
    socks[0] = start(&b, false, &e);
    CHECK(socks[0] >= 0);
    for (size_t i = 0; i < ARRAY_LEN(socks); i++)
        fd_close(socks[i]);
    tend_until(&b, 0);
}
