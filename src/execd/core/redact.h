/* redact.h - takes out of a text what looks like a secret, before the text is logged. Four
 * asterisks, here _, take its place.
 *
 *     https://ann:pw@host/            https://_@host/
 *     -H 'Authorization: Bearer x'    -H 'Authorization: _'
 *     --db-password x, -token=x       --db-password _, -token=_
 *     API_TOKEN="x y", "secret":"x"   API_TOKEN=_, "secret":_
 *     AKIAIOSFODNN7EXAMPLE            AKIA_
 *
 * It reads a shell's words, but no shell's grammar: where a value may end in more than one place,
 * it ends in the last. So it may take away too much, as what follows a lone quote. What has no such
 * name or form stays: a command's text is never harmless. */
#pragma once

#include "base/buf.h"

/* Appends. -EMSGSIZE when the buffer's ceiling is reached; what was added until then is free of
 * secrets, too. */
int redact(struct str text, struct buf *out);
