/* The same program in C: four languages in one sandbox, each cell with its output and its result.
 * usage: example-code-interpreter [LANGUAGE...] */
#include "example.h"

struct cell {
    const char *language, *code;
};

static const struct cell CELLS[] = {
    {"python",     "import platform\nprint('Hello from Python', platform.python_version()[:2])\n"
               "{'language': 'python', 'sum': 2 + 2}"                                       },
    {"java",       "System.out.println(\"Hello from Java\");\nint result = 2 + 3;\n"
             "System.out.println(\"2 + 3 = \" + result);\nresult"                             },
    {"go",         "package main\nimport \"fmt\"\nfunc main() {\n    fmt.Println(\"Hello from Go\")\n"
           "    fmt.Println(\"3 + 4 =\", 3+4)\n}"                                               },
    {"typescript", "const sum: number = [1, 2, 3].reduce((a, b) => a + b, 0);\n"
                   "console.log('Hello from TypeScript');\nconsole.log(`sum = ${sum}`);"},
};
#define CELLS_COUNT (sizeof(CELLS) / sizeof(CELLS[0]))

static void show_lines(const char *name, const char *text)
{
    while (*text) {
        int size = (int)strcspn(text, "\n");

        printf("[%s] %.*s\n", name, size, text);
        text += size + (text[size] == '\n');
    }
}

static int run_cell(struct osb_client *client, struct osb_sandbox *box, const struct cell *cell)
{
    struct osb_code code = {OSB_CODE, .language = cell->language, .code = cell->code};
    struct osb_execution *done = NULL;
    int r = osb_code_run(box, &code, &done);

    if (r < 0) {
        warnx("%s", osb_error_message(osb_client_error(client)));
        return r;
    }
    printf("=== %s ===\n", cell->language);
    show_lines("stdout", osb_execution_stdout(done));
    show_lines("stderr", osb_execution_stderr(done));
    for (size_t i = 0; i < osb_execution_result_count(done); i++) {
        const char *text = osb_execution_result(done, i, "text/plain");

        if (text)
            printf("[result] %s\n", text);
    }
    if (osb_execution_failed(done)) {
        warnx("the cell in %s failed: %s", cell->language, osb_execution_error_value(done));
        r = -1;
    }
    osb_execution_free(done);
    return r;
}

static const struct cell *find_cell(const char *language)
{
    for (size_t i = 0; i < CELLS_COUNT; i++)
        if (strcmp(CELLS[i].language, language) == 0)
            return &CELLS[i];
    errx(2, "there is no cell in %s; there are python, java, go and typescript", language);
}

int main(int argc, char **argv)
{
    static const char *const entrypoint[] = {"/opt/code-interpreter/code-interpreter.sh", NULL};
    size_t count = argc > 1 ? (size_t)argc - 1 : CELLS_COUNT;
    struct osb_create create = {
        OSB_CREATE,
        .image = example_env("SANDBOX_IMAGE", "opensandbox/code-interpreter:latest"),
        .entrypoint = entrypoint,
    };
    struct osb_client *client;
    struct osb_sandbox *box;
    int r = 0;

    for (int i = 1; i < argc; i++)
        (void)find_cell(argv[i]); /* before there is a sandbox */
    client = example_open();
    example_need(client, osb_sandbox_create(client, &create, &box));
    for (size_t i = 0; i < count && r >= 0; i++)
        r = run_cell(client, box, argc > 1 ? find_cell(argv[i + 1]) : &CELLS[i]);
    osb_sandbox_delete(client, osb_sandbox_id(box));
    osb_sandbox_free(box);
    osb_client_close(client);
    return r < 0;
}
