/* config_bind.c - sets the fields of a row from a document, an option or a variable. */
#include "server/config/config_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"

/* A value, independent of its syntax. */
struct scalar {
    enum toml_type type;
    struct str text;
    int64_t number;
    double real;
    bool yes;
};

struct binder {
    struct config *c;
    struct config_report *report;
    const char *file;
};

/* --- messages --- */

static int expects_words(const struct config_row *row, struct buf *out)
{
    int r = buf_add(out, STR("one of"));
    struct str word;

    for (int i = 0; r == 0 && (word = config_word(row->words, i)).p; i++)
        r = buf_addf(out, "%s \"%.*s\"", i ? "," : "", STR_ARG(word));
    return r;
}

static int expects_range(const struct config_row *row, const char *what, struct buf *out)
{
    return buf_addf(out, "%s%s from %lld to %lld", row->zero_is_off ? "0, or " : "", what,
                    (long long)row->min, (long long)row->max);
}

int config_row_expects(const struct config_row *row, struct buf *out)
{
    switch ((enum config_kind)row->kind) {
    case CONFIG_TEXT:
        return buf_add(out, str_of(config_form_expects(row->form)));
    case CONFIG_WORD:
        return expects_words(row, out);
    case CONFIG_INT:
        return expects_range(row, "a whole number", out);
    case CONFIG_REAL:
        return expects_range(row, "a number", out);
    case CONFIG_BOOL:
        return buf_add(out, STR("true or false"));
    case CONFIG_BYTES:
        return buf_add(out, STR("a size, such as \"512Mi\" or \"2Gi\""));
    case CONFIG_CPU:
        return buf_add(out, STR("cores, such as \"500m\", \"0.5\" or \"2\""));
    case CONFIG_LIST:
        return buf_addf(out, "a list, each %s", config_form_expects(row->form));
    case CONFIG_PAIRS:
        return buf_add(out, STR("a table of texts"));
    case CONFIG_KEYS:
        return buf_add(out, STR("a list of tables with key_id, one of 0-9a-z, and key, base64"));
    }
    return -EINVAL;
}

/* "server.port: <found>; expected a whole number from 1 to 65535". */
static void refuse(const struct binder *b, const struct config_row *row,
                   const struct config_place *at, const char *subject, const char *found)
{
    char name[CONFIG_NAME_MAX];
    AUTO_BUF(expects, 512);

    (void)config_row_expects(row, &expects);
    config_error(b->report, at, "%s: %s; expected %s",
                 subject ? subject : config_row_name(row, name), found, expects.p);
}

static struct config_place place_of(const struct binder *b, const struct toml *v)
{
    return (struct config_place){b->file, toml_pos(v)};
}

static void refuse_value(const struct binder *b, const struct config_row *row, const struct toml *v,
                         const char *found)
{
    struct config_place at = place_of(b, v);

    refuse(b, row, &at, NULL, found);
}

/* Describes a value of the wrong type or out of bounds. Does not show secrets. */
static const char *describe(const struct config_row *row, const struct scalar *s, char *out,
                            size_t room)
{
    if (s->type == TOML_INTEGER)
        (void)snprintf(out, room, "found %lld", (long long)s->number);
    else if (s->type == TOML_STRING && !config_row_is_secret(row))
        (void)snprintf(out, room, "found \"%.*s\"", (int)min_size(s->text.n, 100), s->text.p);
    else
        (void)snprintf(out, room, "found %s", toml_type_name(s->type));
    return out;
}

/* --- scalars: false when the row does not accept the value --- */

static bool is_c_string(struct str text)
{
    return str_find(text, '\0') == text.n;
}

static bool take_text(const struct config_row *row, const struct scalar *s, void *field)
{
    if (s->type != TOML_STRING || !is_c_string(s->text) || !config_form_fits(row->form, s->text))
        return false;
    *(const char **)field = s->text.p; /* both sources end with a NUL */
    return true;
}

static bool take_word(const struct config_row *row, const struct scalar *s, void *field)
{
    struct str word;

    for (int i = 0; s->type == TOML_STRING && (word = config_word(row->words, i)).p; i++) {
        if (!str_eq(s->text, word))
            continue;
        *(int *)field = i;
        return true;
    }
    return false;
}

static bool take_int(const struct config_row *row, const struct scalar *s, void *field)
{
    bool off = row->zero_is_off && s->number == 0;

    if (s->type != TOML_INTEGER || (!off && (s->number < row->min || s->number > row->max)))
        return false;
    *(int64_t *)field = s->number;
    return true;
}

static bool take_real(const struct config_row *row, const struct scalar *s, void *field)
{
    double v = s->type == TOML_INTEGER ? (double)s->number : s->real;

    if ((s->type != TOML_INTEGER && s->type != TOML_FLOAT) ||
        !(v >= (double)row->min && v <= (double)row->max))
        return false;
    *(double *)field = v;
    return true;
}

