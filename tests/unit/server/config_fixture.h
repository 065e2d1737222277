/* config_fixture.h - configurations from text, and what was said about them. */
#pragma once

#include "server/config/config_internal.h"
#include "test.h"

struct parsed {
    struct config *config; /* NULL when it was refused */
    struct config_report report;
};

static inline void parsed_done(struct parsed *p)
{
    config_free(p->config);
    config_report_done(&p->report);
}
#define auto_parsed __attribute__((cleanup(parsed_done))) struct parsed

static inline struct parsed parse(const char *text)
{
    struct parsed p = {0};

    config_report_init(&p.report);
    (void)!config_parse(str_of(text), "c.toml", &p.config, &p.report);
    return p;
}

#define PARSE(name, text)                                                                          \
    auto_parsed name = parse(text);                                                                \
    if (!name.config)                                                                              \
    test_fail(__FILE__, __LINE__, "%s", name.report.lines.p)

/* The whole report of a text that must be refused (or, of warnings, need not). */
#define CHECK_REPORT(text, want)                                                                   \
    do {                                                                                           \
        auto_parsed parsed_ = parse(text);                                                         \
        CHECK_STR(parsed_.report.lines.p, want);                                                   \
    } while (0)
