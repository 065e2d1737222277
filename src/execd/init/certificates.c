#include "execd/init/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "execd/command/command.h"

#define CERTIFI_COPY "/opt/opensandbox/.certifi.pem"

enum {
    WAIT_SECONDS = 300,
    BUNDLE_BYTES_MAX = 16 << 20,
    CA_BYTES_MAX = 1 << 20,
    FILE_MODE = 0644,
    ARGS_MAX = 16,
};

bool certificates_wanted(void)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    struct str value = str_of(getenv("OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT"));

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (str_eq_nocase(value, str_of(yes[i])))
            return true;
    return false;
}

static bool wait_for_ca(void)
{
    struct stat st;

    for (int i = 0; i < WAIT_SECONDS; i++) {
        if (stat(CERTIFICATES_CA, &st) == 0 && st.st_size > 0)
            return true;
        (void)sleep(1);
    }
    log_event(LOG_WARN, "no certificate of the egress proxy came, going on without it",
              LOG_STR("path", CERTIFICATES_CA));
    return false;
}

/* --- programs of the image --- */

static bool has_program(const char *name)
{
    AUTO_BUF(path, 4096);

    return command_find_program(str_of(getenv("PATH")), name, &path);
}

/* Runs a program and waits for its end; with `root`, through sudo unless we are root. False on
 * failure. */
static bool run(bool root, const char *const *args)
{
    const char *argv[ARGS_MAX] = {"sudo", "-n"};
    size_t n = root && geteuid() != 0 ? 2 : 0;
    int status = -1;
    pid_t pid;

    while (*args && n < ARGS_MAX - 1)
        argv[n++] = *args++;
    argv[n] = NULL;
    pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Installs in the system's store, as Debian and Alpine do it or as Fedora does. */
static void install_in_system(void)
{
    static const struct {
        const char *program, *file, *argument;
    } ways[] = {
        {"update-ca-certificates", "/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt",
         NULL     },
        {"update-ca-trust",        "/etc/pki/ca-trust/source/anchors/opensandbox-mitmproxy-ca.pem",
         "extract"},
    };

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        const char *copy[] = {"cp", CERTIFICATES_CA, ways[i].file, NULL};
        const char *update[] = {ways[i].program, ways[i].argument, NULL};

        if (!has_program(ways[i].program))
            continue;
        if (!run(true, copy) || !run(true, update))
            log_event(LOG_WARN, "the system's certificates were not updated",
                      LOG_STR("program", ways[i].program));
        return;
    }
}

/* Installs in the database of browsers built on NSS. */
static void install_in_nss(void)
{
    AUTO_BUF(database, 4096);
    const char *home = getenv("HOME");

    if (!home || !has_program("certutil") || buf_addf(&database, "sql:%s/.pki/nssdb", home) < 0)
        return;
    if (access(database.p + sizeof("sql:") - 1, F_OK) < 0) {
        const char *folder[] = {"mkdir", "-p", database.p + sizeof("sql:") - 1, NULL};
        const char *make[] = {"certutil", "-d", database.p, "-N", "--empty-password", NULL};

        (void)run(false, folder);
        (void)run(false, make);
    }
    const char *add[] = {
        "certutil",      "-d", database.p, "-A", "-t", "C,,", "-n", "opensandbox-mitmproxy", "-i",
        CERTIFICATES_CA, NULL};

    if (!run(false, add))
        log_event(LOG_WARN, "the browser's certificates were not updated");
}

/* --- the merged bundle --- */

/* Adds the bundle of Python's certifi package, if installed. Python copies it to a file next to the
 * merged bundle, so that no program sees the merged bundle half-written. */
static void add_certifi(struct buf *out)
{
    static const char *const script = "import certifi,shutil,sys;"
                                      "shutil.copyfile(certifi.where(),sys.argv[1])";
    const char *argv[] = {"python3", "-c", script, CERTIFI_COPY, NULL};

    if (has_program("python3") && run(false, argv))
        (void)io_read_regular(AT_FDCWD, CERTIFI_COPY, BUNDLE_BYTES_MAX, out, NULL);
    (void)unlink(CERTIFI_COPY);
}

