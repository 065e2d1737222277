#include "server/config/words.h"

#include <errno.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Copies the word at *at to `out`, which has room for the rest of the line. */
static int take_word(struct str line, size_t *at, char *out, size_t *ret_n)
{
    char quote = 0;
    size_t n = 0;

    for (; *at < line.n && (quote || !is_blank(line.p[*at])); ++*at) {
        char c = line.p[*at];

        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
        } else if (c == '\\' && quote != '\'' && *at + 1 < line.n) {
            char next = line.p[*at + 1];

            if (quote && next != '"' && next != '\\' && next != '$' && next != '`')
                out[n++] = c; /* inside double quotes a backslash escapes only these */
            out[n++] = next;
            ++*at;
        } else {
            out[n++] = c;
        }
    }
    *ret_n = n;
    return quote ? -EINVAL : 0;
}

int words_split(struct arena *a, struct str line, struct str **ret_words, size_t *ret_count)
{
    struct str *words = arena_new_array(a, struct str, line.n / 2 + 1);
    char *out = arena_alloc(a, line.n + 1);
    size_t count = 0, at = 0;

    if (!words || !out)
        return -ENOMEM;
    for (;;) {
        size_t n;
        int r;

        while (at < line.n && is_blank(line.p[at]))
            at++;
        if (at == line.n)
            break;
        r = take_word(line, &at, out, &n);
        if (r < 0)
            return r;
        words[count++] = str_make(out, n);
        out += n;
    }
    *ret_words = words;
    *ret_count = count;
    return 0;
}
