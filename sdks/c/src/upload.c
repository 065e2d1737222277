/* upload.c - files into a sandbox: a multipart form with two parts for each, written as it is sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "api/execd.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "sdk.h"

enum { BLOCK_BYTES = 64 << 10, PART_BYTES_MAX = 64 << 10 };

struct form {
    struct exchange *x;
    char boundary[ID_REQUEST_MAX];
    bool answered; /* before the end of the form: the answer says why */
};

static int form_send(struct form *f, struct str data)
{
    int r = f->answered ? 1 : exchange_write(f->x, data);

    f->answered = r == 1;
    return r < 0 ? r : 0;
}

/* The metadata, and the head of the part that has the bytes. */
static int form_begin_file(struct form *f, const struct osb_upload *u)
{
    AUTO_BUF(part, PART_BYTES_MAX);
    struct api_permission meta = {str_or_empty(u->path), str_or_empty(u->owner),
                                  str_or_empty(u->group), u->mode};

    if (buf_addf(&part,
                 "--%s\r\nContent-Disposition: form-data; name=\"metadata\"; "
                 "filename=\"metadata\"\r\nContent-Type: application/json\r\n\r\n",
                 f->boundary) < 0 ||
        api_upload_meta_write(&part, &meta) < 0 ||
        buf_addf(&part,
                 "\r\n--%s\r\nContent-Disposition: form-data; name=\"file\"; "
                 "filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                 f->boundary) < 0)
        return fail(f->x->client, ENAMETOOLONG, "the path of a file is too long");
    return form_send(f, buf_str(&part));
}

static int form_send_source(struct form *f, const struct osb_upload *u)
{
    auto_free char *block = mem_alloc(BLOCK_BYTES);
    long n = 0;
    int r = 0;

    while (r == 0 && !f->answered && (n = u->source(u->user, block, BLOCK_BYTES)) > 0)
        r = n > BLOCK_BYTES ? fail(f->x->client, EINVAL, "a source gave more than was asked for")
                            : form_send(f, str_make(block, (size_t)n));
    if (r == 0 && n < 0)
        r = fail(f->x->client, (int)-n, "the source of '%s': %s", u->path, strerror((int)-n));
    return r;
}

static int form_send_local(struct form *f, const struct osb_upload *u)
{
    auto_free char *block = mem_alloc(BLOCK_BYTES);
    auto_fd fd = open(u->local_path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd;
    int r = 0;

    while (r == 0 && n >= 0 && !f->answered) {
        n = read(fd, block, BLOCK_BYTES);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n == 0)
            return 0;
        else if (n > 0)
            r = form_send(f, str_make(block, (size_t)n));
    }
    return n < 0 ? fail(f->x->client, errno, "%s: %s", u->local_path, strerror(errno)) : r;
}

static int form_send_file(struct form *f, const struct osb_upload *u)
{
    int r = form_begin_file(f, u);

    if (r == 0 && u->source)
        r = form_send_source(f, u);
    else if (r == 0 && u->local_path)
        r = form_send_local(f, u);
    else if (r == 0)
        r = form_send(f, str_make(u->data, u->data_bytes));
    return r < 0 ? r : form_send(f, STR("\r\n"));
}

static int form_end(struct form *f)
{
    AUTO_BUF(end, 64);

    if (buf_addf(&end, "--%s--\r\n", f->boundary) < 0)
        return fail(f->x->client, ENOMEM, "no memory left");
    return form_send(f, buf_str(&end));
}

int osb_files_upload(struct osb_sandbox *sandbox, const struct osb_upload *uploads, size_t count)
{
    struct exchange_spec spec = {.method = HTTP_POST,
                                 .target = STR("/files/upload"),
                                 .streams_body = true,
                                 .body_length = HTTP_UNKNOWN_LENGTH,
                                 .streams = true};
    struct exchange x = {0};
    struct form f = {.x = &x};
    AUTO_BUF(type, 256);
    int r = sandbox_site(sandbox, OSB_PORT_EXECD, &spec.site);

    if (r < 0 || count == 0)
        return r;
    id_request(f.boundary); /* random: no content can contain it on purpose */
    if (buf_addf(&type, "multipart/form-data; boundary=%s", f.boundary) < 0)
        return fail(sandbox->client, ENOMEM, "no memory left");
    spec.content_type = buf_str(&type);
    r = exchange_start(&x, sandbox->client, &spec);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = form_send_file(&f, &uploads[i]);
    if (r == 0)
        r = form_end(&f);
    if (r == 0)
        r = exchange_head(&x);
    exchange_close(&x);
    return r;
}

int osb_file_put(struct osb_sandbox *sandbox, const char *path, const void *data, size_t bytes,
                 unsigned mode)
{
    struct osb_upload upload = {.path = path, .mode = mode, .data = data, .data_bytes = bytes};

    return osb_files_upload(sandbox, &upload, 1);
}
