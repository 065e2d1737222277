/* audit.c - adding to the audit record. */
#include "server/audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/audit/audit_internal.h"
#include "server/audit/webhook.h"

enum {
    RETRY_MS = 1000,
    SYSLOG_BYTES_MAX = 8 << 10,
    SYSLOG_PRIORITY = 10 * 8 + 6 /* authpriv.info */
};

/* --- opening --- */

static int read_last_line(struct audit *a, const char *name, struct err *e)
{
    AUTO_BUF(text, AUDIT_FILE_BYTES_MAX + AUDIT_QUEUE_MAX + AUDIT_ENTRY_MAX);
    struct str hash, whole, line;
    size_t end, begin;
    int r = io_read_regular(a->dir, name, text.max, &text, e);

    if (r < 0)
        return r;
    whole = buf_str(&text);
    for (end = whole.n; end > 0 && whole.p[end - 1] != '\n'; end--)
        ;
    if (end < whole.n) {
        log_event(LOG_WARN, "the audit record ends in a line that was not complete, cutting it",
                  LOG_STR("file", name));
        if (ftruncate(a->fd, (off_t)end) < 0)
            return err_sys(e, errno, "cut it");
    }
    a->bytes = end;
    if (!end)
        return 0;
    for (begin = end - 1; begin > 0 && whole.p[begin - 1] != '\n'; begin--)
        ;
    line = str_make(whole.p + begin, end - 1 - begin);
    if (audit_line_parse(line, &a->head.seq, &hash) < 0 ||
        str_copy(a->head.hash, sizeof(a->head.hash), hash) < 0)
        return err_set(e, EUCLEAN,
                       "its last line is no entry; move the directory away to begin anew");
    return 0;
}

static int open_file(struct audit *a, uint64_t first, struct err *e)
{
    char name[AUDIT_NAME_MAX];

    audit_name(first, name);
    a->fd = openat(a->dir, name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (a->fd < 0)
        return err_sys(e, errno, "open '%s'", name);
    a->first = first;
    a->bytes = 0;
    return 0;
}

static int open_last(struct audit *a, struct err *e)
{
    auto_free uint64_t *files = NULL;
    char name[AUDIT_NAME_MAX];
    size_t count = 0;
    int r = audit_list(a->dir, &files, &count, e);

    if (r < 0)
        return r;
    r = open_file(a, count ? files[count - 1] : 1, e);
    if (r < 0 || !count)
        return r;
    a->head.seq = files[count - 1] - 1;
    audit_name(a->first, name);
    r = read_last_line(a, name, e);
    return r < 0 ? err_wrap(e, r, "'%s'", name) : 0;
}

/* The hash before the first line of an empty newest file is that of the last line before it. */
static int find_hash(struct audit *a, struct err *e)
{
    struct audit_query q = {.before = a->first, .limit = 1, .raw = true};
    AUTO_BUF(line, 2 * AUDIT_ENTRY_MAX);
    uint64_t last, seq;
    struct str hash;
    int r;

    if (a->bytes || a->first == 1)
        return 0;
    r = audit_read(a, &q, &line, &last, e);
    if (r == 0 && line.n && audit_line_parse(str_make(line.p, line.n - 1), &seq, &hash) == 0)
        (void)!str_copy(a->head.hash, sizeof(a->head.hash), hash);
    return r;
}

static int open_syslog(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd;

    if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_of(path)) < 0)
        return -ENAMETOOLONG;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int code = errno;

        fd_close(fd);
        return -code;
    }
    return fd < 0 ? -errno : fd;
}

int audit_open(const struct audit_conf *conf, struct audit **ret, struct err *e)
{
    struct audit *a = mem_new(struct audit);
    int r = 0;

    a->conf = *conf;
    a->fd = a->syslog = -EBADF;
    buf_init(&a->waiting, AUDIT_QUEUE_MAX + AUDIT_ENTRY_MAX);
    buf_init(&a->writing, AUDIT_QUEUE_MAX + AUDIT_ENTRY_MAX);
    buf_init(&a->lines, 2 * AUDIT_QUEUE_MAX);
    (void)pthread_mutex_init(&a->mutex, NULL);
    memset(a->head.hash, '0', sizeof(a->head.hash) - 1);
    if (mkdir(conf->dir, 0700) < 0 && errno != EEXIST)
        r = err_sys(e, errno, "make the directory");
    a->dir = r < 0 ? -EBADF : open(conf->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && a->dir < 0)
        r = err_sys(e, errno, "open the directory");
    if (r == 0)
        r = open_last(a, e);
    if (r == 0)
        r = find_hash(a, e);
    if (r < 0) {
        audit_close(a);
        return err_wrap(e, r, "audit record '%s'", conf->dir);
    }
    a->next = a->head;
    *ret = a;
    return 0;
}

