/* main.c - opensandbox-mcp: sandboxes for assistants, by the Model Context Protocol. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "mcp/http.h"
#include "mcp/mcp.h"
#include "mcp/stdio.h"
#include "version.h"

enum { EXIT_USAGE = 2 };

static bool stop;

static void on_signal(struct loop_signals *s UNUSED, int signo UNUSED)
{
    stop = true;
}

static int serve(const struct options *o, struct loop *loop, struct err *e)
{
    struct loop_signals signals;
    struct mcp m;
    sigset_t set;
    int r;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    r = mcp_init(&m, o, loop, e);
    if (r < 0)
        return r;
    r = loop_signals_start(loop, &signals, &set, on_signal, e);
    if (r == 0) {
        r = o->transport == TRANSPORT_HTTP ? http_serve(&m, &stop, e) : stdio_serve(&m, &stop, e);
        loop_signals_stop(&signals);
    }
    mcp_done(&m);
    return r;
}

int main(int argc UNUSED, char **argv)
{
    struct loop *loop = NULL;
    struct err e = {0};
    struct options o;
    int r;

    if (options_parse((const char *const *)argv, &o, &e) < 0) {
        fprintf(stderr, "opensandbox-mcp: %s\nopensandbox-mcp --help lists the options\n", e.msg);
        return EXIT_USAGE;
    }
    if (o.mode != OPTIONS_RUN) {
        fputs(o.mode == OPTIONS_HELP ? options_help : "opensandbox-mcp " OPENSANDBOX_VERSION "\n",
              stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    log_init(&(struct log_conf){.level = LOG_INFO, .fd = STDERR_FILENO, .area = "mcp"});
    r = loop_new(&loop, &e);
    if (r == 0)
        r = serve(&o, loop, &e);
    loop_free(loop);
    if (r == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "opensandbox-mcp: %s\n", e.msg);
    return EXIT_FAILURE;
}
