/* sidecar_files.c - what a sidecar reads and writes: its policy, the operator's lists, its CA. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/time.h"
#include "egress/sidecar.h"

#define SKIP_FILE "/var/egress/rules/log_skip.always"
#define CA_DIR    "/var/lib/mitmproxy/.mitmproxy"
#define CA_SHARED "/opt/opensandbox"
#define CA_NAME   "mitmproxy-ca-cert.pem"

enum { LIST_BYTES_MAX = 1 << 20, WRITE_MS = 30 * 1000, NS_PER_S = 1000000000 };

/* --- the policy --- */

/* 0 with *ret, -ENOENT when there is none to be taken, other errors when it cannot be read. */
static int read_policy_file(const char *path, struct policy **ret, struct err *e)
{
    AUTO_BUF(text, POLICY_TEXT_BYTES_MAX);
    struct err why = {0};
    int r = io_read_file(AT_FDCWD, path, POLICY_TEXT_BYTES_MAX, &text, e);

    if (r < 0)
        return r;
    if (str_trim(buf_str(&text)).n == 0)
        return -ENOENT;
    if (policy_parse(buf_str(&text), ret, &why) < 0) {
        log_event(LOG_WARN, "the policy file is not valid, taking OPENSANDBOX_EGRESS_RULES",
                  LOG_STR("error", why.msg));
        return -ENOENT;
    }
    return 0;
}

int sidecar_policy_load(struct sidecar *s, struct policy **ret, struct err *e)
{
    int r = s->conf.policy_file ? read_policy_file(s->conf.policy_file, ret, e) : -ENOENT;

    if (r != -ENOENT)
        return r;
    if (s->conf.rules.n == 0) {
        *ret = policy_plain(POLICY_DENY);
        return *ret ? 0 : err_set(e, ENOMEM, "out of memory");
    }
    r = policy_parse(s->conf.rules, ret, e);
    return r < 0 ? err_wrap(e, r, "OPENSANDBOX_EGRESS_RULES") : 0;
}

static int new_line(struct buf *out, size_t depth)
{
    return buf_addf(out, "\n%*s", (int)(2 * depth), "");
}

/* Valid JSON without white space, as lines indented by two blanks. */
static int indent(struct str json, struct buf *out)
{
    bool in_string = false;
    size_t depth = 0;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < json.n; i++) {
        char c = json.p[i];
        bool opens = !in_string && (c == '{' || c == '['), closes = c == '}' || c == ']';

        if (in_string && c == '\\' && i + 1 < json.n) {
            r = buf_add(out, str_make(json.p + i, 2));
            i++;
            continue;
        }
        if (!in_string && closes && json.p[i - 1] != '{' && json.p[i - 1] != '[')
            r = new_line(out, --depth);
        else if (!in_string && closes)
            depth--;
        in_string ^= c == '"';
        if (r >= 0)
            r = buf_add_char(out, c);
        depth += opens;
        if (r >= 0 && !in_string && c == ':')
            r = buf_add_char(out, ' ');
        if (r >= 0 && !in_string &&
            (c == ',' || (opens && json.p[i + 1] != '}' && json.p[i + 1] != ']')))
            r = new_line(out, depth);
    }
    return r;
}

/* A file that is a mount of its own cannot be replaced, only filled anew. */
static int overwrite(const char *path, struct str text, struct err *e)
{
    auto_fd fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    r = io_write_full(fd, text, deadline_in_ms(WRITE_MS));
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 ? err_sys(e, -r, "write %s", path) : 0;
}

