/* driver_languages.c - the languages that have a driver, and the commands that run it. */
#include "execd/code/driver.h"
#include "execd/code/drivers/texts.h"

/* The file has no name, so the interpreter reads the descriptor. */
#define PYTHON_READ                                                                                \
    "exec(compile(__import__('os').read(5, 1 << 20), '<execd driver>', 'exec'), {'__name__': "     \
    "'_'})"

static const char *const python3[] = {"python3", "-c", PYTHON_READ, NULL};
static const char *const python[] = {"python", "-c", PYTHON_READ, NULL};

/* Modules that cells import are resolved from where this line runs: the working directory. The
 * check of async hooks would end the process when a cell is interrupted in a timer. */
static const char node_read[] =
    "require('vm').runInThisContext(require('fs').readFileSync(5, 'utf8'),"
    "{filename: 'execd:driver'})(require, (s, o) => import(s, o))";
#define NODE "node", "--no-force-async-hooks-checks", "-e", node_read

static const char *const javascript[] = {NODE, "javascript", NULL};
static const char *const typescript[] = {NODE, "typescript", NULL};

/* The simple compiler and collector halve the start-up time. --add-opens lets the driver open a
 * descriptor by number. */
static const char *const java[] = {
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Dfile.encoding=UTF-8",
    "--add-opens",
    "java.base/java.io=ALL-UNNAMED",
    "--source",
    "11",
    "/dev/fd/5",
    NULL,
};

/* Compiles the driver, unless it is compiled already. */
static const char *const go[] = {"sh", "-c", driver_go_start, NULL};

/* clang-format 14 requires rows of equal length. */
static const struct driver_language languages[] = {
    {
     .name = "go",
     .programs = {go},
     .needs = "go",
     .script = driver_go,
     .script_bytes = &driver_go_len,
     .install = "install golang-go, 1.19 or newer",
     },
    {
     .name = "java",
     .programs = {java},
     .needs = "jshell",
     .script = driver_java,
     .script_bytes = &driver_java_len,
     .install = "install a JDK, 11 or newer (Debian: default-jdk-headless)",
     },
    {
     .name = "javascript",
     .programs = {javascript},
     .needs = NULL,
     .script = driver_javascript,
     .script_bytes = &driver_javascript_len,
     .install = "install nodejs, 18 or newer",
     },
    {
     .name = "python",
     .programs = {python3, python},
     .needs = NULL,
     .script = driver_python,
     .script_bytes = &driver_python_len,
     .install = "install python3, 3.6 or newer",
     },
    {
     .name = "typescript",
     .programs = {typescript},
     .unsure = true,
     .script = driver_javascript,
     .script_bytes = &driver_javascript_len,
     .install = "install nodejs, 18 or newer, and npm install -g typescript@5",
     },
};

const struct driver_language *driver_language_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        if (str_eq(name, str_of(languages[i].name)))
            return &languages[i];
    return NULL;
}