static void add_system(struct buf *out)
{
    static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    };

    for (size_t i = 0; i < ARRAY_LEN(bundles) && out->n == 0; i++)
        (void)io_read_regular(AT_FDCWD, bundles[i], BUNDLE_BYTES_MAX, out, NULL);
}

/* False on failure. */
static bool make_bundle(void)
{
    AUTO_BUF(bundle, BUNDLE_BYTES_MAX + CA_BYTES_MAX + 1);
    struct err e = {0};
    auto_fd dir = open("/opt/opensandbox", O_PATH | O_DIRECTORY | O_CLOEXEC);

    add_certifi(&bundle);
    if (bundle.n == 0)
        add_system(&bundle);
    if (bundle.n > 0 && bundle.p[bundle.n - 1] != '\n')
        (void)buf_add_char(&bundle, '\n');
    if (io_read_regular(AT_FDCWD, CERTIFICATES_CA, CA_BYTES_MAX, &bundle, &e) < 0 ||
        io_write_file_atomic(dir, "merged-ca-certificates.pem", buf_str(&bundle), FILE_MODE, &e) <
            0) {
        (void)log_err(&e, "merge certificates");
        return false;
    }
    return true;
}

void certificates_place(void)
{
    static const char name[] = "OPENSANDBOX_EGRESS_CA_CERTIFICATE";
    const char *text = getenv(name);
    AUTO_BUF(bundle, BUNDLE_BYTES_MAX + CA_BYTES_MAX + 1);
    auto_fd dir = -EBADF;
    struct err e = {0};
    int r;

    if (!text)
        return;
    (void)mkdir("/opt", 0755);
    (void)mkdir("/opt/opensandbox", 0755);
    dir = open("/opt/opensandbox", O_PATH | O_DIRECTORY | O_CLOEXEC);
    add_system(&bundle);
    if (bundle.n > 0 && bundle.p[bundle.n - 1] != '\n')
        (void)buf_add_char(&bundle, '\n');
    r = buf_add(&bundle, str_of(text));
    if (r == 0)
        r = io_write_file_atomic(dir, "mitmproxy-ca-cert.pem", str_of(text), FILE_MODE, &e);
    if (r == 0)
        r = io_write_file_atomic(dir, "merged-ca-certificates.pem", buf_str(&bundle), FILE_MODE,
                                 &e);
    if (r < 0)
        (void)log_err(&e, "place the certificate of the egress proxy");
    else
        certificates_announce(CERTIFICATES_BUNDLE);
    (void)unsetenv(name);
}

enum certificates_kind certificates_install(void)
{
    bool merged;

    if (!wait_for_ca())
        return CERTIFICATES_NONE;
    install_in_system();
    merged = make_bundle();
    install_in_nss();
    return merged ? CERTIFICATES_BUNDLE : CERTIFICATES_ALONE;
}

/* --- environment and pipe --- */

void certificates_announce(enum certificates_kind kind)
{
    const char *bundle = kind == CERTIFICATES_BUNDLE ? CERTIFICATES_MERGED : CERTIFICATES_CA;

    if (kind == CERTIFICATES_NONE)
        return;
    (void)setenv("NODE_EXTRA_CA_CERTS", CERTIFICATES_CA, 1);
    (void)setenv("REQUESTS_CA_BUNDLE", bundle, 1);
    (void)setenv("SSL_CERT_FILE", bundle, 1);
}

void certificates_tell(int fd, enum certificates_kind kind)
{
    char byte = (char)('0' + (int)kind);

    (void)!write(fd, &byte, 1);
}

bool certificates_hear(int fd)
{
    char byte;
    ssize_t n = read(fd, &byte, 1);

    if (n < 0)
        return errno != EAGAIN && errno != EINTR;
    if (n == 1 && byte >= '0' && byte <= '0' + (int)CERTIFICATES_BUNDLE)
        certificates_announce((enum certificates_kind)(byte - '0'));
    return true;
}
