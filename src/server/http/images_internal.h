/* images_internal.h - shared by the handlers of images. Those below are for workers. */
#pragma once

#include "api/image.h"
#include "server/http/server_internal.h"
#include "server/images/images.h"

enum { IMAGE_JSON_MAX = 16 << 20 };

/* The images of this server. NULL: there are none, and 501 was replied. */
struct images *require_images(struct http_req *req);

/* All names, and which of them one image has. */
struct image_list {
    struct image_store_image **at; /* by id, then by name */
    size_t count;
};
int image_list_load(struct images *im, struct image_list *ret, struct err *e);
void image_list_done(struct image_list *l);
/* The end of those with the same id as the one at `first`. */
size_t image_list_next(const struct image_list *l, size_t first);
/* Finds what a request calls an image: a name, an id, or the first 12 digits of one or more. The
 * first of those with its id; *ret_name is the one that was named, or NULL. -ENOENT, -EINVAL. */
int image_list_find(const struct image_list *l, struct str text, size_t *ret_first,
                    const char **ret_name, struct err *e);

/* Writes the images from `first` up to the next id. */
void image_write(struct images *im, const struct image_list *l, size_t first,
                 struct json_writer *w);
/* The same for what a request calls an image, as a document. */
int image_write_named(struct images *im, struct str text, struct buf *out, struct err *e);

/* The answer to an error of src/image. */
void image_fail(const struct err *e, struct api_fail *f);
