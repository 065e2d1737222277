/* cmd_local.c - osb doctor and osb up: what concerns this machine. */
#include "osb/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"

enum { UP_MS = 20000, UP_POLL_MS = 100 };

/* --- doctor --- */

/* One thing that was looked at: what is there, and what to do when that is not enough. */
struct finding {
    bool good;
    char text[256];
    const char *advice;
};

static void check_kernel(struct cli *cli, struct finding *f)
{
    struct utsname name;
    unsigned major = 0, minor = 0;

    if (uname(&name) == 0)
        sscanf(name.release, "%u.%u", &major, &minor);
    snprintf(f->text, sizeof(f->text), "Linux %u.%u", major, minor);
    f->good = major > 5 || (major == 5 && minor >= 10);
    f->advice = "The embedded runtime wants Linux 5.10 or newer.";
}

static void check_cgroups(struct cli *cli, struct finding *f)
{
    bool v2 = access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0;
    bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;

    snprintf(f->text, sizeof(f->text), "%s", v2 ? "version 2" : v1 ? "version 1" : "none mounted");
    f->good = v1 || v2;
    f->advice = "Mount them: mount -t cgroup2 none /sys/fs/cgroup";
}

static void check_namespaces(struct cli *cli, struct finding *f)
{
    static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    char path[64];

    f->good = true;
    snprintf(f->text, sizeof(f->text), "all there");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
        if (access(path, F_OK) == 0)
            continue;
        f->good = false;
        snprintf(f->text, sizeof(f->text), "no %s namespaces", names[i]);
    }
    f->advice = "The kernel was built without them; sandboxes cannot be made here.";
}

static void check_overlay(struct cli *cli, struct finding *f)
{
    char line[128];
    FILE *file = fopen("/proc/filesystems", "re");

    while (file && fgets(line, sizeof(line), file))
        f->good |= strstr(line, "overlay") != NULL;
    if (file)
        (void)fclose(file);
    snprintf(f->text, sizeof(f->text), "overlayfs %s", f->good ? "is there" : "is missing");
    f->advice = "modprobe overlay";
}

static void check_settings(struct cli *cli, struct finding *f)
{
    f->good = cli->settings.api_key != NULL;
    snprintf(f->text, sizeof(f->text), "%s; %s", cli->settings.path,
             f->good ? "an API key is set" : "no API key");
    f->advice = "Set it: OPEN_SANDBOX_API_KEY, --api-key, or osb config init and osb config set "
                "connection.api_key KEY. A local server wrote its own to "
                "/var/lib/opensandbox/server/api_key.";
}

static void check_server(struct cli *cli, struct finding *f)
{
    struct osb_answer *answer = NULL;
    const struct osb_error *error;

    f->advice = "osb up starts one here; --domain and OPEN_SANDBOX_DOMAIN name another.";
    if (cli_client(cli))
        return;
    if (osb_sandbox_list(cli->client, &(struct osb_filter){OSB_FILTER, .page_size = 1}, &answer) ==
        0) {
        f->good = true;
        snprintf(f->text, sizeof(f->text), "%s answers, %lld sandboxes",
                 osb_client_base_url(cli->client),
                 (long long)osb_answer_int(answer, "pagination.totalItems", 0));
        osb_answer_free(answer);
        return;
    }
    error = osb_client_error(cli->client);
    snprintf(f->text, sizeof(f->text), "%.200s", osb_error_message(error));
    if (osb_error_status(error) == 401 || osb_error_status(error) == 403)
        f->advice = "The server is there, but the API key is not its own.";
}

int doctor(struct cli *cli)
{
    static const struct {
        const char *name;
        void (*check)(struct cli *cli, struct finding *f);
        bool server; /* counts for the exit status */
    } checks[] = {
        {"kernel",         check_kernel,     false},
        {"control groups", check_cgroups,    false},
        {"namespaces",     check_namespaces, false},
        {"file systems",   check_overlay,    false},
        {"settings",       check_settings,   false},
        {"server",         check_server,     true },
    };
    int status = EXIT_OK;
    struct doc doc;

    doc_begin_array(&doc);
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        struct finding f = {.text = ""};

        checks[i].check(cli, &f);
        if (!f.good && checks[i].server)
            status = EXIT_FAILED;
        json_write_object(&doc.w);
        doc_text(&doc, "check", checks[i].name);
        doc_text(&doc, "result", f.good ? "ok" : "problem");
        doc_text(&doc, "found", f.text);
        doc_text(&doc, "advice", f.good ? NULL : f.advice);
        json_write_object_end(&doc.w);
    }
    cli_rows(cli, "osb doctor", "check result found advice", &doc);
    return status;
}

/* --- up --- */

static bool answers(struct cli *cli)
{
    return osb_request(cli->client,
                       &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/sandboxes"},
                       NULL) == 0 ||
           osb_error_status(osb_client_error(cli->client)) > 0;
}

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

int up(struct cli *cli)
{
    const char *program = cli_text(cli, "program"), *log = cli_text(cli, "log");
    uint64_t deadline = deadline_in_ms(UP_MS);
    int status;
    pid_t pid;

    if (answers(cli))
        return cli_message(cli, "A server answers at %s", osb_client_base_url(cli->client));
    if (!program)
        program = "opensandbox-server";
    if (!log)
        log = "/var/log/opensandbox-server.log";
    if (geteuid() != 0)
        return cli_error(cli, "Privileges",
                         "A server that makes sandboxes is started by root: sudo osb up");
    pid = start_server(program, cli_text(cli, "server-config"), log);
    while (pid > 0 && !deadline_passed(deadline)) {
        if (answers(cli))
            return cli_message(cli, "Server %d answers at %s; its log is %s", (int)pid,
                               osb_client_base_url(cli->client), log);
        if (waitpid(pid, &status, WNOHANG) == pid)
            return cli_error(cli, "Server", "%s ended with status %d; see %s", program,
                             WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), log);
        osb_sleep(cli->client, UP_POLL_MS);
    }
    return cli_error(cli, "Server", "%s did not answer at %s within %d s; see %s", program,
                     osb_client_base_url(cli->client), UP_MS / 1000, log);
}
