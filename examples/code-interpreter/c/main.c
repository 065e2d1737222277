/* The same program in C: a cell of Python, its output and its result. */
#include "example.h"

int main(void)
{
    static const char *const entrypoint[] = {"/opt/code-interpreter/code-interpreter.sh", NULL};
    struct osb_client *client = example_open();
    struct osb_create create = {
        OSB_CREATE,
        .image = example_env("SANDBOX_IMAGE", "opensandbox/code-interpreter:latest"),
        .entrypoint = entrypoint,
    };
    struct osb_code cell = {
        OSB_CODE,
        .language = "python",
        .code = "print('Hello from Python')\n{'language': 'python', 'sum': 2 + 2}",
    };
    struct osb_execution *done = NULL;
    struct osb_sandbox *box;
    int r;

    example_need(client, osb_sandbox_create(client, &create, &box));
    r = osb_code_run(box, &cell, &done);
    if (r == 0) {
        const char *text = osb_execution_result_count(done) > 0
                               ? osb_execution_result(done, 0, "text/plain")
                               : NULL;

        printf("[stdout] %s", osb_execution_stdout(done));
        printf("[result] %s\n", text ? text : "");
        osb_execution_free(done);
    } else {
        warnx("%s", osb_error_message(osb_client_error(client)));
    }
    osb_sandbox_delete(client, osb_sandbox_id(box));
    osb_sandbox_free(box);
    osb_client_close(client);
    return r < 0;
}
