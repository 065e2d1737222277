/* redact.h - replaces what looks like a secret by four asterisks (here _), before a text is logged.
 *
 *     https://ann:pw@host/            https://_@host/
 *     -H 'Authorization: Bearer x'    -H 'Authorization: _'
 *     --db-password x, -token=x       --db-password _, -token=_
 *     API_TOKEN="x y", "secret":"x"   API_TOKEN=_, "secret":_
 *     AKIAIOSFODNN7EXAMPLE            AKIA_
 *
 * It knows shell words but no shell grammar. Where a value could end in several places, the last
 * one counts, so it may remove too much, such as all that follows a lone quote. A secret without
 * such a name or form stays: the text of a command is never safe to publish. */
#pragma once

#include "base/buf.h"

/* Appends. -EMSGSIZE when the buffer's ceiling is reached; the part added so far is redacted, too.
 */
int redact(struct str text, struct buf *out);
