/* A text is a configuration or is refused with a reason; one that is, prints as TOML that reads as
 * the same. */
#include <string.h>

#include "fuzz.h"
#include "server/config/config.h"

enum { PRINT_MAX = 8 * 1024 * 1024 };

/* What the two say must not differ but in where values came from. */
static struct str line_content(struct str line)
{
    for (size_t i = 0; i + 7 <= line.n; i++)
        if (memcmp(line.p + i, " # line", 7) == 0)
            line.n = i;
    return line;
}

static bool same_but_for_origins(struct str a, struct str b)
{
    struct str line_a, line_b;

    while (str_cut(&a, '\n', &line_a)) {
        if (!str_cut(&b, '\n', &line_b) || !str_eq(line_content(line_a), line_content(line_b)))
            return false;
    }
    return b.p == NULL;
}

static void check_round_trip(const struct config *c)
{
    AUTO_BUF(once, PRINT_MAX);
    AUTO_BUF(twice, PRINT_MAX);
    struct config_report report;
    struct config *again = NULL;

    FUZZ_CHECK(config_print(c, true, &once) == 0);
    config_report_init(&report);
    FUZZ_CHECK(config_parse(buf_str(&once), "fuzz", &again, &report) == 0);
    FUZZ_CHECK(config_print(again, true, &twice) == 0);
    FUZZ_CHECK(same_but_for_origins(buf_str(&once), buf_str(&twice)));
    config_report_done(&report);
    config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_report report;
    struct config *c = NULL;
    int r;

    if (size > CONFIG_FILE_BYTES_MAX)
        return 0;
    config_report_init(&report);
    r = config_parse(str_make((const char *)data, size), "fuzz", &c, &report);
    FUZZ_CHECK((r == 0) == (report.errors == 0) && (r == 0) == (c != NULL));
    FUZZ_CHECK(r == 0 || report.lines.n > 0);
    if (c) {
        (void)config_image_find(c, str_make((const char *)data, size % 64));
        check_round_trip(c);
    }
    config_report_done(&report);
    config_free(c);
    return 0;
}
