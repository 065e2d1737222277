/* sdk_tasks.c - many calls at a time on a loop of the program. */
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "sdk_test.h"

enum { TASKS = 20 };

struct job {
    int number, result;
    char out[32];
};

static void echo(struct osb_client *c, void *user)
{
    struct job *j = user;
    struct osb_execution *done = NULL;
    char command[64];

    snprintf(command, sizeof(command), "sleep 0.2; echo %d", j->number);
    j->result = osb_command_run(box, &(struct osb_run){OSB_RUN, .command = command}, &done);
    if (j->result == 0)
        snprintf(j->out, sizeof(j->out), "%s", osb_execution_stdout(done));
    osb_execution_free(done);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

TEST(tasks, run_at_the_same_time_on_a_loop_of_the_program)
{
    struct osb_task *tasks[TASKS];
    struct job jobs[TASKS] = {0};
    double from;
    int left = TASKS;

    open_box();
    from = seconds();
    for (int i = 0; i < TASKS; i++) {
        jobs[i].number = i;
        GOOD(osb_task_start(client, echo, &jobs[i], &tasks[i]));
    }
    while (left > 0) {
        struct pollfd polled = {osb_client_fd(client), POLLIN, 0};

        CHECK(poll(&polled, 1, 30000) == 1);
        GOOD(osb_client_dispatch(client));
        left = 0;
        for (int i = 0; i < TASKS; i++)
            left += !osb_task_ended(tasks[i]);
    }
    CHECK(seconds() - from < 0.2 * TASKS);
    for (int i = 0; i < TASKS; i++) {
        char want[32];

        snprintf(want, sizeof(want), "%d\n", i);
        CHECK_EQ(jobs[i].result, 0);
        CHECK_STR(jobs[i].out, want);
        GOOD(osb_task_join(tasks[i]));
    }
    close_all();
}

static void sleeper(struct osb_client *c, void *user)
{
    *(int *)user = osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "sleep 60"}, NULL);
    /* Cleaning up still works. */
    if (osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "true"}, NULL) < 0)
        *(int *)user = 1;
}

TEST(tasks, are_canceled_one_by_one)
{
    struct osb_task *task;
    int result = 7;

    open_box();
    GOOD(osb_task_start(client, sleeper, &result, &task));
    GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "sleep 0.1"}, NULL));
    osb_task_cancel(task);
    GOOD(osb_task_join(task));
    CHECK_EQ(result, -ECANCELED);
    close_all();
}

TEST(tasks, end_with_their_client)
{
    int result = 7;
    struct osb_task *task;

    open_box();
    GOOD(osb_task_start(client, sleeper, &result, NULL));
    GOOD(osb_task_start(client, sleeper, &result, &task));
    GOOD(osb_sleep(client, 50));
    GOOD(osb_task_start(client, sleeper, &result, NULL)); /* never begins */
    GOOD(osb_sandbox_delete(client, osb_sandbox_id(box)));
    osb_client_close(client);
    osb_sandbox_free(box);
    CHECK(result < 0 || result == 1);
}

static void *interrupter(void *user)
{
    struct timespec moment = {0, 50 * 1000 * 1000};

    nanosleep(&moment, NULL);
    osb_client_interrupt(user);
    return NULL;
}

TEST(tasks, are_interrupted_from_another_thread)
{
    pthread_t thread;

    open_box();
    CHECK_EQ(pthread_create(&thread, NULL, interrupter, client), 0);
    CHECK_EQ(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "sleep 60"}, NULL),
             -ECANCELED);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "true"}, NULL));
    close_all();
}

TEST(tasks, wait_for_descriptors_of_the_program)
{
    int ends[2];

    open_client();
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(osb_wait_fd(client, ends[0], POLLIN, 20), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(osb_wait_fd(client, ends[0], POLLIN, 30000), 1);
    CHECK_EQ(osb_wait_fd(client, -1, POLLIN, 20), -EBADF);
    close(ends[0]);
    close(ends[1]);
    close_all();
}
