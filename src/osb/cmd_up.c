/* cmd_up.c - osb up: a server on this machine, and the settings that reach it. */
#include "osb/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"

enum { UP_MS = 60000, UP_POLL_MS = 100, LOG_BYTES_MAX = 64 * 1024 * 1024, KEY_BYTES_MAX = 4096 };

#define USUAL_KEY "/var/lib/opensandbox/server/api_key"

static bool answers(struct cli *cli)
{
    return osb_request(cli->client,
                       &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/sandboxes"},
                       NULL) == 0 ||
           osb_error_status(osb_client_error(cli->client)) > 0;
}

/* --- what belongs to this osb: of the same build, or of the same installation --- */

/* The first of these files that exists, by their way from the directory of osb; or NULL. */
static const char *find_beside(struct cli *cli, const char *const *ways)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *slash;

    if (n <= 0)
        return NULL;
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    for (; *ways; ways++) {
        char *path = arena_printf(&cli->arena, "%s/%s", exe, *ways), real[PATH_MAX];

        if (path && realpath(path, real) && access(real, R_OK) == 0)
            return strstr(path, "/bin/opensandbox-server")
                       ? path /* a link: it looks for its helpers beside the link */
                       : arena_strdup(&cli->arena, str_of(real));
    }
    return NULL;
}

static const char *find_program(struct cli *cli)
{
    static const char *const ways[] = {"../../../bin/opensandbox-server",
                                       "../sbin/opensandbox-server", "opensandbox-server",
                                       "../server/opensandbox-server", NULL};
    const char *program = cli_text(cli, "program");

    if (!program)
        program = find_beside(cli, ways);
    return program ? program : "opensandbox-server";
}

/* A configuration, unless the server finds one by itself. */
static const char *find_config(struct cli *cli)
{
    static const char *const ways[] = {"../../../../deploy/config.toml",
                                       "../share/opensandbox/config.toml", NULL};
    const char *config = cli_text(cli, "server-config"), *home = getenv("HOME");
    const char *own = arena_printf(&cli->arena, "%s/.sandbox.toml", home ? home : "");

    if (config || getenv("SANDBOX_CONFIG_PATH") || (own && access(own, F_OK) == 0) ||
        access("/etc/opensandbox/config.toml", F_OK) == 0)
        return config;
    return find_beside(cli, ways);
}

/* --- settings --- */

/* The file with the server's key that its log names first behind `from`, or the usual one. What
 * comes later in the log may be text of a client. */
static const char *find_key_file(struct cli *cli, const char *log, size_t from)
{
    AUTO_BUF(text, LOG_BYTES_MAX);
    struct str mark = STR("$(cat '"), rest, path;
    const char *found = USUAL_KEY;
    size_t at;

    if (!log || io_read_file(AT_FDCWD, log, LOG_BYTES_MAX, &text, NULL) < 0)
        return found;
    rest = str_skip(buf_str(&text), from < text.n ? from : text.n);
    at = str_find_str(rest, mark);
    if (at == rest.n)
        return found;
    rest = str_skip(rest, at + mark.n);
    path = str_make(rest.p, str_find(rest, '\''));
    if (path.n < rest.n && path.n < PATH_MAX)
        found = arena_strdup(&cli->arena, path);
    return found;
}

static int store(struct cli *cli, struct str *text, const char *section, const char *field,
                 const char *value)
{
    *text = settings_set(&cli->arena, *text, str_of(section), str_of(field), str_of(value));
    return text->p ? 0 : -ENOMEM;
}

/* The key of this machine's server is for this machine only. */
static bool is_local(const char *domain)
{
    static const char *const hosts[] = {"localhost", "127.", "[::1]"};
    const char *scheme = domain ? strstr(domain, "://") : NULL;
    const char *host = scheme ? scheme + strlen("://") : domain;

    for (size_t i = 0; host && i < ARRAY_LEN(hosts); i++)
        if (strncmp(host, hosts[i], strlen(hosts[i])) == 0)
            return true;
    return !domain;
}

/* Writes what is not set yet to the settings: the key of the server, and an image that it has
 * without a registry. Returns what to tell about it. */
static const char *keep_settings(struct cli *cli, const char *log, size_t from)
{
    const struct settings *s = &cli->settings;
    struct str text = str_of(settings_template);
    AUTO_BUF(key, KEY_BYTES_MAX);
    AUTO_BUF(old, CLI_FILE_BYTES_MAX);
    int r = 0;

    if (s->api_key || !is_local(s->domain) ||
        io_read_file(AT_FDCWD, find_key_file(cli, log, from), KEY_BYTES_MAX, &key, NULL) < 0)
        return "";
    while (key.n > 0 && strchr(" \n", key.p[key.n - 1]))
        key.p[--key.n] = '\0';
    if (key.n == 0)
        return "";
    if (s->file_exists) {
        if (io_read_file(AT_FDCWD, s->path, CLI_FILE_BYTES_MAX, &old, NULL) < 0)
            return "";
        text = buf_str(&old);
    }
    r = store(cli, &text, "connection", "api_key", key.p);
    if (r == 0 && s->domain)
        r = store(cli, &text, "connection", "domain", s->domain);
    if (r == 0 && !s->image)
        r = store(cli, &text, "defaults", "image", "host");
    if (r < 0 || settings_write(cli, text))
        return "";
    return arena_printf(&cli->arena, "; its key is in %s%s", s->path,
                        s->image ? "" : ", and the image 'host' as the default");
}

/* --- the server --- */

/* In a session of its own, so that it outlives this terminal; what it says goes to a file. */
static pid_t start_server(const char *program, const char *config, const char *log)
{
    pid_t pid = fork();
    int null, out;

    if (pid != 0)
        return pid;
    setsid();
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    execlp(program, program, config ? "--config" : (char *)NULL, config, (char *)NULL);
    _exit(127);
}

static int say_ended(struct cli *cli, const char *program, int status, const char *log)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return cli_error(cli, "Server",
                         "There is no program %s. Build it with make, or name it: osb up --program "
                         "PATH",
                         program);
    return cli_error(cli, "Server", "%s ended with status %d; see %s", program,
                     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), log);
}

int up(struct cli *cli)
{
    const char *program = find_program(cli), *log = cli_text(cli, "log");
    uint64_t deadline = deadline_in_ms(UP_MS);
    struct stat st;
    size_t from;
    int status;
    pid_t pid;

    if (answers(cli))
        return cli_message(cli, "A server answers at %s%s", osb_client_base_url(cli->client),
                           keep_settings(cli, log, 0));
    if (!log)
        log = "/var/log/opensandbox-server.log";
    if (geteuid() != 0)
        return cli_error(cli, "Privileges",
                         "A server that makes sandboxes is started by root: sudo osb up");
    from = stat(log, &st) == 0 ? (size_t)st.st_size : 0;
    pid = start_server(program, find_config(cli), log);
    while (pid > 0 && !deadline_passed(deadline)) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return say_ended(cli, program, status, log);
        if (answers(cli))
            return cli_message(cli, "Server %d answers at %s%s. Its log is %s; kill %d ends it",
                               (int)pid, osb_client_base_url(cli->client),
                               keep_settings(cli, log, from), log, (int)pid);
        osb_sleep(cli->client, UP_POLL_MS);
    }
    if (pid > 0 && kill(pid, SIGTERM) == 0)
        (void)waitpid(pid, &status, 0);
    return cli_error(cli, "Server", "%s did not answer at %s within %d s; see %s", program,
                     osb_client_base_url(cli->client), UP_MS / 1000, log);
}
