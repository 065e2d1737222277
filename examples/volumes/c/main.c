/* A named volume in C: one sandbox writes, another reads and cannot write. */
#include "example.h"

static struct osb_sandbox *create(struct osb_client *client, bool read_only)
{
    struct osb_volume volume = {
        .name = "data",
        .mount_path = "/mnt/data",
        .read_only = read_only,
        .claim_name = "opensandbox-c-demo",
        .create_if_missing = true,
    };
    struct osb_create create = {
        OSB_CREATE,
        .image = example_env("SANDBOX_IMAGE", "host"),
        .volumes = &volume,
        .volume_count = 1,
    };
    struct osb_sandbox *box;

    example_need(client, osb_sandbox_create(client, &create, &box));
    return box;
}

static struct osb_execution *run(struct osb_client *client, struct osb_sandbox *box,
                                 const char *command)
{
    struct osb_execution *done;

    example_need(client,
                 osb_command_run(box, &(struct osb_run){OSB_RUN, .command = command}, &done));
    return done;
}

static void discard(struct osb_client *client, struct osb_sandbox *box)
{
    osb_sandbox_delete(client, osb_sandbox_id(box));
    osb_sandbox_free(box);
}

int main(void)
{
    struct osb_client *client = example_open();
    struct osb_sandbox *writer = create(client, false), *reader = create(client, true);
    struct osb_execution *done;

    osb_execution_free(run(client, writer, "echo hello-from-named-volume > /mnt/data/marker.txt"));
    done = run(client, reader, "cat /mnt/data/marker.txt");
    printf("read: %s", osb_execution_stdout(done));
    osb_execution_free(done);
    done = run(client, reader, "touch /mnt/data/x");
    printf("write refused: %s\n", osb_execution_exit_code(done) != 0 ? "true" : "false");
    osb_execution_free(done);
    discard(client, reader);
    discard(client, writer);
    osb_volume_delete(client, "opensandbox-c-demo");
    osb_client_close(client);
    return 0;
}