static bool take_bool(const struct config_row *row UNUSED, const struct scalar *s, void *field)
{
    if (s->type == TOML_BOOL)
        *(bool *)field = s->yes;
    return s->type == TOML_BOOL;
}

/* Sizes and cores may also be plain numbers. */
static bool take_bytes(const struct config_row *row UNUSED, const struct scalar *s, void *field)
{
    if (s->type == TOML_STRING)
        return config_bytes_parse(s->text, field) == 0;
    if (s->type != TOML_INTEGER || s->number < 0 || s->number > CONFIG_BYTES_MAX)
        return false;
    *(uint64_t *)field = (uint64_t)s->number;
    return true;
}

static bool take_cpu(const struct config_row *row UNUSED, const struct scalar *s, void *field)
{
    char text[32];

    if (s->type == TOML_STRING)
        return config_cpu_parse(s->text, field) == 0;
    if (s->type != TOML_INTEGER && s->type != TOML_FLOAT)
        return false;
    (void)snprintf(text, sizeof(text), "%g", s->type == TOML_INTEGER ? (double)s->number : s->real);
    return config_cpu_parse(str_of(text), field) == 0;
}

static bool (*const take_scalar[])(const struct config_row *row, const struct scalar *s,
                                   void *field) = {
    [CONFIG_TEXT] = take_text, [CONFIG_WORD] = take_word, [CONFIG_INT] = take_int,
    [CONFIG_REAL] = take_real, [CONFIG_BOOL] = take_bool, [CONFIG_BYTES] = take_bytes,
    [CONFIG_CPU] = take_cpu,   [CONFIG_LIST] = NULL,      [CONFIG_PAIRS] = NULL,
    [CONFIG_KEYS] = NULL,
};

static struct scalar scalar_of(const struct toml *v)
{
    struct scalar s = {.type = toml_type(v)};

    if (s.type == TOML_STRING)
        (void)toml_to_str(v, &s.text, NULL);
    else if (s.type == TOML_INTEGER)
        (void)toml_to_i64(v, &s.number, NULL);
    else if (s.type == TOML_FLOAT)
        (void)toml_to_double(v, &s.real, NULL);
    else if (s.type == TOML_BOOL)
        (void)toml_to_bool(v, &s.yes, NULL);
    return s;
}

static bool bind_scalar(struct binder *b, const struct config_row *row, const struct toml *v)
{
    struct scalar s = scalar_of(v);
    char found[160];
    bool taken = take_scalar[row->kind](row, &s, config_field(b->c, row));

    if (!taken)
        refuse_value(b, row, v, describe(row, &s, found, sizeof(found)));
    return taken;
}

/* --- lists, pairs, keys --- */

static bool bind_list(struct binder *b, const struct config_row *row, const struct toml *v)
{
    struct config_list *list = config_field(b->c, row);
    const char **items = arena_new_array(&b->c->arena, const char *, toml_count(v) + 1);
    size_t count = 0;
    struct str text;

    if (toml_type(v) != TOML_ARRAY || !items) {
        refuse_value(b, row, v, items ? "found no list" : "the list is too long");
        return false;
    }
    for (const struct toml *item = toml_first(v); item; item = toml_next(item)) {
        if (toml_to_str(item, &text, NULL) < 0 || text.n == 0 || !is_c_string(text) ||
            !config_form_fits(row->form, text)) {
            refuse_value(b, row, item, "this item does not fit");
            return false;
        }
        items[count++] = text.p;
    }
    *list = (struct config_list){items, count};
    return true;
}

static bool bind_pairs(struct binder *b, const struct config_row *row, const struct toml *v)
{
    struct config_pairs *pairs = config_field(b->c, row);
    struct config_pair *at = arena_new_array(&b->c->arena, struct config_pair, toml_count(v) + 1);
    size_t count = 0;
    struct str text;

    if (toml_type(v) != TOML_TABLE || !at) {
        refuse_value(b, row, v, at ? "found no table" : "the table is too long");
        return false;
    }
    for (const struct toml *item = toml_first(v); item; item = toml_next(item)) {
        const char *name = arena_strdup(&b->c->arena, toml_key(item));

        if (toml_to_str(item, &text, NULL) < 0 || !is_c_string(text) || !name ||
            !is_c_string(toml_key(item))) {
            refuse_value(b, row, item, "this value is not a text");
            return false;
        }
        at[count++] = (struct config_pair){name, text.p};
    }
    *pairs = (struct config_pairs){at, count};
    return true;
}

