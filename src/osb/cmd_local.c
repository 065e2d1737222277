/* cmd_local.c - osb doctor: what is wrong on this machine. */
#include "osb/commands.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json.h"
#include "base/time.h"
#include "version.h"

enum { ENGINE_MS = 5 * 1000, ENGINE_ANSWER_MAX = 4 << 20, ENGINE_ARENA_MAX = 32 << 20 };

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

/* A connection to the socket, or -errno. */
static int connect_engine(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = ENGINE_MS / 1000};
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_of(path)) < 0)
        return -ENAMETOOLONG;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -errno;
    return take_fd(&fd);
}

/* The body of the answer to GET /info, which ends with the connection. */
static int ask_engine(int fd, struct buf *out, struct str *ret)
{
    static const char request[] = "GET /info HTTP/1.0\r\nHost: docker\r\n\r\n";
    uint64_t deadline = deadline_in_ms(ENGINE_MS);
    int r = io_write_full(fd, str_of(request), deadline);
    ssize_t n = 1;
    size_t head;

    while (r == 0 && n > 0) {
        r = buf_reserve(out, 4096);
        n = r < 0 ? r : recv(fd, out->p + out->n, 4096, 0);
        if (n > 0)
            buf_claim(out, (size_t)n);
        if (n < 0 || deadline_passed(deadline))
            r = r < 0 ? r : -ETIMEDOUT;
    }
    head = str_find_str(buf_str(out), STR("\r\n\r\n"));
    *ret = str_skip(buf_str(out), head == out->n ? head : head + 4);
    return r;
}

static void tell_engine(const struct json *info, const char *path, struct finding *f)
{
    struct str version = STR("");
    size_t n;

    (void)!json_to_str(json_get(info, STR("ServerVersion")), &version);
    (void)snprintf(f->text, sizeof(f->text), "an engine %.*s at %s, with OCI runtimes",
                   STR_ARG(version), path);
    json_each(runtime, json_get(info, STR("Runtimes")))
    {
        n = strlen(f->text);
        (void)snprintf(f->text + n, sizeof(f->text) - n, " %.*s", STR_ARG(runtime->key));
    }
    f->good = true;
}

/* Only servers with the docker runtime need one. */
static void check_docker(struct cli *cli UNUSED, struct finding *f)
{
    static const char usual[] = "/var/run/docker.sock", scheme[] = "unix://";
    const char *host = getenv("DOCKER_HOST"), *path = usual;
    AUTO_ARENA(arena, ENGINE_ARENA_MAX);
    AUTO_BUF(answer, ENGINE_ANSWER_MAX);
    struct json *info = NULL;
    auto_fd fd = -EBADF;
    struct str body;

    f->good = true;
    if (host && host[0] && strncmp(host, scheme, sizeof(scheme) - 1) != 0) {
        (void)snprintf(f->text, sizeof(f->text), "DOCKER_HOST is %.150s: not looked at", host);
        return;
    }
    if (host && host[0])
        path = host + sizeof(scheme) - 1;
    fd = connect_engine(path);
    if (fd == -ENOENT) {
        (void)snprintf(f->text, sizeof(f->text),
                       "none at %.100s; only runtime.type = \"docker\" needs one", path);
        return;
    }
    f->good = false;
    f->advice = "It is there, and does not answer: systemctl start docker.";
    if (fd == -EACCES)
        f->advice = "Join the socket's group (usermod -aG docker USER), and log in again; a server "
                    "that is started as root needs no more.";
    if (fd >= 0 && ask_engine(fd, &answer, &body) == 0 &&
        json_parse(&arena, body, NULL, &info, NULL) == 0)
        tell_engine(info, path, f);
    else
        (void)snprintf(f->text, sizeof(f->text), "%.100s: %s", path,
                       fd < 0 ? strerror(-fd) : "no answer");
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
        {"docker",         check_docker,     false},
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
