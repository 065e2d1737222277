#include "execd/metrics/figures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    TEXT_BYTES_MAX = 8 << 10,
    PROC_ENTRIES_MAX = 1 << 16,
    TRAFFIC_IN = 0, /* columns of /proc/net/dev after the name */
    TRAFFIC_OUT = 8,
};

/* --- parsers --- */

/* The next word of a line; STR_NONE at its end. */
static struct str next_word(struct str *line)
{
    struct str word;

    *line = str_trim(*line);
    if (line->n == 0 || !str_cut(line, ' ', &word))
        return STR_NONE;
    return word;
}

static int column(struct str line, size_t at, int64_t *ret)
{
    struct str word = next_word(&line);

    while (at-- > 0)
        word = next_word(&line);
    return str_to_i64_range(word, 0, INT64_MAX, ret) < 0 ? -EINVAL : 0;
}

int figures_parse_traffic(struct str text, int64_t *ret_in, int64_t *ret_out)
{
    struct str line, name;
    int64_t in, out, all_in = 0, all_out = 0;

    while (str_cut(&text, '\n', &line)) {
        if (str_find(line, ':') >= line.n) /* one of the two header lines */
            continue;
        (void)str_cut(&line, ':', &name);
        if (str_eq(str_trim(name), STR("lo")))
            continue;
        if (column(line, TRAFFIC_IN, &in) < 0 || column(line, TRAFFIC_OUT, &out) < 0 ||
            __builtin_add_overflow(all_in, in, &all_in) ||
            __builtin_add_overflow(all_out, out, &all_out))
            return -EINVAL;
    }
    *ret_in = all_in;
    *ret_out = all_out;
    return 0;
}

/* The file has a line of names, followed by a line of numbers. */
int figures_parse_established(struct str text, int64_t *ret)
{
    struct str names, numbers, word;

    while (str_cut(&text, '\n', &names) && !str_starts(names, STR("Tcp: ")))
        ;
    if (!str_cut(&text, '\n', &numbers) || !str_starts(numbers, STR("Tcp: ")))
        return -EINVAL;
    for (size_t at = 0; (word = next_word(&names)).p; at++)
        if (str_eq(word, STR("CurrEstab")))
            return column(numbers, at, ret);
    return -ENOENT;
}

int figures_parse_in_use(struct str text, const char *row, int64_t *ret)
{
    struct str line, name;

    while (str_cut(&text, '\n', &line)) {
        if (!str_cut(&line, ':', &name) || !str_eq(name, str_of(row)))
            continue;
        return str_eq(next_word(&line), STR("inuse")) ? column(line, 0, ret) : -EINVAL;
    }
    return -ENOENT;
}

/* --- files --- */

static struct str read_text(const char *path, char room[TEXT_BYTES_MAX])
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, room, TEXT_BYTES_MAX);

    return n < 0 ? STR_NONE : str_make(room, (size_t)n);
}

static int64_t count_processes(void)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    int64_t n = 0;

    if (!proc)
        return -1;
    for (int i = 0; i < PROC_ENTRIES_MAX && (entry = readdir(proc)); i++)
        n += ascii_is_digit(entry->d_name[0]);
    (void)closedir(proc);
    return n;
}

void figures_take(struct figures *ret)
{
    char room[TEXT_BYTES_MAX];
    int64_t more;

    *ret = (struct figures){.processes = count_processes(), -1, -1, -1, -1};
    if (figures_parse_traffic(read_text("/proc/net/dev", room), &ret->bytes_in, &ret->bytes_out) <
        0)
        ret->bytes_in = ret->bytes_out = -1;
    if (figures_parse_established(read_text("/proc/net/snmp", room), &ret->tcp) < 0)
        ret->tcp = -1;
    if (figures_parse_in_use(read_text("/proc/net/sockstat", room), "UDP", &ret->udp) < 0)
        ret->udp = -1;
    else if (figures_parse_in_use(read_text("/proc/net/sockstat6", room), "UDP6", &more) == 0)
        ret->udp += more;
}
