/* snapshot.h - snapshots as the lifecycle API shows them. Written as answer.h says. */
#pragma once

#include "api/answer.h"

enum snapshot_state {
    SNAPSHOT_CREATING,
    SNAPSHOT_READY,
    SNAPSHOT_FAILED,
    SNAPSHOT_DELETING,
    SNAPSHOT_STATE_COUNT,
};

const char *snapshot_state_name(enum snapshot_state state);                /* "Creating" */
int snapshot_state_parse(struct str name, enum snapshot_state *ret_state); /* -EINVAL */

struct api_snapshot {
    struct str id, sandbox_id, name;
    struct {
        enum snapshot_state state;
        struct str reason, message;
        int64_t since_us;
    } status;
    int64_t created_us;
    uint64_t size_bytes, frozen_ms; /* of one that is Ready */
};

int api_snapshot_write(struct buf *out, const struct api_snapshot *s);
void api_page_add_snapshot(struct api_page *p, const struct api_snapshot *s);
