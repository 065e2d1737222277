#include "kube/error.h"

#include <errno.h>

#include "base/arena.h"
#include "kube/object.h"
#include "net/http.h"

enum { STATUS_BYTES_MAX = 1 << 20, RETRY_AFTER_S_MAX = 600 };

static int code_of(int status, struct str reason)
{
    static const struct {
        int status, code;
    } rows[] = {
        {401, EACCES  },
        {403, EACCES  },
        {404, ENOENT  },
        {408, EIO     },
        {409, ESTALE  },
        {410, ERESTART},
        {429, EAGAIN  },
    };

    if (status == 409 && str_eq(reason, STR("AlreadyExists")))
        return EEXIST;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return status >= 400 && status < 500 ? EINVAL : EIO;
}

static uint32_t seconds_to_ms(uint64_t s)
{
    return (uint32_t)((s < RETRY_AFTER_S_MAX ? s : RETRY_AFTER_S_MAX) * 1000);
}

static int fill(int status, struct str reason, struct str message, struct kube_error *ret)
{
    ret->status = status;
    if (str_copy(ret->reason, sizeof(ret->reason), reason) < 0)
        ret->reason[0] = '\0';
    if (!message.n)
        message = reason.n ? reason : http_status_reason(status);
    return err_set(&ret->err, code_of(status, reason), "Kubernetes: %.*s (%d)", STR_ARG(message),
                   status);
}

int kube_error_of_status(const struct json *status, struct kube_error *ret)
{
    int64_t code = kube_i64(status, "code"), after = kube_i64(status, "details.retryAfterSeconds");

    *ret = (struct kube_error){0};
    if (after > 0)
        ret->retry_after_ms = seconds_to_ms((uint64_t)after);
    return fill(code >= 100 && code < 600 ? (int)code : 500, kube_str(status, "reason"),
                kube_str(status, "message"), ret);
}

int kube_error_of(int status, struct str body, struct str retry_after, struct kube_error *ret)
{
    AUTO_ARENA(arena, STATUS_BYTES_MAX);
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST, .replace_invalid = true};
    struct json *tree = NULL;
    uint64_t s;

    *ret = (struct kube_error){0};
    if (json_parse(&arena, body, &limits, &tree, NULL) == 0 &&
        str_eq(kube_str(tree, "kind"), STR("Status"))) {
        (void)!kube_error_of_status(tree, ret);
        (void)!fill(status, kube_str(tree, "reason"), kube_str(tree, "message"), ret);
    } else {
        if (body.n > 200)
            body.n = 200;
        (void)!fill(status, STR(""), str_trim(body), ret);
    }
    if (str_to_u64(retry_after, &s) == 0 && s > 0)
        ret->retry_after_ms = seconds_to_ms(s);
    return -ret->err.code;
}
