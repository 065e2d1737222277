/* error.c - why a call failed: kept in the task that made it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "sdk.h"

/* Statuses with an errno of their own; see osb_error_errno. */
static const struct {
    int status, number;
} status_numbers[] = {
    {401, EACCES    },
    {403, EACCES    },
    {404, ENOENT    },
    {409, EBUSY     },
    {413, EFBIG     },
    {429, EAGAIN    },
    {501, EOPNOTSUPP},
    {503, EAGAIN    },
};

static int status_number(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(status_numbers); i++)
        if (status_numbers[i].status == status)
            return status_numbers[i].number;
    return status >= 400 && status < 500 ? EINVAL : EREMOTEIO;
}

static struct osb_error *begin(struct osb_client *c, int number)
{
    struct osb_error *e = &c->current->error;

    *e = (struct osb_error){.number = number};
    return e;
}

int fail(struct osb_client *c, int number, const char *fmt, ...)
{
    struct osb_error *e = begin(c, number);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(e->message, sizeof(e->message), fmt, ap);
    va_end(ap);
    return -number;
}

int fail_err(struct osb_client *c, const struct err *e)
{
    return fail(c, e->code ? e->code : EIO, "%s", e->msg);
}

int fail_wait(struct osb_client *c, int r, const char *what)
{
    if (r == -ETIMEDOUT)
        return fail(c, ETIMEDOUT, "%s: the time limit of the call passed", what);
    if (r == -ECANCELED)
        return fail(c, ECANCELED, "%s: canceled", what);
    return fail(c, -r, "%s: %s", what, strerror(-r));
}

static void copy_text(char *out, size_t size, struct str s)
{
    size_t n = min_size(s.n, size - 1);

    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)s.p[i] < 0x20 ? ' ' : s.p[i];
    out[n] = '\0';
}

static struct str member(const struct json *v, struct str key)
{
    struct str s = STR_NONE;

    (void)json_to_str(json_get(v, key), &s);
    return s;
}

int fail_http(struct osb_client *c, int status, struct str body, struct str request_id,
              struct str retry_after)
{
    struct osb_error *e = begin(c, status_number(status));
    AUTO_ARENA(a, 4 << 20);
    struct str code = STR_NONE, message = STR_NONE;
    struct json *tree = NULL;
    uint64_t seconds;

    e->status = status;
    copy_text(e->request_id, sizeof(e->request_id), request_id);
    if (str_to_u64_range(retry_after, 0, INT32_MAX, &seconds) == 0)
        e->retry_after_s = (int)seconds;
    if (json_parse(&a, body, NULL, &tree, NULL) == 0) {
        const struct json *detail = json_get(tree, STR("detail"));
        const struct json *v = detail && detail->type == JSON_OBJECT ? detail : tree;

        code = member(v, STR("code"));
        message = member(v, STR("message"));
        if (!message.n)
            message = member(v, detail ? STR("detail") : STR("error"));
    }
    copy_text(e->code, sizeof(e->code), code.n ? code : STR("UNEXPECTED_RESPONSE"));
    if (!message.n)
        message = tree ? STR_NONE : str_trim(body);
    if (message.n)
        copy_text(e->message, sizeof(e->message), message);
    else
        (void)snprintf(e->message, sizeof(e->message), "HTTP status %d without a message", status);
    return -e->number;
}

const struct osb_error *osb_client_error(const struct osb_client *client)
{
    return &client->current->error;
}

int osb_error_errno(const struct osb_error *error)
{
    return error->number;
}

int osb_error_status(const struct osb_error *error)
{
    return error->status;
}

const char *osb_error_code(const struct osb_error *error)
{
    return error->code;
}

const char *osb_error_message(const struct osb_error *error)
{
    return error->message;
}

const char *osb_error_request_id(const struct osb_error *error)
{
    return error->request_id;
}

int osb_error_retry_after_s(const struct osb_error *error)
{
    return error->retry_after_s;
}
