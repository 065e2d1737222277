/* main.c - opensandbox-server: dispatches the mode of the command line. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"
#include "server/config/init_config.h"
#include "server/config/options.h"
#include "server/http/routes.h"
#include "server/runtime/runtime.h"
#include "server/server.h"
#include "version.h"

enum { EXIT_USAGE = 2, OUTPUT_BYTES_MAX = 1024 * 1024 };
/* malloc arenas of glibc for all threads: one per thread costs 150 KiB and 50 page faults. */
enum { HEAPS = 2 };

static void complain(const char *message)
{
    fprintf(stderr, "opensandbox-server: %s\n", message);
}

/* Fails when output cannot be written. */
static int print_all(const struct buf *out, int composed)
{
    int r = composed < 0 ? composed : io_write_full(STDOUT_FILENO, buf_str(out), DEADLINE_NEVER);
    struct err e = {0};

    if (r == 0)
        return EXIT_SUCCESS;
    (void)err_sys(&e, -r, "write to standard output");
    complain(e.msg);
    return EXIT_FAILURE;
}

/* NULL when there are errors, which are on standard error then, with the warnings. */
static struct config *load(const struct options *o, bool and_host)
{
    struct config_report report;
    struct config *config = NULL;
    int r;

    config_report_init(&report);
    r = config_load(&o->config, &config, &report);
    if (r == 0 && and_host)
        r = config_check_host(config, runtime_kind_find(config_runtime_name(config)) != NULL,
                              &report);
    fputs(report.lines.p, stderr);
    config_report_done(&report);
    if (r == 0)
        return config;
    config_free(config);
    return NULL;
}

static int do_check(const struct options *o)
{
    struct config *config = load(o, true);
    const struct runtime_kind *kind;
    AUTO_BUF(out, OUTPUT_BYTES_MAX);
    struct err e = {0};
    int r;

    if (!config)
        return EXIT_FAILURE;
    kind = runtime_kind_find(config_runtime_name(config));
    if (kind->check_host && kind->check_host(config, &e) < 0) {
        complain(e.msg);
        config_free(config);
        return EXIT_FAILURE;
    }
    r = buf_addf(&out, "configuration is fine: %s\n",
                 config->path ? config->path : "no file, all defaults");
    config_free(config);
    return print_all(&out, r);
}

static int do_print_config(const struct options *o)
{
    struct config *config = load(o, false);
    AUTO_BUF(out, OUTPUT_BYTES_MAX);
    int r;

    if (!config)
        return EXIT_FAILURE;
    r = config_print(config, false, &out);
    config_free(config);
    return print_all(&out, r);
}

static int do_print_reference(const struct options *o UNUSED)
{
    AUTO_BUF(out, OUTPUT_BYTES_MAX);

    return print_all(&out, config_print_reference(&out));
}

static int do_init_config(const struct options *o)
{
    AUTO_BUF(out, OUTPUT_BYTES_MAX);
    struct err e = {0};
    int r = init_config_write(o->init_path, o->example, o->force, &out, &e);

    if (r == 0)
        return print_all(&out, 0);
    complain(e.msg);
    return r == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
}

static int do_print_routes(const struct options *o UNUSED)
{
    AUTO_BUF(out, OUTPUT_BYTES_MAX);
    size_t count;
    const struct http_route *routes = server_routes(&count);

    return print_all(&out, routes_print(routes, count, &out));
}

static int do_run(const struct options *o)
{
    struct config *config = load(o, true);
    int status;

    if (!config)
        return EXIT_FAILURE;
    (void)mallopt(M_ARENA_MAX, HEAPS);
    status = server_run(config, &o->config);
    config_free(config);
    return status;
}

static int do_version(const struct options *o UNUSED)
{
    AUTO_BUF(out, OUTPUT_BYTES_MAX);

    return print_all(&out, buf_add(&out, STR("opensandbox-server " OPENSANDBOX_VERSION "\n")));
}

static int do_help(const struct options *o UNUSED)
{
    AUTO_BUF(out, OUTPUT_BYTES_MAX);

    return print_all(&out, buf_add(&out, str_of(options_help)));
}

static int (*const modes[OPTIONS_MODE_COUNT])(const struct options *o) = {
    [OPTIONS_RUN] = do_run,
    [OPTIONS_CHECK] = do_check,
    [OPTIONS_PRINT_CONFIG] = do_print_config,
    [OPTIONS_PRINT_REFERENCE] = do_print_reference,
    [OPTIONS_PRINT_ROUTES] = do_print_routes,
    [OPTIONS_INIT_CONFIG] = do_init_config,
    [OPTIONS_VERSION] = do_version,
    [OPTIONS_HELP] = do_help,
};

int main(int argc UNUSED, char **argv)
{
    struct options o;
    struct err e = {0};

    (void)signal(SIGPIPE, SIG_IGN);
    if (options_parse((const char *const *)argv, &o, &e) < 0) {
        complain(e.msg);
        fputs("opensandbox-server --help lists the options\n", stderr);
        return EXIT_USAGE;
    }
    if (o.reload)
        complain("--reload is ignored: there is no code to reload");
    return modes[o.mode](&o);
}
