/* audit_read.c - the files of the audit record, and what a query finds in them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/audit/audit_internal.h"

enum { LINE_ARENA_MAX = 256 << 10 };

#define NAME_FORMAT "audit-%016llu.jsonl"

void audit_name(uint64_t first, char ret[AUDIT_NAME_MAX])
{
    (void)snprintf(ret, AUDIT_NAME_MAX, NAME_FORMAT, (unsigned long long)first);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool parse_name(const char *name, uint64_t *ret)
{
    struct str s = str_of(name);

    if (!str_starts(s, STR("audit-")) || !str_ends(s, STR(".jsonl")))
        return false;
    s = str_skip(s, STR("audit-").n);
    s.n -= STR(".jsonl").n;
    return str_to_u64(s, ret) == 0 && *ret > 0;
}

int audit_list(int dir, uint64_t **ret, size_t *ret_count, struct err *e)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0, room = 0;
    uint64_t *files = NULL, first;
    struct dirent *entry;

    if (!d) {
        int code = errno;

        fd_close(fd);
        return err_sys(e, code, "list the directory");
    }
    while ((entry = readdir(d)) && n < AUDIT_FILES_MAX) {
        if (!parse_name(entry->d_name, &first))
            continue;
        if (n == room) {
            uint64_t *more = mem_new_array(uint64_t, room ? 2 * room : 64);

            if (n)
                memcpy(more, files, n * sizeof(*files));
            room = room ? 2 * room : 64;
            free(files);
            files = more;
        }
        files[n++] = first;
    }
    (void)closedir(d);
    if (n)
        qsort(files, n, sizeof(*files), compare);
    *ret = files;
    *ret_count = n;
    return 0;
}

int audit_line_parse(struct str line, uint64_t *ret_seq, struct str *ret_hash)
{
    const struct str begin = STR("{\"seq\":"), mark = STR(",\"hash\":\"");
    struct str number, rest = line;
    const size_t tail = mark.n + AUDIT_HASH_MAX - 1 + STR("\"}").n;

    if (!str_starts(line, begin) || line.n < begin.n + tail)
        return -EBADMSG;
    rest = str_skip(rest, begin.n);
    if (!str_cut(&rest, ',', &number) || str_to_u64(number, ret_seq) < 0)
        return -EBADMSG;
    rest = str_skip(line, line.n - tail);
    if (!str_starts(rest, mark) || !str_ends(rest, STR("\"}")))
        return -EBADMSG;
    *ret_hash = str_make(rest.p + mark.n, AUDIT_HASH_MAX - 1);
    return 0;
}

/* --- queries --- */

struct search {
    const struct audit_query *q;
    struct buf *out;
    struct arena arena;
    uint64_t last;
    uint32_t found;
    bool full; /* there may be more */
    int error;
};

static bool is_value(const struct json *root, const char *name, struct str wanted)
{
    struct str value;

    return !wanted.n ||
           (json_to_str(json_get(root, str_of(name)), &value) == 0 && str_eq(value, wanted));
}

/* A target is ids joined by '/': one of them is enough. */
static bool has_target(const struct json *root, struct str wanted)
{
    struct str value, part;

    if (!wanted.n)
        return true;
    if (json_to_str(json_get(root, STR("target")), &value) < 0)
        return false;
    if (str_eq(value, wanted))
        return true;
    while (str_cut(&value, '/', &part))
        if (str_eq(part, wanted))
            return true;
    return false;
}

static bool is_in_time(const struct json *root, const struct audit_query *q)
{
    struct str text;
    int64_t us;

    if (!q->since_us && !q->until_us)
        return true;
    if (json_to_str(json_get(root, STR("time")), &text) < 0 || time_parse(text, &us, NULL) < 0)
        return false;
    return us >= q->since_us && (!q->until_us || us <= q->until_us);
}

static bool matches(struct search *s, struct str line)
{
    const struct audit_query *q = s->q;
    struct json *root = NULL;

    if (!q->principal.n && !q->tenant.n && !q->method.n && !q->route.n && !q->target.n &&
        !q->outcome.n && !q->since_us && !q->until_us)
        return true;
    arena_reset(&s->arena);
    return json_parse(&s->arena, line, NULL, &root, NULL) == 0 &&
           is_value(root, "principal", q->principal) && is_value(root, "tenant", q->tenant) &&
           is_value(root, "method", q->method) && is_value(root, "route", q->route) &&
           is_value(root, "outcome", q->outcome) && has_target(root, q->target) &&
           is_in_time(root, q);
}

/* False when the search is over. */
static bool visit(struct search *s, struct str line)
{
    uint64_t seq;
    struct str hash;

    if (audit_line_parse(line, &seq, &hash) < 0)
        return true; /* `osb audit verify` finds it */
    if ((s->q->before && seq >= s->q->before) || (s->q->ascending && seq <= s->q->after) ||
        !matches(s, line))
        return true;
    if (s->found == s->q->limit) {
        s->full = true;
        return false;
    }
    if (!s->q->raw && s->found)
        s->error = buf_add_char(s->out, ',');
    if (s->error == 0)
        s->error = buf_add(s->out, line);
    if (s->error == 0 && s->q->raw)
        s->error = buf_add_char(s->out, '\n');
    s->found++;
    s->last = seq;
    return s->error == 0;
}

static bool visit_up(struct search *s, struct str text)
{
    struct str line;

    while (str_cut(&text, '\n', &line))
        if (line.n && !visit(s, line))
            return false;
    return true;
}

static bool visit_down(struct search *s, struct str text)
{
    size_t end = text.n;

    while (end > 0) {
        size_t begin = end - 1; /* end is behind a '\n' */

        while (begin > 0 && text.p[begin - 1] != '\n')
            begin--;
        if (!visit(s, str_make(text.p + begin, end - 1 - begin)))
            return false;
        end = begin;
    }
    return true;
}

static int search_file(struct audit *a, struct search *s, uint64_t first, bool *ret_goes_on,
                       struct err *e)
{
    AUTO_BUF(text, AUDIT_FILE_BYTES_MAX + 2 * AUDIT_QUEUE_MAX);
    char name[AUDIT_NAME_MAX];
    struct str whole;
    int r;

    audit_name(first, name);
    r = io_read_regular(a->dir, name, text.max, &text, e);
    if (r == -ENOENT)
        return 0; /* dropped meanwhile */
    if (r < 0)
        return r;
    whole = buf_str(&text);
    while (whole.n && whole.p[whole.n - 1] != '\n')
        whole.n--; /* being written */
    *ret_goes_on = s->q->ascending ? visit_up(s, whole) : visit_down(s, whole);
    return 0;
}

int audit_read(struct audit *a, const struct audit_query *q, struct buf *out, uint64_t *ret_last,
               struct err *e)
{
    struct search s = {.q = q, .out = out};
    auto_free uint64_t *files = NULL;
    size_t count = 0;
    bool goes_on = true;
    int r = audit_list(a->dir, &files, &count, e);

    arena_init(&s.arena, LINE_ARENA_MAX);
    for (size_t i = 0; r == 0 && goes_on && i < count; i++) {
        size_t at = q->ascending ? i : count - 1 - i;

        if ((q->before && files[at] >= q->before) ||
            (q->ascending && at + 1 < count && files[at + 1] <= q->after + 1))
            continue;
        r = search_file(a, &s, files[at], &goes_on, e);
    }
    arena_done(&s.arena);
    if (r == 0 && s.error < 0)
        r = err_set(e, EMSGSIZE, "the answer is too large; ask for fewer by limit");
    *ret_last = s.full ? s.last : 0;
    return r;
}
