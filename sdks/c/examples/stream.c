/* stream.c COMMAND - runs a command in a new sandbox, shows its output as it comes, ends with its
 * exit status. Ctrl-C interrupts it. */
#include <opensandbox/opensandbox.h>
#include <signal.h>
#include <stdio.h>

static struct osb_client *client; /* for the signal handler */

static void on_signal(int signo)
{
    (void)signo;
    osb_client_interrupt(client);
}

static int on_event(void *user, const struct osb_event *event)
{
    (void)user;
    switch (osb_event_type(event)) {
    case OSB_EVENT_STDOUT:
        puts(osb_event_text(event, NULL));
        fflush(stdout);
        return 0;
    case OSB_EVENT_STDERR:
        fprintf(stderr, "%s\n", osb_event_text(event, NULL));
        return 0;
    default:
        return 0;
    }
}

static int run(const char *command)
{
    struct osb_run run = {OSB_RUN, .command = command, .on_event = on_event, .discard = true};
    struct osb_execution *done;
    struct osb_sandbox *box;
    int status = 125;

    if (osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .image = "host"}, &box) < 0) {
        fprintf(stderr, "%s\n", osb_error_message(osb_client_error(client)));
        return status;
    }
    if (osb_command_run(box, &run, &done) < 0) {
        fprintf(stderr, "%s\n", osb_error_message(osb_client_error(client)));
    } else {
        status = osb_execution_exit_code(done);
        osb_execution_free(done);
    }
    osb_client_set_timeout(client, 2000); /* the server may be gone */
    osb_sandbox_delete(client, osb_sandbox_id(box));
    osb_sandbox_free(box);
    return status;
}

int main(int argc, char **argv)
{
    char why[OSB_MESSAGE_MAX];
    int status;

    if (argc != 2) {
        fprintf(stderr, "usage: %s COMMAND\n", argv[0]);
        return 2;
    }
    if (osb_client_open(NULL, &client, why) < 0) {
        fprintf(stderr, "%s\n", why);
        return 125;
    }
    signal(SIGINT, on_signal);
    status = run(argv[1]);
    osb_client_close(client);
    return status;
}
