/* jupyter_message.h - the messages of the Jupyter protocol (5.x), between JSON and ZMTP frames.
 *
 *   [prefix...] <IDS|MSG> signature header parent_header metadata content [buffers...]
 *
 * The signature is the HMAC-SHA256, in hexadecimal, of the four JSON texts. Pure: no I/O. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "execd/code/jupyter/zmtp.h"

enum {
    JUPYTER_ID_MAX = ID_UUID_MAX,
    JUPYTER_NODES_MAX = 256 << 10, /* values of one content */
    /* For one message: its texts, and 64 bytes for each value. */
    JUPYTER_ARENA_BYTES_MAX = ZMTP_MESSAGE_BYTES_MAX + (JUPYTER_NODES_MAX << 7),
};

/* Whom we are to the kernel, and the secret we share with it. */
struct jupyter_session {
    char key[JUPYTER_ID_MAX];
    char id[JUPYTER_ID_MAX];
};
void jupyter_session_init(struct jupyter_session *s); /* random */

/* Appends a message to `out` as ZMTP frames, all or nothing; ret_id names it in the replies.
 * -EMSGSIZE past the ceiling of `out`; -ENOMEM. `content` is JSON. */
int jupyter_message_write(const struct jupyter_session *s, const char *type, struct str content,
                          char ret_id[JUPYTER_ID_MAX], struct buf *out) MUST_USE;

/* All in the arena. */
struct jupyter_message {
    struct str type;            /* "stream", "execute_reply", ... */
    struct str parent;          /* id of what it answers; empty = nothing of ours */
    const struct json *content; /* NULL when it was too large, or no JSON; `lost` says why */
    const char *lost;
};

/* Reads what a reader holds. -EBADMSG for what is no message, -EACCES for a wrong signature: both
 * are to be ignored. A message whose content the reader had to cut, and that therefore nobody can
 * verify, is told without it. */
int jupyter_message_read(const struct jupyter_session *s, const struct zmtp_reader *frames,
                         struct arena *a, struct jupyter_message *ret, struct err *e) MUST_USE;