/* --- writing: on a worker --- */

/* "{...}" -> {"seq":7,...,"prev":"...","hash":"..."} and the new head. */
static int add_line(struct audit *a, struct str entry)
{
    size_t start = a->lines.n;
    uint8_t digest[SHA256_BYTES];
    int r;

    r = buf_addf(&a->lines, "{\"seq\":%llu,%.*s,\"prev\":\"%s\"",
                 (unsigned long long)a->next.seq + 1, (int)(entry.n - 2), entry.p + 1,
                 a->next.hash);
    if (r < 0)
        return r;
    sha256_of(str_make(a->lines.p + start, a->lines.n - start), digest);
    a->next.hash[hex_encode(str_make((const char *)digest, sizeof(digest)), a->next.hash)] = '\0';
    a->next.seq++;
    r = buf_addf(&a->lines, ",\"hash\":\"%s\"}\n", a->next.hash);
    if (r < 0)
        buf_cut(&a->lines, start);
    return r;
}

static void drop_old_files(struct audit *a)
{
    auto_free uint64_t *files = NULL;
    char name[AUDIT_NAME_MAX];
    size_t count = 0;

    if (!a->conf.files_kept || audit_list(a->dir, &files, &count, NULL) < 0)
        return;
    for (size_t i = 0; i + a->conf.files_kept + 1 < count; i++) {
        audit_name(files[i], name);
        (void)unlinkat(a->dir, name, 0);
    }
}

static int next_file(struct audit *a, struct err *e)
{
    int old = a->fd, r;

    if (fsync(old) < 0)
        return err_sys(e, errno, "flush");
    (void)pthread_mutex_lock(&a->mutex);
    r = open_file(a, a->head.seq + 1, e);
    (void)pthread_mutex_unlock(&a->mutex);
    if (r < 0) {
        a->fd = old;
        return r;
    }
    fd_close(old);
    drop_old_files(a);
    return 0;
}

