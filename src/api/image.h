/* image.h - bodies of requests about images, and images as JSON: an extension of the lifecycle
 * API. */
#pragma once

#include "api/create.h"
#include "base/json_write.h"

struct api_image_pull {
    struct str image, auth_user, auth_password;
    struct str platform; /* "linux/amd64"; "" = the server's */
    int policy;          /* enum api_pull_policy */
};
int api_image_pull_parse(struct arena *a, struct str type, struct str body,
                         struct api_image_pull *ret, struct api_fail *f);

/* {"maxBytes":n}; without it, or without a body, UINT64_MAX. */
int api_image_prune_parse(struct arena *a, struct str type, struct str body, uint64_t *ret_bytes,
                          struct api_fail *f);

/* The same bodies from a client's side, appended to `out`: 0 or -errno as json_write_end. */
int api_image_pull_write(struct buf *out, const struct api_image_pull *pull);
int api_image_prune_write(struct buf *out, uint64_t bytes_max); /* UINT64_MAX = {} */

/* Lists may be empty; texts that are "" are left out. */
struct api_image {
    struct str id;
    struct str *names, *entrypoint, *cmd, *env, *ports;
    size_t names_count, entrypoint_count, cmd_count, env_count, ports_count;
    uint64_t bytes, layers, users;
    int64_t created_us, last_used_us;
    struct str os, arch, variant;
    struct str user, workdir;
};
void api_image_write(struct json_writer *w, const struct api_image *image);

/* One document of the stream that answers a pull. */
enum api_pull_event_type { API_PULL_OTHER, API_PULL_PROGRESS, API_PULL_DONE, API_PULL_ERROR };
struct api_pull_event {
    int type; /* enum api_pull_event_type */
    struct str message, code;
    uint64_t bytes_done, bytes_total;
    const struct json *image; /* of API_PULL_DONE, else NULL */
};
int api_pull_event_read(struct arena *a, const struct json *v, struct api_pull_event *ret,
                        struct err *e);
