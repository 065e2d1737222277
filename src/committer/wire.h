/* wire.h - the protobuf encoding, as far as containerd's API needs it: texts, nested messages,
 * numbers, and maps of text to text. Pure. */
#pragma once

#include "base/buf.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* Append a field. -EMSGSIZE past the buffer's limit. An empty text and 0 are left out, as proto3
 * has it. */
int wire_add_bytes(struct buf *b, unsigned field, struct str value);
int wire_add_u64(struct buf *b, unsigned field, uint64_t value);
int wire_add_pair(struct buf *b, unsigned field, struct str key, struct str value); /* of a map */

struct wire_field {
    unsigned number;
    enum wire_type type;
    struct str bytes; /* of WIRE_BYTES: borrowed from the message */
    uint64_t u64;     /* of the others */
};

/* Takes the first field off `message`. 1, 0 at the end, -EBADMSG for what is no message. */
int wire_next(struct str *message, struct wire_field *ret) MUST_USE;

/* The last field of this number that has bytes; "" when there is none. -EBADMSG as above. */
int wire_get_bytes(struct str message, unsigned field, struct str *ret) MUST_USE;
int wire_get_u64(struct str message, unsigned field, uint64_t *ret) MUST_USE; /* the same; 0 */
/* The value of a key in a map; "" when there is none. */
int wire_get_pair(struct str message, unsigned field, struct str key, struct str *ret) MUST_USE;
