/* config_print.c - a configuration as TOML: the effective one, and a skeleton of all keys. */
#include <errno.h>
#include <inttypes.h>

#include "base/codec.h"
#include "server/config/config_internal.h"

enum { WRAP_COLUMNS = 96 };

static int add_text(struct buf *out, struct str text)
{
    int r = buf_add_char(out, '"');

    for (size_t i = 0; r == 0 && i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];

        if (c < 0x20 || c == 0x7f)
            r = buf_addf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            r = buf_addf(out, "\\%c", c);
        else
            r = buf_add_char(out, (char)c);
    }
    return r ? r : buf_add_char(out, '"');
}

/* Uses the largest unit that gives a whole number. */
static int add_bytes(struct buf *out, uint64_t bytes)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t i = 0;

    while (bytes && bytes % 1024 == 0 && i + 1 < ARRAY_LEN(units)) {
        bytes /= 1024;
        i++;
    }
    return buf_addf(out, "\"%" PRIu64 "%s\"", bytes, units[i]);
}

static int add_cpu(struct buf *out, uint32_t millicores)
{
    if (millicores % 1000 == 0)
        return buf_addf(out, "\"%u\"", millicores / 1000);
    return buf_addf(out, "\"%um\"", millicores);
}

static int add_real(struct buf *out, double v)
{
    size_t start = out->n;
    int r = buf_addf(out, "%.17g", v);

    if (r == 0 && !strpbrk(out->p + start, ".e"))
        r = buf_add(out, STR(".0"));
    return r;
}

static int add_list(struct buf *out, const struct config_list *list, bool hide)
{
    int r = buf_add_char(out, '[');

    for (size_t i = 0; r == 0 && i < list->count; i++) {
        r = buf_add(out, i ? STR(", ") : STR(""));
        if (r == 0)
            r = add_text(out, hide ? STR(CONFIG_HIDDEN) : str_of(list->at[i]));
    }
    return r ? r : buf_add_char(out, ']');
}

static int add_pairs(struct buf *out, const struct config_pairs *pairs)
{
    int r = buf_add_char(out, '{');

    for (size_t i = 0; r == 0 && i < pairs->count; i++) {
        r = buf_add(out, i ? STR(", ") : STR(" "));
        if (r == 0)
            r = add_text(out, str_of(pairs->at[i].name));
        if (r == 0)
            r = buf_add(out, STR(" = "));
        if (r == 0)
            r = add_text(out, str_of(pairs->at[i].value));
    }
    return r ? r : buf_add(out, pairs->count ? STR(" }") : STR("}"));
}

static int add_keys(struct buf *out, const struct config_keys *keys, bool hide)
{
    int r = buf_add_char(out, '[');

    for (size_t i = 0; r == 0 && i < keys->count; i++) {
        struct str secret = keys->at[i].secret;

        r = buf_addf(out, "%s{ key_id = \"%c\", key = \"", i ? ", " : "", keys->at[i].id);
        if (r == 0 && hide)
            r = buf_add(out, STR(CONFIG_HIDDEN));
        else if (r == 0 && (r = buf_reserve(out, BASE64_TEXT_MAX(secret.n))) == 0)
            buf_claim(out, base64_encode(secret, BASE64_STD, out->p + out->n));
        if (r == 0)
            r = buf_add(out, STR("\" }"));
    }
    return r ? r : buf_add_char(out, ']');
}

static int print_value(const struct config *c, const struct config_row *row, bool reveal,
                       struct buf *out)
{
    const void *field = config_field_of(c, row);
    bool hide = !reveal && config_row_is_secret(row);

    switch ((enum config_kind)row->kind) {
    case CONFIG_TEXT:
        if (hide && (*(const char *const *)field)[0])
            return add_text(out, STR(CONFIG_HIDDEN));
        return add_text(out, str_of(*(const char *const *)field));
    case CONFIG_WORD:
        return add_text(out, config_word(row->words, *(const int *)field));
    case CONFIG_INT:
        return buf_addf(out, "%" PRId64, *(const int64_t *)field);
    case CONFIG_REAL:
        return add_real(out, *(const double *)field);
    case CONFIG_BOOL:
        return buf_add(out, *(const bool *)field ? STR("true") : STR("false"));
    case CONFIG_BYTES:
        return add_bytes(out, *(const uint64_t *)field);
    case CONFIG_CPU:
        return add_cpu(out, *(const uint32_t *)field);
    case CONFIG_LIST:
        return add_list(out, field, hide);
    case CONFIG_PAIRS:
        return add_pairs(out, field);
    case CONFIG_KEYS:
        return add_keys(out, field, hide);
    }
    return -EINVAL;
}

