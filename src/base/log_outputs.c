#include "base/log_outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/log_rotate.h"
#include "base/time.h"

enum {
    OUTPUTS_MAX = 8,
    CONSTANT_BYTES_MAX = 16 * 1024,
    FILE_BYTES_MAX = 100 << 20,
    KEPT = 10,
    KEPT_S = 30 * 24 * 3600,
    WRITE_MS = 1000,
};

struct output {
    int fd;
    char path[PATH_MAX]; /* "" = not a file of ours */
    uint64_t bytes;
};

/* The log of the process; log.h keeps its own state the same way. */
static struct {
    pthread_mutex_t lock;
    struct output outputs[OUTPUTS_MAX];
    size_t count;
    struct buf constant; /* members of every line, with a comma behind each */
} logs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
}

static void rotate(struct output *o)
{
    char dir_text[PATH_MAX], name_text[PATH_MAX];
    auto_fd dir = -EBADF;
    const char *name;
    int fd;

    memcpy(dir_text, o->path, sizeof(dir_text));
    memcpy(name_text, o->path, sizeof(name_text));
    dir = open(dirname(dir_text), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name = basename(name_text);
    o->bytes = 0;
    if (dir < 0 || log_rotate(dir, name, KEPT) < 0)
        return; /* it grows on, and the next attempt comes as late */
    log_rotate_drop(dir, name, KEPT, time(NULL) - KEPT_S);
    fd = open_file(o->path);
    if (fd >= 0) {
        fd_close(o->fd);
        o->fd = fd;
    }
}

static void put_line(void *user UNUSED, enum log_level level UNUSED, const char *message UNUSED,
                     struct str line)
{
    AUTO_BUF(out, CONSTANT_BYTES_MAX + LOG_LINE_MAX + 16);

    if (line.n < 2 || buf_add_char(&out, '{') < 0 || buf_add(&out, buf_str(&logs.constant)) < 0 ||
        buf_add(&out, str_skip(line, 1)) < 0)
        return;
    (void)pthread_mutex_lock(&logs.lock);
    for (size_t i = 0; i < logs.count; i++) {
        struct output *o = &logs.outputs[i];

        if (o->path[0] && o->bytes > FILE_BYTES_MAX)
            rotate(o);
        if (io_write_full(o->fd, buf_str(&out), deadline_in_ms(WRITE_MS)) == 0)
            o->bytes += out.n;
    }
    (void)pthread_mutex_unlock(&logs.lock);
}

static int add_output(struct str text, struct err *e)
{
    struct output *o = &logs.outputs[logs.count];
    struct stat st;

    if (text.n == 0)
        return 0;
    if (logs.count == OUTPUTS_MAX || str_copy(o->path, sizeof(o->path), text) < 0)
        return err_set(e, EINVAL, "OPENSANDBOX_LOG_OUTPUT has too many entries, or a long one");
    if (str_eq_nocase(text, STR("stdout")) || str_eq_nocase(text, STR("stderr"))) {
        o->fd = str_eq_nocase(text, STR("stdout")) ? STDOUT_FILENO : STDERR_FILENO;
        o->path[0] = '\0';
    } else {
        o->fd = open_file(o->path);
        if (o->fd < 0)
            return err_sys(e, errno, "open the log %s", o->path);
        o->bytes = fstat(o->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    }
    logs.count++;
    return 0;
}

static int add_constant(struct str key, struct str value)
{
    AUTO_BUF(member, 4096);
    struct json_writer w;

    json_write_begin(&w, &member);
    json_write_object(&w);
    json_member_string(&w, key, value);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return -EINVAL;
    return buf_addf(&logs.constant, "%.*s,", (int)(member.n - 2), member.p + 1);
}

int log_outputs_start(const struct log_outputs_conf *conf, struct err *e)
{
    struct str rest = conf->outputs.n ? conf->outputs : STR("stdout"), entry;
    int r = 0;

    buf_init(&logs.constant, CONSTANT_BYTES_MAX);
    while (r == 0 && rest.n && str_cut(&rest, ',', &entry))
        r = add_output(str_trim(entry), e);
    if (r == 0 && logs.count == 0)
        r = add_output(STR("stdout"), e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < conf->member_count; i++)
        if (conf->members[i].value.n)
            (void)add_constant(conf->members[i].key, conf->members[i].value);
    log_init(&(struct log_conf){.level = conf->level,
                                .format = LOG_JSON_BRIEF,
                                .fd = STDOUT_FILENO,
                                .area = conf->area,
                                .sink = put_line});
    return 0;
}
