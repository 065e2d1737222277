/* Input: a pattern, a newline, a text. Whatever they are, matching ends; what holds for all
 * patterns is checked. */
#include "execd/tree/glob.h"

#include "base/buf.h"
#include "base/str.h"
#include "fuzz.h"

static int match(struct str pattern, struct str text)
{
    struct glob *g = NULL;
    int r = glob_new(pattern, &g, NULL);

    if (r == 0)
        r = glob_match(g, text);
    glob_free(g);
    return r;
}

/* Reads the same within parentheses. */
static bool is_plain(struct str pattern)
{
    for (size_t i = 0; i < pattern.n; i++)
        if (strchr("|()\\", pattern.p[i])) /* a NUL too */
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size), pattern;
    AUTO_BUF(twice, 4096);
    AUTO_BUF(escaped, 8192);
    int r;

    if (!str_cut(&text, '\n', &pattern) || text.n > 512)
        return 0;
    r = match(pattern, text);
    if (r >= 0) { /* a double negation is the pattern itself, where no slash is about */
        if (str_find(text, '/') == text.n && pattern.n + 6 <= GLOB_BYTES_MAX &&
            buf_add(&twice, STR("!(!(")) == 0 && buf_add(&twice, pattern) == 0 &&
            buf_add(&twice, STR("))")) == 0 && is_plain(pattern)) {
            int again = match(buf_str(&twice), text);

            FUZZ_CHECK(again < 0 || again == r);
        }
    }
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] >= 0x80 || buf_addf(&escaped, "\\%c", text.p[i]) < 0)
            return 0;
    if (str_find(text, '\0') == text.n && escaped.n <= GLOB_BYTES_MAX)
        FUZZ_CHECK(match(buf_str(&escaped), text) == 1);
    FUZZ_CHECK(match(STR("**"), text) == 1);
    return 0;
}
