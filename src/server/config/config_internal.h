/* config_internal.h - the configuration table as rows, and what the files of config share. */
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

/* Form that a text must have. "" means unset and is always allowed, except by FORM_SOME. */
enum config_form {
    FORM_ANY,
    FORM_SOME,
    FORM_PATH,     /* ~ is expanded, a relative path is made absolute */
    FORM_ABSOLUTE, /* a path that must begin with / */
    FORM_HOST,
    FORM_ADDRESS, /* host or host:port, may begin with * */
    FORM_LEVEL,
    FORM_IPV4,
    FORM_ACCOUNT,
    FORM_SIZE,
    FORM_PROVIDER,
    FORM_PLATFORM,
    FORM_KEY_ID,
    FORM_KEY,    /* secret, and valid as a header value */
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
    const char *words;    /* of CONFIG_WORD: separated by | */
    const char *fallback; /* default of texts, sizes and lists (items separated by commas) */
    double number;        /* default of other kinds; of a word its position */
};

extern const struct config_section config_sections[];
extern const size_t config_section_count;
extern const struct config_row config_rows[CONFIG_ROW_COUNT];

enum { CONFIG_NAME_MAX = 80 };
/* Writes "section.key" to out, and returns out. */
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

/* Appends which values are valid: "a number from 1 to 65535". */
int config_row_expects(const struct config_row *row, struct buf *out);

/* --- reporting; `at` is the place in the file, NULL = none --- */

struct config_place {
    const char *file;
    struct toml_pos pos;
};
void config_error(struct config_report *report, const struct config_place *at, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void config_warn(struct config_report *report, const struct config_place *at, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* --- config_bind.c --- */

/* Takes all values from the document. Puts problems into the report. */
void config_bind(struct config *c, const struct toml *root, const char *file,
                 struct config_report *report);
/* Sets one value from the option or variable named `origin`. */
void config_override(struct config *c, const char *name, const char *value, const char *origin,
                     struct config_report *report);

/* --- config_text.c --- */

/* Whether the text has the form. "" has every form but FORM_SOME. */
bool config_form_fits(enum config_form form, struct str text);
const char *config_form_expects(enum config_form form);
/* Syntax of resourceLimits (api/limits.h); "0" and "" mean no limit. -EINVAL, -ERANGE. */
int config_bytes_parse(struct str text, uint64_t *ret_bytes) MUST_USE;
int config_cpu_parse(struct str text, uint32_t *ret_millicores) MUST_USE;
int config_level_parse(struct str text, enum log_level *ret) MUST_USE;
/* Edit distance; swapping two neighbours counts as one edit (Damerau-Levenshtein). A text longer
 * than 64 bytes is far from any other. */
unsigned config_distance(struct str a, struct str b);

/* --- config_check.c --- */

/* Sets values that depend on other keys, and checks keys against each other. root may be NULL. */
void config_settle(struct config *c, const struct toml *root, struct config_report *report);

/* --- config_registries.c --- */

/* Fills c->registries. root may be NULL. */
void config_registries(struct config *c, const struct toml *root, struct config_report *report);

/* --- config_oidc.c --- */

void config_oidc_check(const struct config *c, const struct toml *root,
                       struct config_report *report);

/* --- config_runtimes.c --- */

/* Fills c->runtimes and c->runtime_of_all. root may be NULL. */
void config_runtimes(struct config *c, const struct toml *root, struct config_report *report);
/* Whether their programs are there. */
void config_runtimes_check_host(const struct config *c, struct config_report *report);

/* --- config_host.c --- */

/* Expands ~ and makes the path absolute. NULL when the arena is full. */
const char *config_path_resolve(struct arena *a, const char *path);
/* Finds one of our programs: beside the running one, or else at the installed path. */
const char *config_program_find(struct arena *a, const char *name, const char *installed);
/* The file to read, or NULL. *ret_named: an option or variable named it. */
const char *config_file_find(struct arena *a, const char *option, bool *ret_named);

/* --- config_print.c --- */

#define CONFIG_HIDDEN "<redacted>" /* printed for a secret, so no secret may have this value */

/* Prints the table's default as TOML. */
int config_print_default(const struct config_row *row, struct buf *out);

/* --- config.c --- */

struct config *config_new(void); /* has all defaults, no derived values */