/* base64 with or without its padding. */
static bool decode_secret(struct arena *a, struct str text, struct str *ret)
{
    size_t room = BASE64_DATA_MAX(text.n), n = 0;
    char *out = arena_alloc(a, room + 1);

    if (!out || (base64_decode(text, BASE64_STD, out, room, &n) < 0 &&
                 base64_decode(text, BASE64_STD | BASE64_NO_PAD, out, room, &n) < 0))
        return false;
    *ret = str_make(out, n);
    return n > 0;
}

static const char *bind_key(struct binder *b, const struct toml *item, struct config_keys *keys)
{
    const struct toml *id_at = toml_get(item, STR("key_id")), *key_at = toml_get(item, STR("key"));
    struct config_key key = {0};
    struct str id, text;

    if (!id_at || toml_to_str(id_at, &id, NULL) < 0 || id.n == 0 ||
        !config_form_fits(FORM_KEY_ID, id))
        return "key_id is missing or wrong";
    if (!key_at || toml_to_str(key_at, &text, NULL) < 0 ||
        !decode_secret(&b->c->arena, text, &key.secret))
        return "key is missing, empty or not base64";
    key.id = id.p[0];
    for (size_t i = 0; i < keys->count; i++)
        if (keys->at[i].id == key.id)
            return "this key_id occurs twice";
    keys->at[keys->count++] = key;
    return NULL;
}

static bool bind_keys(struct binder *b, const struct config_row *row, const struct toml *v)
{
    enum { SECURE_KEYS_MAX = 36 }; /* one for each possible key_id */
    struct config_keys keys = {0};

    if (toml_type(v) != TOML_ARRAY || toml_count(v) > SECURE_KEYS_MAX) {
        refuse_value(b, row, v, "found no list of at most 36 tables");
        return false;
    }
    keys.at = arena_new_array(&b->c->arena, struct config_key, toml_count(v) + 1);
    for (const struct toml *item = toml_first(v); keys.at && item; item = toml_next(item)) {
        const char *wrong = bind_key(b, item, &keys);

        if (!wrong)
            continue;
        refuse_value(b, row, item, wrong);
        return false;
    }
    *(struct config_keys *)config_field(b->c, row) = keys;
    return true;
}

static void bind_row(struct binder *b, const struct config_row *row, const struct toml *v)
{
    bool bound;

    if (row->kind == CONFIG_LIST)
        bound = bind_list(b, row, v);
    else if (row->kind == CONFIG_PAIRS)
        bound = bind_pairs(b, row, v);
    else if (row->kind == CONFIG_KEYS)
        bound = bind_keys(b, row, v);
    else
        bound = bind_scalar(b, row, v);
    if (bound)
        b->c->origins[row - config_rows] = (struct config_origin){.line = toml_key_pos(v).line};
}

/* --- walking a document --- */

/* Whether it is a section, or the beginning of a section's path. */
static bool is_section(struct str path)
{
    for (size_t i = 0; i < config_section_count; i++) {
        struct str known = str_of(config_sections[i].path);

        if (str_starts(known, path) && (known.n == path.n || known.p[path.n] == '.'))
            return true;
    }
    return false;
}

/* The most similar known key or section; "" when none is similar. */
static void find_nearest(struct str path, struct str key, char out[CONFIG_NAME_MAX])
{
    enum { ELSEWHERE = 3 }; /* distance of the same key in another section */
    unsigned best = (unsigned)max_size(ELSEWHERE, key.n / 3) + 1;
    char name[CONFIG_NAME_MAX];

    out[0] = '\0';
    for (size_t i = 0; i < CONFIG_ROW_COUNT + config_section_count; i++) {
        bool is_row = i < CONFIG_ROW_COUNT;
        const char *known = is_row ? config_row_name(&config_rows[i], name)
                                   : config_sections[i - CONFIG_ROW_COUNT].path;
        unsigned distance = config_distance(path, str_of(known));

        if (is_row && distance > ELSEWHERE && str_eq(key, str_of(config_rows[i].key)))
            distance = ELSEWHERE;
        if (distance >= best)
            continue;
        best = distance;
        (void)snprintf(out, CONFIG_NAME_MAX, is_row ? "%s" : "[%s]", known);
    }
}

static void warn_unknown(struct binder *b, const struct toml *v, struct str path)
{
    struct config_place at = {b->file, toml_key_pos(v)};
    char nearest[CONFIG_NAME_MAX];

    if (b->report->warnings > 100)
        return; /* the search is slow, and so many warnings are not read */
    find_nearest(path, toml_key(v), nearest);
    config_warn(b->report, &at, "%.*s is unknown and ignored%s%s%s",
                (int)min_size(path.n, CONFIG_NAME_MAX), path.p, nearest[0] ? "; did you mean " : "",
                nearest, nearest[0] ? "?" : "");
}

/* Joins keys by dots. A key that contains a dot is quoted, so it matches no row. NULL when the
 * arena is full. */
