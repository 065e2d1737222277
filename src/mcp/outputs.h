/* outputs.h - texts too long for an answer, kept for a while as resources of MCP.
 *
 * The oldest go when there are too many or they are too large together. */
#pragma once

#include "base/json_write.h"
#include "base/list.h"

enum {
    OUTPUTS_MAX = 256,
    OUTPUTS_BYTES_MAX = 128 << 20,
    OUTPUT_BYTES_MAX = 16 << 20, /* of one */
    OUTPUT_URI_MAX = 64,
};
#define OUTPUT_URI "opensandbox://outputs/"

struct outputs {
    struct list all; /* the oldest first */
    size_t count, bytes;
};

struct output {
    struct list link;
    char uri[OUTPUT_URI_MAX];
    char *name;
    struct buf text;
};

void outputs_init(struct outputs *o);
void outputs_done(struct outputs *o);
/* Copies. -EFBIG beyond OUTPUT_BYTES_MAX, -ENOMEM. */
int outputs_add(struct outputs *o, const char *name, struct str text, const struct output **ret);
/* A URI with or without ?offset=&length=, which choose a part. NULL: gone, or malformed. */
const struct output *outputs_find(const struct outputs *o, struct str uri, struct str *ret_part);
/* That part, at whole characters: a character that begins in it is in it. */
struct str outputs_part(struct str text, uint64_t offset, uint64_t length);