int config_print_default(const struct config_row *row, struct buf *out)
{
    struct config *defaults = config_new();
    int r = print_value(defaults, row, true, out);

    config_free(defaults);
    return r;
}

/* --- the effective configuration --- */

static int print_row(const struct config *c, const struct config_row *row, bool reveal,
                     struct buf *out)
{
    const struct config_origin *origin = &c->origins[row - config_rows];
    int r = buf_addf(out, "%s = ", row->key);

    if (r == 0)
        r = print_value(c, row, reveal, out);
    if (r == 0 && origin->name)
        r = buf_addf(out, " # %s", origin->name);
    else if (r == 0 && origin->line)
        r = buf_addf(out, " # line %u", origin->line);
    return r ? r : buf_add_char(out, '\n');
}

/* Whether a section of defaults has no effect. The presence of any other one means something. */
static bool is_harmless(size_t section)
{
    static const char *const paths[] = {
        "server", "log", "runtime", "embedded", "storage", "store", "cluster", "renew_intent",
    };

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (strcmp(config_sections[section].path, paths[i]) == 0)
            return true;
    return false;
}

static bool is_to_be_shown(const struct config *c, size_t section)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++)
        if (config_rows[i].section == section && (c->origins[i].line || c->origins[i].name))
            return true;
    return is_harmless(section);
}

int config_print(const struct config *config, bool reveal, struct buf *out)
{
    int r = config->path ? buf_addf(out, "# from %s, with the defaults for what it leaves out\n",
                                    config->path)
                         : buf_add(out, STR("# there is no configuration file: all defaults\n"));

    if (r == 0 && config->insecure)
        r = buf_add(out, STR("# OPENSANDBOX_INSECURE_SERVER=YES: no key is required\n"));
    for (size_t s = 0; r == 0 && s < config_section_count; s++) {
        if (!is_to_be_shown(config, s))
            continue;
        r = buf_addf(out, "\n[%s]\n", config_sections[s].path);
        for (size_t i = 0; r == 0 && i < CONFIG_ROW_COUNT; i++)
            if (config_rows[i].section == s)
                r = print_row(config, &config_rows[i], reveal, out);
    }
    return r;
}

/* --- the skeleton --- */

/* Prints text as lines of a comment, wrapped. */
static int print_wrapped(struct str text, struct buf *out)
{
    size_t column = 0;
    struct str word;
    int r = 0;

    while (r == 0 && str_cut(&text, ' ', &word)) {
        bool fits = column > 0 && column + 1 + word.n <= WRAP_COLUMNS;

        r = buf_addf(out, "%s%.*s", fits ? " " : column ? "\n# " : "# ", STR_ARG(word));
        column = fits ? column + 1 + word.n : 2 + word.n;
    }
    return r ? r : buf_add_char(out, '\n');
}

static int print_skeleton_row(const struct config_row *row, struct buf *out)
{
    AUTO_BUF(text, 1024);
    int r = buf_addf(&text, "%s Expects ", row->help);

    if (r == 0)
        r = config_row_expects(row, &text);
    if (r == 0)
        r = buf_add_char(&text, '.');
    if (r == 0)
        r = print_wrapped(buf_str(&text), out);
    if (r == 0)
        r = buf_addf(out, "#%s = ", row->key);
    if (r == 0)
        r = config_print_default(row, out);
    return r ? r : buf_add(out, STR("\n\n"));
}

int config_print_skeleton(struct buf *out)
{
    int r = buf_add(out, STR("# Configuration of opensandbox-server. Every key is here with its "
                             "default; take the # off\n# those you change, and off their section "
                             "where it has one.\n\n"));

    for (size_t s = 0; r == 0 && s < config_section_count; s++) {
        r = print_wrapped(str_of(config_sections[s].help), out);
        if (r == 0)
            r = buf_addf(out, "%s[%s]\n\n", is_harmless(s) ? "" : "#", config_sections[s].path);
        for (size_t i = 0; r == 0 && i < CONFIG_ROW_COUNT; i++)
            if (config_rows[i].section == s)
                r = print_skeleton_row(&config_rows[i], out);
    }
    return r;
}
