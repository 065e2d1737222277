/* jupyter_message.h - messages of the Jupyter protocol (5.x), between JSON and ZMTP frames.
 *
 *   [prefix...] <IDS|MSG> signature header parent_header metadata content [buffers...]
 *
 * The signature is the HMAC-SHA256 of the four JSON texts, in hexadecimal. Pure: no I/O. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "execd/code/jupyter/zmtp.h"

enum {
    JUPYTER_ID_MAX = ID_UUID_MAX,
    JUPYTER_NODES_MAX = 256 << 10, /* JSON values in one content */
    /* For one message: its texts, and 64 bytes per value. */
    JUPYTER_ARENA_BYTES_MAX = ZMTP_MESSAGE_BYTES_MAX + (JUPYTER_NODES_MAX << 7),
};

/* Our identity towards the kernel, and the shared secret. */
struct jupyter_session {
    char key[JUPYTER_ID_MAX];
    char id[JUPYTER_ID_MAX];
};
void jupyter_session_init(struct jupyter_session *s); /* random values */

/* Appends a message to `out` as ZMTP frames, all or nothing. ret_id identifies it in the replies.
 * -EMSGSIZE beyond the limit of `out`; -ENOMEM. `content` is JSON. */
int jupyter_message_write(const struct jupyter_session *s, const char *type, struct str content,
                          char ret_id[JUPYTER_ID_MAX], struct buf *out) MUST_USE;

/* All strings are in the arena. */
struct jupyter_message {
    struct str type;            /* "stream", "execute_reply", ... */
    struct str parent;          /* id of the request it answers; empty = none of ours */
    const struct json *content; /* NULL if too large or not JSON; `lost` says why */
    const char *lost;
};

/* Parses the frames of a reader. -EBADMSG: not a message; -EACCES: wrong signature; ignore both. A
 * message whose content the reader cut off cannot be verified and is returned without content. */
int jupyter_message_read(const struct jupyter_session *s, const struct zmtp_reader *frames,
                         struct arena *a, struct jupyter_message *ret, struct err *e) MUST_USE;
