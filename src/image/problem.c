#include "image/problem.h"

#include "base/defs.h"

static const struct row {
    int code;
    enum image_problem problem;
    const char *name; /* of the kind; NULL: another code for it */
} rows[] = {
    {EINVAL,       IMAGE_INVALID,      "invalid"     },
    {ENOENT,       IMAGE_NOT_FOUND,    "not found"   },
    {EACCES,       IMAGE_UNAUTHORIZED, "unauthorized"},
    {EPERM,        IMAGE_FORBIDDEN,    "forbidden"   },
    {ENXIO,        IMAGE_NO_HOST,      "no host"     },
    {EHOSTUNREACH, IMAGE_UNREACHABLE,  "unreachable" },
    {EBUSY,        IMAGE_BUSY,         "busy"        },
    {EPROTO,       IMAGE_BAD_ANSWER,   "bad answer"  },
    {EBADMSG,      IMAGE_WRONG_DIGEST, "wrong digest"},
    {ENOEXEC,      IMAGE_NO_PLATFORM,  "no platform" },
    {EFBIG,        IMAGE_TOO_LARGE,    "too large"   },
    {ENOTSUP,      IMAGE_UNSUPPORTED,  "unsupported" },
    {ENOSPC,       IMAGE_DISK_FULL,    "disk full"   },
    {ECANCELED,    IMAGE_CANCELLED,    "cancelled"   },
    {ETIMEDOUT,    IMAGE_TIMED_OUT,    "timed out"   },
    {EIO,          IMAGE_INTERNAL,     "internal"    },
    {EDQUOT,       IMAGE_DISK_FULL,    NULL          },
    {ECONNREFUSED, IMAGE_UNREACHABLE,  NULL          },
    {ECONNRESET,   IMAGE_UNREACHABLE,  NULL          },
    {ECONNABORTED, IMAGE_UNREACHABLE,  NULL          },
    {ENETUNREACH,  IMAGE_UNREACHABLE,  NULL          },
    {ENETDOWN,     IMAGE_UNREACHABLE,  NULL          },
    {EHOSTDOWN,    IMAGE_UNREACHABLE,  NULL          },
    {EPIPE,        IMAGE_UNREACHABLE,  NULL          },
    {EAGAIN,       IMAGE_UNREACHABLE,  NULL          }, /* of a name lookup */
    {EMSGSIZE,     IMAGE_TOO_LARGE,    NULL          },
};

enum image_problem image_problem_of(int code)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].code == code)
            return rows[i].problem;
    return IMAGE_INTERNAL;
}

enum image_problem image_problem_of_status(int status)
{
    switch (status) {
    case 401:
    case 407:
        return IMAGE_UNAUTHORIZED;
    case 403:
        return IMAGE_FORBIDDEN;
    case 404:
        return IMAGE_NOT_FOUND;
    case 408:
    case 429:
        return IMAGE_BUSY;
    default:
        return status >= 500 ? IMAGE_BUSY : IMAGE_BAD_ANSWER;
    }
}

const char *image_problem_name(enum image_problem problem)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].problem == problem && rows[i].name)
            return rows[i].name;
    return "internal";
}

bool image_problem_is_passing(enum image_problem problem)
{
    return problem == IMAGE_UNREACHABLE || problem == IMAGE_BUSY || problem == IMAGE_TIMED_OUT;
}
