/* many.c COUNT - that many sandboxes at a time, on an event loop of this program. */
#include <opensandbox/opensandbox.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT_MAX = 64 };

static int left, failed;

/* Blocks as it reads; inside of a task only the task waits. */
static void work(struct osb_client *client, void *user)
{
    struct osb_sandbox *box;
    struct osb_execution *done;
    char command[64];

    snprintf(command, sizeof(command), "echo number %d", *(int *)user);
    if (osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .image = "host"}, &box) < 0) {
        fprintf(stderr, "%s\n", osb_error_message(osb_client_error(client)));
        failed++;
    } else {
        if (osb_command_run(box, &(struct osb_run){OSB_RUN, .command = command}, &done) < 0) {
            fprintf(stderr, "%s\n", osb_error_message(osb_client_error(client)));
            failed++;
        } else {
            fputs(osb_execution_stdout(done), stdout);
            osb_execution_free(done);
        }
        osb_sandbox_delete(client, osb_sandbox_id(box));
        osb_sandbox_free(box);
    }
    left--;
}

int main(int argc, char **argv)
{
    int numbers[COUNT_MAX], count = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    struct osb_client *client;
    char why[OSB_MESSAGE_MAX];

    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "usage: %s COUNT, from 1 to %d\n", argv[0], COUNT_MAX);
        return 2;
    }
    if (osb_client_open(NULL, &client, why) < 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        if (osb_task_start(client, work, &numbers[i], NULL) == 0)
            left++;
    }
    while (left > 0) {
        struct pollfd polled = {osb_client_fd(client), POLLIN, 0};

        poll(&polled, 1, -1);
        osb_client_dispatch(client);
    }
    osb_client_close(client);
    return failed ? 1 : 0;
}
