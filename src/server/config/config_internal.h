/* config_internal.h - the table as rows, and what the files of config share. */
#pragma once

#include "base/toml.h"
#include "server/config/config.h"

enum config_kind {
    CONFIG_TEXT,
    CONFIG_WORD,
    CONFIG_INT,
    CONFIG_REAL,
    CONFIG_BOOL,
    CONFIG_BYTES,
    CONFIG_CPU,
    CONFIG_LIST,
    CONFIG_PAIRS,
    CONFIG_KEYS,
};

/* What a text must look like; "" is always unset, and refused only by SOME. */
enum config_form {
    FORM_ANY,
    FORM_SOME,
    FORM_PATH,     /* ~ is expanded, a relative one is made absolute */
    FORM_ABSOLUTE, /* a path that begins with / already */
    FORM_HOST,
    FORM_ADDRESS, /* host or host:port, * in front allowed */
    FORM_LEVEL,
    FORM_IPV4,
    FORM_ACCOUNT,
    FORM_SIZE,
    FORM_PROVIDER,
    FORM_KEY_ID,
    FORM_KEY,    /* secret, and fit for a header */
    FORM_SECRET, /* secret */
    FORM_COUNT,
};

struct config_section {
    const char *path, *help;
};

struct config_row {
    const char *key, *help;
    uint8_t section; /* index of config_sections */
    uint8_t kind, form;
    bool zero_is_off; /* 0 is allowed beside min..max */
    uint32_t offset;  /* in struct config */
    int64_t min, max;
    const char *words;    /* of CONFIG_WORD: joined by | */
    const char *fallback; /* of texts, sizes, and lists, whose items are joined by commas */
    double number;        /* of the others: the default; of a word its position */
};

extern const struct config_section config_sections[];
extern const size_t config_section_count;
extern const struct config_row config_rows[CONFIG_ROW_COUNT];

enum { CONFIG_NAME_MAX = 80 };
/* "section.key" into out; returns out. */
const char *config_row_name(const struct config_row *row, char out[CONFIG_NAME_MAX]);
const struct config_row *config_row_find(struct str name); /* by section.key; NULL = none */

static inline void *config_field(struct config *c, const struct config_row *row)
{
    return (char *)c + row->offset;
}

static inline const void *config_field_of(const struct config *c, const struct config_row *row)
{
    return (const char *)c + row->offset;
}

static inline bool config_row_is_secret(const struct config_row *row)
{
    return row->form == FORM_KEY || row->form == FORM_SECRET || row->kind == CONFIG_KEYS;
}

/* The word at a position of a WORDS list; STR_NONE past its end. */
struct str config_word(const char *words, int index);

/* What would be right: "a number from 1 to 65535". */
int config_row_expects(const struct config_row *row, struct buf *out);

/* --- reporting; `at` is where, NULL = without a place --- */

struct config_place {
    const char *file;
    struct toml_pos pos;
};
void config_error(struct config_report *report, const struct config_place *at, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void config_warn(struct config_report *report, const struct config_place *at, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* --- config_bind.c --- */

/* Takes over everything the document says. Problems are in the report. */
void config_bind(struct config *c, const struct toml *root, const char *file,
                 struct config_report *report);
/* One value from an option or a variable, called `origin`. */
void config_override(struct config *c, const char *name, const char *value, const char *origin,
                     struct config_report *report);

/* --- config_text.c --- */

/* Whether the text has the form; "" has each but SOME. */
bool config_form_fits(enum config_form form, struct str text);
const char *config_form_expects(enum config_form form);
/* As in resourceLimits (api/limits.h); "0" and "" are no limit. -EINVAL, -ERANGE. */
int config_bytes_parse(struct str text, uint64_t *ret_bytes) MUST_USE;
int config_cpu_parse(struct str text, uint32_t *ret_millicores) MUST_USE;
int config_level_parse(struct str text, enum log_level *ret) MUST_USE;
/* How many single edits make one of the other; two neighbours that changed places are one. Texts
 * longer than 64 bytes are far from all. */
unsigned config_distance(struct str a, struct str b);

/* --- config_check.c --- */

/* Fills in what depends on other keys, and checks keys against each other. root may be NULL. */
void config_settle(struct config *c, const struct toml *root, struct config_report *report);

/* --- config_host.c --- */

/* ~ and relative paths resolved. NULL when the arena is full. */
const char *config_path_resolve(struct arena *a, const char *path);
/* A program of ours: beside the one that runs, or else where it is installed. */
const char *config_program_find(struct arena *a, const char *name, const char *installed);
/* The file to read, or NULL; *ret_named when someone asked for it. */
const char *config_file_find(struct arena *a, const char *option, bool *ret_named);

/* --- config_print.c --- */

#define CONFIG_HIDDEN "<redacted>" /* what is printed for a secret, and so can be none */

/* The table's default, as TOML. */
int config_print_default(const struct config_row *row, struct buf *out);

/* --- config.c --- */

struct config *config_new(void); /* all defaults, nothing derived */