static const char *path_of(struct arena *a, const char *parent, struct str key)
{
    bool plain = str_find(key, '.') == key.n && is_c_string(key);
    const char *quote = plain ? "" : "\"";

    return arena_printf(a, "%s%s%s%.*s%s", parent, parent[0] ? "." : "", quote,
                        (int)min_size(key.n, CONFIG_NAME_MAX), key.p, quote);
}

/* A table that is or leads to a section. */
struct table {
    const struct toml *toml;
    const char *path;
};
enum { TABLES_MAX = 64 }; /* more than there are sections; each appears once */

/* Keys of [embedded] that every runtime needs, and that moved. Their old names still work. */
static const struct {
    const char *before, *now;
} renamed[] = {
    {"embedded.state",              "server.state"              },
    {"embedded.user",               "server.user"               },
    {"embedded.workers",            "server.workers"            },
    {"embedded.execd_program",      "runtime.execd_program"     },
    {"embedded.ready",              "runtime.ready"             },
    {"embedded.default_memory",     "runtime.default_memory"    },
    {"embedded.default_cpu",        "runtime.default_cpu"       },
    {"embedded.default_disk",       "runtime.default_disk"      },
    {"embedded.failed_ttl_seconds", "runtime.failed_ttl_seconds"},
    {"embedded.reconcile_seconds",  "runtime.reconcile_seconds" },
};

static const struct config_row *find_renamed(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++)
        if (strcmp(renamed[i].before, path) == 0)
            return config_row_find(str_of(renamed[i].now));
    return NULL;
}

/* The new name counts when both are given, in whatever order. */
static void bind_renamed(struct binder *b, const struct config_row *row, const struct toml *v,
                         const char *path)
{
    struct config_place at = {b->file, toml_key_pos(v)};
    bool both = b->c->origins[row - config_rows].line != 0;
    char name[CONFIG_NAME_MAX];

    config_warn(b->report, &at, "%s is an old name%s; the key is now %s", path,
                both ? ", ignored beside the new one" : "", config_row_name(row, name));
    if (!both)
        bind_row(b, row, v);
}

static void bind_table(struct binder *b, struct table table, struct table todo[TABLES_MAX],
                       size_t *count)
{
    for (const struct toml *v = toml_first(table.toml); v; v = toml_next(v)) {
        const char *path = path_of(&b->c->arena, table.path, toml_key(v));
        const struct config_row *row = path ? config_row_find(str_of(path)) : NULL;
        const struct config_row *moved = path && !row ? find_renamed(path) : NULL;
        struct config_place at = {b->file, toml_key_pos(v)};

        if (!path)
            config_error(b->report, &at, "the file is too long");
        else if (row)
            bind_row(b, row, v);
        else if (moved)
            bind_renamed(b, moved, v, path);
        else if (!is_section(str_of(path)))
            warn_unknown(b, v, str_of(path));
        else if (toml_type(v) != TOML_TABLE)
            config_error(b->report, &at, "%s: found %s; expected a section, as in [%s]", path,
                         toml_type_name(toml_type(v)), path);
        else if (*count < TABLES_MAX)
            todo[(*count)++] = (struct table){v, path};
    }
}

void config_bind(struct config *c, const struct toml *root, const char *file,
                 struct config_report *report)
{
    struct binder b = {c, report, file};
    struct table todo[TABLES_MAX] = {
        {root, ""}
    };

    for (size_t done = 0, count = 1; done < count; done++)
        bind_table(&b, todo[done], todo, &count);
}

/* --- options and variables --- */

static bool read_real(const char *text, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    return end != text && *end == '\0';
}

void config_override(struct config *c, const char *name, const char *value, const char *origin,
                     struct config_report *report)
{
    const struct config_row *row = config_row_find(str_of(name));
    struct binder b = {c, report, NULL};
    struct scalar s = {.type = TOML_STRING, .text = arena_str(&c->arena, str_of(value))};
    char found[160];

    if (row->kind == CONFIG_INT && str_to_i64(s.text, &s.number) == 0)
        s.type = TOML_INTEGER;
    if (row->kind == CONFIG_REAL && s.text.n && read_real(s.text.p, &s.real))
        s.type = TOML_FLOAT;
    if (row->kind == CONFIG_BOOL &&
        (str_eq_nocase(s.text, STR("true")) || str_eq_nocase(s.text, STR("false")))) {
        s.type = TOML_BOOL;
        s.yes = str_eq_nocase(s.text, STR("true"));
    }
    if (s.text.p && take_scalar[row->kind](row, &s, config_field(c, row)))
        c->origins[row - config_rows] = (struct config_origin){.name = origin};
    else
        refuse(&b, row, NULL, origin, describe(row, &s, found, sizeof(found)));
}
