/* hello.c - a sandbox, a command, its output: the program of the README. */
#include <err.h>
#include <opensandbox/opensandbox.h>
#include <stdio.h>

int main(void)
{
    struct osb_client *client;
    struct osb_sandbox *box;
    struct osb_execution *done;
    char why[OSB_MESSAGE_MAX];

    if (osb_client_open(NULL, &client, why) < 0)
        errx(1, "%s", why);
    if (osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .image = "host"}, &box) < 0 ||
        osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "echo hello"}, &done) < 0)
        errx(1, "%s", osb_error_message(osb_client_error(client)));
    fputs(osb_execution_stdout(done), stdout);
    osb_execution_free(done);
    osb_sandbox_delete(client, osb_sandbox_id(box));
    osb_sandbox_free(box);
    osb_client_close(client);
    return 0;
}
