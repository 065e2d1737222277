/* skills.h - skills: Markdown texts that teach coding assistants to use osb, and their forms for
 * each assistant. Pure: texts in, texts out; cmd_skills.c reads and writes the files. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct skill {
    const char *slug, *area;
    struct str text; /* with its front matter */
};

/* What a text says of itself. All of it borrows from the text. */
struct skill_parts {
    struct str title;            /* its first heading */
    struct str summary, trigger; /* of the description: what it covers, "Use when ..." */
    struct str body;             /* after the first heading */
};

enum skill_form {
    SKILL_FILE,  /* a file of its own, with front matter */
    SKILL_RULE,  /* a file of its own; title and summary instead of front matter */
    SKILL_BLOCK, /* between markers in a file that has other text, too */
};

/* An assistant, and where it looks for skills. */
struct skill_target {
    const char *name, *label;
    enum skill_form form;
    const char *path; /* %s is the slug, when it has one */
    const char *link; /* a symbolic link to the file, below its directory; or NULL */
};

extern const struct skill_target skill_targets[];
extern const size_t skill_target_count;

size_t skill_count(void);
struct skill skill_at(size_t index);
/* -ENOENT */
int skill_find(struct str slug, struct skill *ret);

/* -EINVAL when the text has no front matter with name and description, or no heading. */
int skill_read(struct str text, struct skill_parts *ret);
/* The text below "## heading"; empty when there is none. */
struct str skill_section(struct str body, struct str heading);

/* What the file, or the block without its markers, has to be. */
int skill_write(const struct skill *skill, enum skill_form form, struct buf *out);
/* Where the block of this slug is in a file, with its markers: 0, -ENOENT, or -EBADMSG when only
 * one of its markers is there. */
int skill_block_find(struct str file, const char *slug, struct str *ret);
/* The file with the block, replaced or added at its end; or without it. */
int skill_block_put(struct str file, const char *slug, struct str block, struct buf *out);
int skill_block_cut(struct str file, const char *slug, struct buf *out);
