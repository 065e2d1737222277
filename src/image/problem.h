/* problem.h - why an image cannot be had: the codes that struct err carries out of src/image.
 *
 * A kind is an errno of its own, so that a caller maps it to its own answers without reading
 * messages. Messages name the registry's host and the image or layer. */
#pragma once

#include <errno.h>
#include <stdbool.h>

enum image_problem {
    IMAGE_INVALID = EINVAL,           /* the request itself: a name, a platform, credentials */
    IMAGE_NOT_FOUND = ENOENT,         /* the registry knows no such image, tag or blob */
    IMAGE_UNAUTHORIZED = EACCES,      /* credentials are missing or wrong */
    IMAGE_FORBIDDEN = EPERM,          /* credentials are right, yet not for this image */
    IMAGE_NO_HOST = ENXIO,            /* the registry's name does not exist */
    IMAGE_UNREACHABLE = EHOSTUNREACH, /* no connection, no TLS, or it broke for good */
    IMAGE_BUSY = EBUSY,               /* the registry asks to come later (429), or failed (5xx) */
    IMAGE_BAD_ANSWER = EPROTO,        /* the registry's answer makes no sense */
    IMAGE_WRONG_DIGEST = EBADMSG,     /* bytes are not those that were asked for */
    IMAGE_NO_PLATFORM = ENOEXEC,      /* nothing for this operating system and processor */
    IMAGE_TOO_LARGE = EFBIG,          /* past a limit of ours */
    IMAGE_UNSUPPORTED = ENOTSUP,      /* a format or a way that is not implemented */
    IMAGE_DISK_FULL = ENOSPC,         /* also a quota: see image_problem_of */
    IMAGE_CANCELLED = ECANCELED,      /* nobody waits for it any more */
    IMAGE_TIMED_OUT = ETIMEDOUT,      /* a server that stalls */
    IMAGE_INTERNAL = EIO,             /* anything else: memory, descriptors, a broken disk */
};

/* The kind of any errno: those above as they are, EDQUOT as a full disk, the network's as
 * unreachable, the rest as internal. */
enum image_problem image_problem_of(int code);
/* The kind of an HTTP status that is an error. */
enum image_problem image_problem_of_status(int status);
/* "not found", "disk full", ...: for logs and tests. */
const char *image_problem_name(enum image_problem problem);
/* Whether the same request may succeed if it is repeated soon. */
bool image_problem_is_passing(enum image_problem problem);
