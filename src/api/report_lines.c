/* report_lines.c - the entrypoint's log by lines, each with the time it was printed. */
#include <errno.h>
#include <stdlib.h>

#include "api/report.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"

static int compare_marks(const void *one, const void *other)
{
    const struct entry_log_mark *a = one, *b = other;

    return a->at != b->at ? (a->at < b->at ? -1 : 1) : (a->us > b->us) - (a->us < b->us);
}

/* Reads the marks in stream order into room for ENTRY_LOG_MARKS; returns their number. A mark
 * that is being written, or all marks of a hostile writer, may be wrong: then only the times are
 * wrong. */
static size_t marks_read(int fd, uint64_t written, struct entry_log_mark *marks)
{
    size_t bytes, count = 0;

    if (io_pread_full(fd, marks, ENTRY_LOG_MARKS * sizeof(*marks), ENTRY_LOG_MARKS_OFFSET, &bytes) <
        0)
        return 0;
    for (size_t i = 0; i < bytes / sizeof(*marks); i++)
        if (marks[i].us > 0 && marks[i].at <= written)
            marks[count++] = marks[i];
    qsort(marks, count, sizeof(*marks), compare_marks);
    return count;
}

/* The lines that began at or after the first mark of that time. */
static struct str lines_since(struct str text, uint64_t start, int64_t since_us,
                              const struct entry_log_mark *marks, size_t count)
{
    size_t i = 0, from;

    while (i < count && marks[i].us < since_us)
        i++;
    if (i == count)
        return str_skip(text, text.n);
    if (marks[i].at <= start)
        return text;
    from = min_size(marks[i].at - start, text.n);
    if (text.p[from - 1] != '\n') /* in the middle of an older line */
        from += min_size(str_find(str_skip(text, from), '\n') + 1, text.n - from);
    return str_skip(text, from);
}

static struct str last_lines(struct str text, uint32_t lines)
{
    size_t at = text.n;

    if (at > 0 && text.p[at - 1] == '\n')
        at--;
    for (; at > 0; at--)
        if (text.p[at - 1] == '\n' && --lines == 0)
            break;
    return str_skip(text, at);
}

/* `at` is the offset of the text in the stream. */
static int add_lines(struct str text, uint64_t at, const struct entry_log_mark *marks, size_t count,
                     struct buf *out)
{
    size_t next = 0;
    int r = 0;

    while (r == 0 && text.n > 0) {
        size_t n = min_size(str_find(text, '\n') + 1, text.n);
        char when[TIME_TEXT_MAX] = "-";

        while (next < count && marks[next].at <= at)
            next++;
        if (next > 0)
            (void)time_format(marks[next - 1].us, when);
        r = buf_addf(out, "%s ", when);
        if (r == 0)
            r = buf_add(out, str_make(text.p, n));
        text = str_skip(text, n);
        at += n;
    }
    return r;
}

int entry_log_read_lines(int fd, int64_t since_us, uint32_t lines_max, struct buf *out,
                         bool *ret_cut)
{
    AUTO_BUF(text, ENTRY_LOG_READ_MAX);
    auto_free struct entry_log_mark *marks = mem_new_array(struct entry_log_mark, ENTRY_LOG_MARKS);
    uint64_t written = 0;
    size_t count, before = out->n;
    struct str wanted, shown;
    int r = entry_log_read(fd, ENTRY_LOG_READ_MAX, &text, &written);

    if (r < 0)
        return r;
    count = marks_read(fd, written, marks);
    wanted = buf_str(&text);
    if (since_us > 0 && count > 0)
        wanted = lines_since(wanted, written - text.n, since_us, marks, count);
    shown = last_lines(wanted, lines_max);
    r = add_lines(shown, written - shown.n, marks, count, out);
    if (r < 0)
        buf_cut(out, before);
    else
        *ret_cut = shown.n < wanted.n || (wanted.n == text.n && written > text.n);
    return r;
}
