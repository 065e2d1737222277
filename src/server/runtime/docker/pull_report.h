/* pull_report.h - the report of a pull, which the engine sends as a line of JSON per step: counts
 * layers and bytes, and keeps the error. Bytes in, a sentence out. */
#pragma once

#include "base/buf.h"
#include "base/map.h"

enum { PULL_LAYERS_MAX = 512 };

struct pull_report {
    struct buf text;   /* what came of a line */
    bool skipping;     /* the rest of a line that was too long */
    struct map layers; /* by id: struct pull_layer */
    char error[200];   /* "" = none */
};

void pull_report_init(struct pull_report *p);
void pull_report_done(struct pull_report *p);
/* Lines that make no sense are skipped. */
void pull_report_feed(struct pull_report *p, struct str piece);
/* "pulling image python: 2 of 5 layers, 31 of 120 MB". */
void pull_report_message(const struct pull_report *p, struct str image, char *out, size_t out_size);
