/* cmd_local.c - osb doctor: what is wrong on this machine. */
#include "osb/commands.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "version.h"

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
    f->good = major > 5 || (major == 5 && minor >= 19);
    f->advice = "The embedded runtime wants Linux 5.19 or newer, for ID-mapped overlay mounts.";
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
    f->advice = "osb up finds the key of a server on this machine. Of another: "
                "OPEN_SANDBOX_API_KEY, --api-key, or osb config init and osb config set "
                "connection.api_key KEY.";
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

/* Servers of other makers need not say their version; ours does, without a key. */
static void check_version(struct cli *cli, struct finding *f)
{
    static const struct osb_request request = {OSB_REQUEST, .method = "GET", .path = "/version"};
    struct osb_answer *answer = NULL;
    const char *version = NULL;

    f->advice = "Install osb and the server of one release: commands may want what an older server "
                "does not have.";
    if (cli_client(cli))
        return;
    if (osb_request(cli->client, &request, &answer) == 0)
        version = osb_answer_text(answer, "version");
    f->good = !version || strcmp(version, OPENSANDBOX_VERSION) == 0;
    snprintf(f->text, sizeof(f->text), "osb %s, server %.100s", OPENSANDBOX_VERSION,
             version ? version : "unknown");
    osb_answer_free(answer);
}

static void add_line(struct buf *out, const char *name, const struct finding *f)
{
    buf_addf(out, "%-8s %-15s %s\n", f->good ? "ok" : "problem", name, f->text);
    if (!f->good)
        buf_addf(out, "%-24s %s\n", "", f->advice);
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
        {"version",        check_version,    false},
    };
    AUTO_BUF(lines, DOC_BYTES_MAX);
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
        add_line(&lines, checks[i].name, &f);
    }
    if (cli->format != FORMAT_TABLE) {
        cli_rows(cli, NULL, "check", &doc);
        return status;
    }
    doc_done(&doc); /* advice is too long for columns */
    return cli_write(lines.p, lines.n) < 0 ? EXIT_FAILED : status;
}