int sidecar_policy_save(const char *path, const struct policy *policy, struct err *e)
{
    AUTO_BUF(json, 2 * POLICY_TEXT_BYTES_MAX);
    AUTO_BUF(text, 4 * POLICY_TEXT_BYTES_MAX);
    char dir_text[PATH_MAX], name_text[PATH_MAX];
    auto_fd dir = -EBADF;
    struct stat st;
    int r = policy_write(policy, &json);

    if (r == 0)
        r = indent(buf_str(&json), &text);
    if (r == 0)
        r = buf_add_char(&text, '\n');
    if (r < 0 || str_copy(dir_text, sizeof(dir_text), str_of(path)) < 0 ||
        str_copy(name_text, sizeof(name_text), str_of(path)) < 0)
        return err_set(e, EMSGSIZE, "the policy, or its path, is too long");
    dir = open(dirname(dir_text), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(e, errno, "directory of %s", path);
    r = io_write_file_atomic(dir, basename(name_text), buf_str(&text),
                             stat(path, &st) == 0 ? st.st_mode & 07777 : 0600, e);
    return r == -EBUSY || r == -EXDEV ? overwrite(path, buf_str(&text), e) : r;
}

/* --- lists of the operator --- */

static int read_list(const char *path, struct buf *text, struct str *ret, struct err *e)
{
    int r = io_read_file(AT_FDCWD, path, LIST_BYTES_MAX, text, e);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    r = sidecar_lines(buf_str(text), ret, EGRESS_TARGETS_MAX);
    return r < 0 ? err_set(e, E2BIG, "%s has more than %d entries", path, EGRESS_TARGETS_MAX) : r;
}

static void note_file(struct always_file *f)
{
    struct stat st;
    bool there = stat(f->path, &st) == 0;

    f->bytes = there ? st.st_size : -1;
    f->mtime_ns = there ? st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : -1;
}

bool sidecar_always_changed(struct sidecar *s)
{
    bool changed = false;

    for (size_t i = 0; i < ARRAY_LEN(s->always); i++) {
        struct always_file before = s->always[i];

        note_file(&s->always[i]);
        changed |= before.bytes != s->always[i].bytes || before.mtime_ns != s->always[i].mtime_ns;
    }
    return changed;
}

int sidecar_always_load(struct sidecar *s, struct policy **ret, struct err *e)
{
    static struct str deny[EGRESS_TARGETS_MAX], allow[EGRESS_TARGETS_MAX]; /* loop thread only */
    AUTO_BUF(deny_text, LIST_BYTES_MAX);
    AUTO_BUF(allow_text, LIST_BYTES_MAX);
    int denied = read_list(s->always[0].path, &deny_text, deny, e);
    int allowed = denied < 0 ? denied : read_list(s->always[1].path, &allow_text, allow, e);
    int r =
        allowed < 0 ? allowed : policy_always(deny, (size_t)denied, allow, (size_t)allowed, ret, e);

    return r < 0 ? err_wrap(e, r, "lists of the operator") : 0;
}

int sidecar_skip_load(struct sidecar *s, struct err *e)
{
    static struct str lines[EGRESS_TARGETS_MAX]; /* at start only */
    AUTO_BUF(text, LIST_BYTES_MAX);
    int n = read_list(SKIP_FILE, &text, lines, e);
    struct policy_net net;
    int r;

    if (n < 0)
        return n;
    for (int i = 0; i < n; i++) {
        size_t line = 1;

        for (const char *p = text.p; p < lines[i].p; p++)
            line += *p == '\n';
        if (policy_net_parse(lines[i], &net) == 0)
            return err_set(e, EINVAL, SKIP_FILE ": line %zu: '%.*s' is no name", line,
                           STR_ARG(lines[i]));
    }
    r = policy_always(lines, (size_t)n, NULL, 0, &s->egress.log_skip, e);
    return r < 0 ? err_wrap(e, r, SKIP_FILE) : 0;
}

/* --- the authority of interception --- */

int sidecar_ca_dir(struct err *e)
{
    int fd;

    if ((mkdir("/var/lib/mitmproxy", 0755) < 0 && errno != EEXIST) ||
        (mkdir(CA_DIR, 0700) < 0 && errno != EEXIST))
        return err_sys(e, errno, "make " CA_DIR);
    fd = open(CA_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open " CA_DIR) : fd;
}

int sidecar_ca_export(struct str certificate, struct err *e)
{
    auto_fd own = sidecar_ca_dir(e), shared = -EBADF;
    int r;

    if (own < 0)
        return own;
    if (mkdir(CA_SHARED, 0755) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make " CA_SHARED);
    shared = open(CA_SHARED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (shared < 0)
        return err_sys(e, errno, "open " CA_SHARED);
    r = io_write_file_atomic(own, CA_NAME, certificate, 0644, e);
    return r < 0 ? r : io_write_file_atomic(shared, CA_NAME, certificate, 0644, e);
}