static void send_syslog(struct audit *a, struct str lines)
{
    struct str line;
    AUTO_BUF(message, SYSLOG_BYTES_MAX);

    if (a->syslog < 0)
        a->syslog = open_syslog(a->conf.syslog);
    while (a->syslog >= 0 && str_cut(&lines, '\n', &line) && line.n) {
        buf_clear(&message);
        if (buf_addf(&message, "<%d>opensandbox-server: %.*s", SYSLOG_PRIORITY, STR_ARG(line)) < 0)
            continue;
        if (send(a->syslog, message.p, message.n, MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
            fd_close(a->syslog); /* the next round connects anew */
            a->syslog = -EBADF;
        }
    }
}

/* Appends `lines`; a part of them that was written is cut off again. */
static int write_lines(struct audit *a, struct err *e)
{
    int r;

    if (a->bytes >= a->conf.file_bytes && a->bytes) {
        r = next_file(a, e);
        if (r < 0)
            return r;
    }
    r = io_write_full(a->fd, buf_str(&a->lines), DEADLINE_NEVER);
    if (r < 0) {
        (void)!ftruncate(a->fd, (off_t)a->bytes);
        return err_sys(e, -r, "write");
    }
    a->bytes += a->lines.n;
    (void)pthread_mutex_lock(&a->mutex);
    a->head = a->next;
    (void)pthread_mutex_unlock(&a->mutex);
    if (a->conf.syslog[0])
        send_syslog(a, buf_str(&a->lines));
    return 0;
}

static void write_batch(struct audit *a)
{
    struct str rest = buf_str(&a->writing), entry;

    a->why = (struct err){0};
    a->next = a->head;
    buf_clear(&a->lines);
    while (str_cut(&rest, '\n', &entry) && entry.n)
        if (add_line(a, entry) < 0) {
            (void)err_set(&a->why, EMSGSIZE, "too many entries at once");
            return;
        }
    if (a->lines.n)
        (void)write_lines(a, &a->why);
}

static void on_work(struct pool_job *job)
{
    write_batch(container_of(job, struct audit, job));
}

static void audit_flush(struct audit *a);

static void on_retry(struct loop_timer *timer)
{
    struct audit *a = container_of(timer, struct audit, retry);

    a->busy = false;
    audit_flush(a);
}

static void on_written(struct pool_job *job, int error)
{
    struct audit *a = container_of(job, struct audit, job);

    if (error)
        return; /* the server ends: audit_close writes it */
    if (a->why.code) {
        if (!a->failing)
            log_event(LOG_ERROR, "cannot write the audit record, keeping its entries",
                      LOG_STR("error", a->why.msg));
        a->failing = true;
        loop_timer_after(a->conf.loop, &a->retry, RETRY_MS, on_retry);
        return;
    }
    if (a->failing)
        log_event(LOG_INFO, "the audit record can be written again");
    a->failing = false;
    if (a->conf.webhook)
        webhook_post(a->conf.webhook, STR("application/x-ndjson"), buf_str(&a->lines));
    buf_clear(&a->writing);
    a->busy = false;
    audit_flush(a);
}

/* The worker gets what waits; if one has something already, that comes with the next round. */
static void audit_flush(struct audit *a)
{
    struct buf empty = a->writing;

    if (a->busy || (!a->waiting.n && !a->writing.n))
        return;
    if (!a->writing.n) {
        a->writing = a->waiting;
        a->waiting = empty;
    }
    a->busy = pool_submit(a->conf.pool, &a->job, a->conf.loop, on_work, on_written, POOL_SLOW) == 0;
    if (!a->busy) {
        a->busy = true; /* until the timer */
        loop_timer_after(a->conf.loop, &a->retry, RETRY_MS, on_retry);
    }
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    loop_timer_stop(a->conf.loop, &a->retry);
    for (int i = 0; i < 2 && a->fd >= 0; i++) {
        if (a->writing.n)
            write_batch(a);
        buf_clear(&a->writing);
        (void)buf_add(&a->writing, buf_str(&a->waiting));
        buf_clear(&a->waiting);
    }
    if (a->fd >= 0)
        (void)fsync(a->fd);
    fd_close(a->fd);
    fd_close(a->dir);
    fd_close(a->syslog);
    buf_done(&a->waiting);
    buf_done(&a->writing);
    buf_done(&a->lines);
    (void)pthread_mutex_destroy(&a->mutex);
    free(a);
}

/* --- adding: on the loop --- */

const char *audit_outcome(int status)
{
    if (status >= 500 || status == 0)
        return "failed";
    return status >= 400 ? "refused" : "success";
}

bool audit_is_full(const struct audit *a)
{
    return a && a->waiting.n >= AUDIT_QUEUE_MAX;
}

static struct str cut(struct str s, size_t max)
{
    return str_make(s.p, min_size(s.n, max));
}

void audit_add(struct audit *a, const struct audit_entry *n)
{
    enum { TEXT_MAX = 1024 };
    struct json_writer w;

    if (!a)
        return;
    json_write_begin(&w, &a->waiting);
    json_write_object(&w);
    json_member_time(&w, STR("time"), n->time_us);
    json_member_string(&w, STR("principal"), str_of(n->by->key_id));
    json_member_string(&w, STR("tenant"), str_of(n->by->tenant));
    json_member_string(&w, STR("role"), str_of(principal_role_name(n->by->role)));
    if (n->by->user[0])
        json_member_string(&w, STR("user"), str_of(n->by->user));
    json_member_string(&w, STR("requestId"), n->request_id);
    json_member_string(&w, STR("peer"), n->peer);
    json_member_string(&w, STR("method"), cut(n->method, TEXT_MAX));
    json_member_string(&w, STR("route"), cut(n->route, TEXT_MAX));
    json_member_string(&w, STR("target"), cut(n->target, TEXT_MAX));
    json_member_i64(&w, STR("status"), n->status);
    json_member_string(&w, STR("outcome"), str_of(audit_outcome(n->status)));
    json_member_u64(&w, STR("durationUs"), n->duration_us);
    json_write_object_end(&w);
    if (json_write_end(&w) == 0)
        (void)buf_add_char(&a->waiting, '\n'); /* there is room: one entry past the limit */
    audit_flush(a);
}

void audit_head_get(struct audit *a, struct audit_head *ret)
{
    (void)pthread_mutex_lock(&a->mutex);
    *ret = a->head;
    (void)pthread_mutex_unlock(&a->mutex);
}
