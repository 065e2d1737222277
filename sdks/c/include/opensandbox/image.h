/* image.h - the images that a server keeps: pull, import, export, list, remove.
 *
 * An extension of the lifecycle API; servers without it answer 404 or 501. An image is named as in
 * a create, or by its id, or by the first 12 or more digits of that. */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is in an answer of get, pull and import, or in item `index` of a page. */
struct osb_image;
size_t osb_image_count(const struct osb_answer *answer);
const struct osb_image *osb_image_at(const struct osb_answer *answer, size_t index); /* or NULL */
const char *osb_image_id(const struct osb_image *image); /* "sha256:..." */
size_t osb_image_name_count(const struct osb_image *image);
const char *osb_image_name(const struct osb_image *image, size_t index); /* or NULL */
int64_t osb_image_size(const struct osb_image *image);                   /* bytes of its blobs */
int64_t osb_image_layers(const struct osb_image *image);
bool osb_image_in_use(const struct osb_image *image); /* by sandboxes or snapshots */
const char *osb_image_json(const struct osb_image *image);

/* Of `filter` count page and page_size. */
int osb_image_list(struct osb_client *client, const struct osb_filter *filter,
                   struct osb_answer **ret_answer);
int osb_image_get(struct osb_client *client, const char *name, struct osb_answer **ret_answer);

/* message is what the server is doing; bytes_total is 0 until it is known. Not 0 ends the call with
 * -ECANCELED, and the pull with it unless somebody else waits for it. May make other calls. */
typedef int osb_progress_fn(void *user, const char *message, int64_t bytes_done,
                            int64_t bytes_total);

struct osb_pull {
    size_t size;
    const char *image;           /* "python:3.12-slim" */
    const char *user, *password; /* of the registry */
    const char *platform;        /* "linux/amd64"; NULL = the server's */
    const char *policy;          /* "IfNotPresent", "Always", "Never"; NULL = the server's */
    osb_progress_fn *on_progress;
    void *progress_user;
};
#define OSB_PULL .size = sizeof(struct osb_pull)

/* Returns when the image is there. Its only time limits are that of osb_client_set_timeout, and
 * idle_timeout_ms without a sign of life. ret_answer may be NULL. */
int osb_image_pull(struct osb_client *client, const struct osb_pull *pull,
                   struct osb_answer **ret_answer);

/* An archive of `docker save`, an OCI archive, or a tar of a root directory, also packed by gzip or
 * zstd. name: what it is called here; NULL = as the archive says. bytes: all the source will give;
 * 0 = unknown. The limit is an hour unless osb_client_set_timeout sets another. */
int osb_image_import(struct osb_client *client, const char *name, osb_source_fn *source, void *user,
                     int64_t bytes, struct osb_answer **ret_answer);
/* Pieces of an OCI archive go to `sink`. */
int osb_image_export(struct osb_client *client, const char *name, osb_sink_fn *sink, void *user);

/* Removes that name, and with its last name the image; an id removes all names. -EBUSY while
 * sandboxes or snapshots stand on it. */
int osb_image_delete(struct osb_client *client, const char *name);
/* Removes what no image has, and then images that nothing uses until the rest takes at most
 * bytes_max; -1 = no image is removed. The answer has "removed", names, and "freedBytes". */
int osb_image_prune(struct osb_client *client, int64_t bytes_max, struct osb_answer **ret_answer);

#ifdef __cplusplus
}
#endif
