/* Forks in C: three ways on from one sandbox, the best one is kept, a snapshot brings it back. */
#include <time.h>

#include "example.h"

enum { FORKS = 3, TRIES_MAX = 600 };

#define SCORE "(cat /root/f.py; echo 'print(sum(f(x) == x * x for x in range(5)))') | python3 -"

/* What a command prints, as a number; -1 when it fails. */
static long run(struct osb_client *client, struct osb_sandbox *box, const char *command)
{
    struct osb_execution *done;
    long number;

    example_need(client,
                 osb_command_run(box, &(struct osb_run){OSB_RUN, .command = command}, &done));
    number = osb_execution_exit_code(done) == 0 ? strtol(osb_execution_stdout(done), NULL, 10) : -1;
    osb_execution_free(done);
    return number;
}

static void wait_for_snapshot(struct osb_client *client, const char *id)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

    for (int i = 0; i < TRIES_MAX; i++) {
        struct osb_answer *answer;
        const char *state;
        bool ready;

        example_need(client, osb_snapshot_get(client, id, &answer));
        state = osb_answer_text(answer, "status.state");
        ready = state && strcmp(state, "Ready") == 0;
        osb_answer_free(answer);
        if (ready)
            return;
        nanosleep(&pause, NULL);
    }
    errx(1, "the snapshot is not ready after a minute");
}

/* Tries a proposal in each fork; returns the best. The others are deleted. */
static struct osb_sandbox *search(struct osb_client *client, struct osb_sandbox *node)
{
    static const char *const proposals[FORKS] = {"x * 2", "x ** 2", "x + 2"};
    struct osb_sandbox *forks[FORKS];
    struct osb_answer *answer;
    long scores[FORKS];
    int best = 0;

    example_need(client, osb_sandbox_fork(client, osb_sandbox_id(node),
                                          &(struct osb_fork){OSB_FORK, .count = FORKS}, &answer));
    printf("forks:");
    for (int i = 0; i < FORKS; i++) {
        const struct osb_info *info = osb_info_at(answer, (size_t)i);
        char command[128];

        if (!info)
            errx(1, "the server made fewer forks than it was asked for");
        example_need(client, osb_sandbox_connect(client, osb_info_id(info), &forks[i]));
        snprintf(command, sizeof(command), "echo 'f = lambda x: %s' > /root/f.py", proposals[i]);
        run(client, forks[i], command);
        scores[i] = run(client, forks[i], SCORE);
        best = scores[i] > scores[best] ? i : best;
        printf(" %ld", scores[i]);
    }
    printf(", took %d\n", best);
    osb_answer_free(answer);
    for (int i = 0; i < FORKS; i++)
        if (i != best) {
            osb_sandbox_delete(client, osb_sandbox_id(forks[i]));
            osb_sandbox_free(forks[i]);
        }
    return forks[best];
}

int main(void)
{
    struct osb_client *client = example_open();
    struct osb_sandbox *node, *best;
    struct osb_answer *snapshot;

    example_need(
        client,
        osb_sandbox_create(
            client, &(struct osb_create){OSB_CREATE, .image = example_env("SANDBOX_IMAGE", "host")},
            &node));
    run(client, node, "echo 'f = lambda x: 0' > /root/f.py");
    printf("start: %ld of 5 cases\n", run(client, node, SCORE));
    best = search(client, node);
    osb_sandbox_delete(client, osb_sandbox_id(node));
    osb_sandbox_free(node);
    example_need(client, osb_snapshot_create(client, osb_sandbox_id(best), "best", &snapshot));
    wait_for_snapshot(client, osb_answer_text(snapshot, "id"));
    run(client, best, "rm /root/f.py");
    example_need(client, osb_sandbox_rollback(client, osb_sandbox_id(best),
                                              osb_answer_text(snapshot, "id")));
    example_need(client, osb_sandbox_wait_ready(best, 0, 0));
    printf("after rollback: %ld of 5 cases\n", run(client, best, SCORE));
    osb_snapshot_delete(client, osb_answer_text(snapshot, "id"));
    osb_answer_free(snapshot);
    osb_sandbox_delete(client, osb_sandbox_id(best));
    osb_sandbox_free(best);
    osb_client_close(client);
    return 0;
}
