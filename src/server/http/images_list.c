/* images_list.c - images as requests name them, and as answers show them. */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"
#include "image/problem.h"
#include "server/http/images_internal.h"

enum { ID_DIGITS_MIN = 12 };

struct images *require_images(struct http_req *req)
{
    struct images *im = server_of(req)->runtime->images;

    if (!im)
        http_reply_error(req, 501, "SANDBOX::API_NOT_SUPPORTED", "this runtime keeps no images");
    return im;
}

void image_fail(const struct err *e, struct api_fail *f)
{
    static const struct {
        enum image_problem problem;
        int status;
        const char *code;
    } rows[] = {
        {IMAGE_INVALID,   400, API_INVALID_PARAMETER},
        {IMAGE_NOT_FOUND, 404, "IMAGE::NOT_FOUND"   },
        {IMAGE_BUSY,      503, "SERVICE_UNAVAILABLE"},
        {IMAGE_DISK_FULL, 503, "SERVICE_UNAVAILABLE"},
        {IMAGE_CANCELLED, 503, "SERVICE_UNAVAILABLE"},
    };
    enum image_problem problem = image_problem_of(e->code);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].problem == problem) {
            (void)api_fail_set(f, rows[i].status, rows[i].code, "%s", e->msg);
            return;
        }
    (void)api_fail_set(f, 500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", "%s", e->msg);
}

/* --- finding --- */

static int compare(const void *a, const void *b)
{
    const struct image_store_image *const *x = a, *const *y = b;
    int r = strcmp((*x)->config.text, (*y)->config.text);

    return r ? r : strcmp((*x)->name, (*y)->name);
}

int image_list_load(struct images *im, struct image_list *ret, struct err *e)
{
    int r = image_store_image_list(images_store(im), &ret->at, &ret->count, e);

    if (r == 0)
        qsort(ret->at, ret->count, sizeof(ret->at[0]), compare);
    return r;
}

void image_list_done(struct image_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->at[i]);
    free(l->at);
    *l = (struct image_list){0};
}

size_t image_list_next(const struct image_list *l, size_t first)
{
    size_t i = first + 1;

    while (i < l->count && image_digest_eq(&l->at[i]->config, &l->at[first]->config))
        i++;
    return i;
}

static bool is_hex(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (ascii_hex_value(text.p[i]) < 0)
            return false;
    return true;
}

/* -ENOENT when there is none; digits that two ids begin with are none. */
static int find_by_id(const struct image_list *l, struct str digits, size_t *ret_first)
{
    size_t found = l->count;

    for (size_t i = 0; i < l->count; i = image_list_next(l, i)) {
        const char *id = image_digest_hex(&l->at[i]->config);

        if (!str_starts(str_make(id, strlen(id)), digits))
            continue;
        if (found < l->count)
            return -ENOENT;
        found = i;
    }
    *ret_first = found;
    return found < l->count ? 0 : -ENOENT;
}

int image_list_find(const struct image_list *l, struct str text, size_t *ret_first,
                    const char **ret_name, struct err *e)
{
    bool by_digest = str_starts(text, STR("sha256:")) || str_starts(text, STR("sha512:"));
    struct str digits = by_digest ? str_skip(text, STR("sha256:").n) : text;
    char name[IMAGE_REFERENCE_TEXT_MAX];
    struct image_reference reference;
    int r;

    *ret_name = NULL;
    if (digits.n >= ID_DIGITS_MIN && is_hex(digits) && find_by_id(l, digits, ret_first) == 0)
        return 0;
    if (by_digest)
        return err_set(e, ENOENT, "there is no image '%.*s'", STR_ARG(text));
    r = image_reference_parse(text, &reference, e);
    if (r < 0)
        return r;
    image_reference_format(&reference, name);
    for (size_t i = 0, first = 0; i < l->count; i++) {
        if (!image_digest_eq(&l->at[i]->config, &l->at[first]->config))
            first = i;
        if (strcmp(l->at[i]->name, name) != 0)
            continue;
        *ret_first = first;
        *ret_name = l->at[i]->name;
        return 0;
    }
    return err_set(e, ENOENT, "there is no image '%s'", name);
}

/* --- showing --- */

/* Without what cannot be read: the image may go at any moment. */
static void read_config(struct images *im, const struct image_digest *id, struct arena *a,
                        struct image_config *ret)
{
    AUTO_BUF(text, IMAGE_CONFIG_BYTES_MAX);
    struct str kept;

    *ret = (struct image_config){0};
    if (image_store_blob_read(images_store(im), id, IMAGE_CONFIG_BYTES_MAX, &text, NULL) < 0)
        return;
    kept = arena_str(a, buf_str(&text));
    if (!kept.p || image_config_parse(a, kept, ret, NULL) < 0)
        *ret = (struct image_config){0};
}

void image_write(struct images *im, const struct image_list *l, size_t first, struct json_writer *w)
{
    AUTO_ARENA(arena, IMAGE_MANIFEST_ARENA_MAX);
    size_t end = image_list_next(l, first);
    auto_free struct str *names = mem_new_array(struct str, end - first);
    const struct image_store_image *image = l->at[first];
    struct image_config c;
    struct api_image out = {
        .id = str_of(image->config.text),
        .names = names,
        .names_count = end - first,
        .bytes = image->bytes,
        .layers = image->layers_count,
        .users = images_users(im, &image->config),
        .created_us = image->created_us,
        .os = str_of(image->platform.os),
        .arch = str_of(image->platform.arch),
        .variant = str_of(image->platform.variant),
    };

    for (size_t i = first; i < end; i++) {
        names[i - first] = str_of(l->at[i]->name);
        if (l->at[i]->last_used_us > out.last_used_us)
            out.last_used_us = l->at[i]->last_used_us;
    }
    read_config(im, &image->config, &arena, &c);
    out.entrypoint = c.entrypoint;
    out.entrypoint_count = c.entrypoint_count;
    out.cmd = c.cmd;
    out.cmd_count = c.cmd_count;
    out.env = c.env;
    out.env_count = c.env_count;
    out.ports = c.ports;
    out.ports_count = c.ports_count;
    out.user = c.user;
    out.workdir = c.workdir;
    api_image_write(w, &out);
}

int image_write_named(struct images *im, struct str text, struct buf *out, struct err *e)
{
    struct image_list list = {0};
    struct json_writer w;
    const char *name;
    size_t first;
    int r = image_list_load(im, &list, e);

    if (r == 0)
        r = image_list_find(&list, text, &first, &name, e);
    if (r == 0) {
        json_write_begin(&w, out);
        image_write(im, &list, first, &w);
        r = json_write_end(&w);
        if (r < 0)
            (void)err_set(e, -r, "the image's description is too large");
    }
    image_list_done(&list);
    return r;
}
