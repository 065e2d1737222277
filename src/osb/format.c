/* format.c - a JSON tree as indented JSON, YAML, or a table. */
#include "osb/cli.h"

#include "base/utf8.h"

/* A tree in order, without recursion: each container is opened, its children come, it is closed. */
enum walk_event { WALK_END, WALK_VALUE, WALK_OPEN, WALK_CLOSE };

enum { WALK_DEPTH_MAX = JSON_DEPTH_CEILING + 1 };

struct walk {
    const struct json *node; /* of the last event */
    const struct json *open[WALK_DEPTH_MAX], *next[WALK_DEPTH_MAX + 1];
    bool first[WALK_DEPTH_MAX + 1]; /* the next child is the first one */
    unsigned depth;
};

static void walk_begin(struct walk *w, const struct json *v)
{
    w->depth = 0;
    w->next[0] = v;
    w->first[0] = true;
}

static enum walk_event walk_next(struct walk *w)
{
    const struct json *n = w->next[w->depth];

    if (!n) {
        if (w->depth == 0)
            return WALK_END;
        w->node = w->open[--w->depth];
        return WALK_CLOSE;
    }
    w->node = n;
    w->next[w->depth] = w->depth ? n->next : NULL;
    if ((n->type != JSON_ARRAY && n->type != JSON_OBJECT) || w->depth == WALK_DEPTH_MAX - 1)
        return WALK_VALUE;
    w->open[w->depth++] = n;
    w->next[w->depth] = json_first(n);
    w->first[w->depth] = true;
    return WALK_OPEN;
}

/* --- scalars --- */

static void add_quoted(struct buf *out, struct str s)
{
    buf_add_char(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else if (c == '\n')
            buf_add(out, STR("\\n"));
        else if (c < 0x20 || c == 0x7f)
            buf_addf(out, "\\u%04x", c);
        else
            buf_add_char(out, (char)c);
    }
    buf_add_char(out, '"');
}

static void add_scalar(struct buf *out, const struct json *v)
{
    switch (v->type) {
    case JSON_STRING:
        add_quoted(out, v->string);
        break;
    case JSON_NUMBER:
        buf_add(out, v->text);
        break;
    case JSON_BOOL:
        buf_add(out, v->boolean ? STR("true") : STR("false"));
        break;
    case JSON_ARRAY: /* an empty one, or too deep */
        buf_add(out, STR("[]"));
        break;
    case JSON_OBJECT:
        buf_add(out, STR("{}"));
        break;
    default:
        buf_add(out, STR("null"));
    }
}

/* --- JSON --- */

static void add_line_start(struct buf *out, struct walk *w, unsigned depth, bool indent)
{
    if (depth > 0 && !w->first[depth])
        buf_add(out, indent ? STR(",") : STR(", "));
    if (depth > 0 && indent)
        buf_addf(out, "\n%*s", (int)(2 * depth), "");
    w->first[depth] = false;
    if (depth > 0 && w->node->key.p) {
        add_quoted(out, w->node->key);
        buf_add(out, STR(": "));
    }
}

static void add_json(struct buf *out, const struct json *v, bool indent)
{
    struct walk w;
    enum walk_event event;

    walk_begin(&w, v);
    while ((event = walk_next(&w)) != WALK_END) {
        bool array = w.node->type == JSON_ARRAY;

        if (event == WALK_VALUE) {
            add_line_start(out, &w, w.depth, indent);
            add_scalar(out, w.node);
        } else if (event == WALK_OPEN) {
            add_line_start(out, &w, w.depth - 1, indent);
            buf_add_char(out, array ? '[' : '{');
        } else {
            if (indent && json_count(w.node) > 0)
                buf_addf(out, "\n%*s", (int)(2 * w.depth), "");
            buf_add_char(out, array ? ']' : '}');
        }
    }
    buf_add_char(out, '\n');
}

void format_json(struct buf *out, const struct json *v)
{
    add_json(out, v, true);
}

void format_json_line(struct buf *out, const struct json *v)
{
    add_json(out, v, false);
}

/* --- YAML --- */

/* Whether a string means itself without quotes, for YAML 1.1 and 1.2 alike. */
static bool is_plain(struct str s)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};

    if (s.n == 0 || s.n > 200 || !(ascii_is_alpha(s.p[0]) || s.p[0] == '/'))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && !strchr("_-./", s.p[i]))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq_nocase(s, str_of(words[i])))
            return false;
    return true;
}

static void add_yaml_string(struct buf *out, struct str s)
{
    if (is_plain(s))
        buf_add(out, s);
    else
        add_quoted(out, s);
}

void format_yaml(struct buf *out, const struct json *v)
{
    struct walk w;
    enum walk_event event;
    bool inline_next = true; /* the line has begun: behind "- ", or at the very start */
    int indent[WALK_DEPTH_MAX + 1] = {0};

    walk_begin(&w, v);
    while ((event = walk_next(&w)) != WALK_END) {
        unsigned depth = event == WALK_OPEN ? w.depth - 1 : w.depth;
        bool nested = event == WALK_OPEN && json_count(w.node) > 0;
        const struct json *up = depth > 0 ? w.open[depth - 1] : NULL;

        if (event == WALK_CLOSE)
            continue;
        if (up && !inline_next)
            buf_addf(out, "%*s", indent[depth], "");
        inline_next = false;
        if (up && up->type == JSON_OBJECT) {
            add_yaml_string(out, w.node->key);
            buf_add(out, nested ? STR(":\n") : STR(": "));
        } else if (up) {
            buf_add(out, STR("- "));
        }
        if (!nested) {
            if (w.node->type == JSON_STRING)
                add_yaml_string(out, w.node->string);
            else
                add_scalar(out, w.node);
            buf_add_char(out, '\n');
            continue;
        }
        /* Items of a list stand below its key; members of an object two further in. */
        inline_next = !up || up->type == JSON_ARRAY;
        indent[w.depth] = !up                          ? 0
                          : up->type == JSON_ARRAY     ? indent[depth] + 2
                          : w.node->type == JSON_ARRAY ? indent[depth]
                                                       : indent[depth] + 2;
    }
}

/* --- tables --- */

enum { CELL_BYTES_MAX = 200, COLUMNS_MAX = 12 };

/* A value on one line; "-" for none. */
static void add_cell(struct buf *out, const struct json *v)
{
    AUTO_BUF(text, DOC_BYTES_MAX);

    if (!v || v->type == JSON_NULL) {
        buf_add_char(out, '-');
        return;
    }
    if (v->type == JSON_STRING)
        buf_add(&text, v->string);
    else {
        format_json_line(&text, v);
        buf_cut(&text, text.n ? text.n - 1 : 0);
    }
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < 0x20)
            text.p[i] = ' ';
    buf_add(out, buf_str(&text));
}

static size_t width_of(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

static void add_rule(struct buf *out, const size_t *widths, size_t n, const char *const ends[3])
{
    for (size_t i = 0; i < n; i++) {
        buf_add(out, str_of(ends[i == 0 ? 0 : 1]));
        for (size_t k = 0; k < widths[i] + 2; k++)
            buf_add(out, STR("─"));
    }
    buf_addf(out, "%s\n", ends[2]);
}

static void add_padded(struct buf *out, struct str s, size_t width, const char *style)
{
    buf_addf(out, "│ %s%.*s%s%*s ", style, STR_ARG(s), style[0] ? "\033[0m" : "",
             (int)(width - width_of(s)), "");
}

static const char *style_of(struct str column, struct str cell, bool color)
{
    static const struct {
        const char *state, *style;
    } states[] = {
        {"Running",    "\033[1;32m"},
        {"Pending",    "\033[1;33m"},
        {"Paused",     "\033[1;34m"},
        {"Terminated", "\033[2m"   },
        {"Failed",     "\033[1;31m"},
        {"Ready",      "\033[1;32m"},
        {"terminated", "\033[2m"   }
    };

    if (!color)
        return "";
    if (str_eq(column, STR("status")))
        for (size_t i = 0; i < ARRAY_LEN(states); i++)
            if (str_eq(cell, str_of(states[i].state)))
                return states[i].style;
    if (str_eq(column, STR("id")) || str_ends(column, STR("_id")))
        return "\033[1;36m";
    return str_ends(column, STR("_at")) ? "\033[2m" : "";
}

static size_t split_columns(const char *columns, struct str out[COLUMNS_MAX])
{
    struct str rest = str_of(columns), word;
    size_t n = 0;

    while (n < COLUMNS_MAX && str_cut(&rest, ' ', &word))
        out[n++] = word;
    return n;
}

void format_table(struct buf *out, const char *columns, const struct json *rows, bool color)
{
    struct str names[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX] = {0}, n = split_columns(columns, names);
    AUTO_BUF(cell, DOC_BYTES_MAX);

    for (size_t i = 0; i < n; i++) {
        widths[i] = names[i].n;
        json_each(row, rows)
        {
            buf_clear(&cell);
            add_cell(&cell, json_get(row, names[i]));
            widths[i] = max_size(widths[i], width_of(buf_str(&cell)));
        }
    }
    add_rule(out, widths, n, (const char *const[]){"╭", "┬", "╮"});
    for (size_t i = 0; i < n; i++) {
        buf_clear(&cell);
        for (size_t k = 0; k < names[i].n; k++) {
            char c = names[i].p[k];

            buf_add_char(&cell, c >= 'a' && c <= 'z' ? (char)(c - 32) : c);
        }
        add_padded(out, buf_str(&cell), widths[i], color ? "\033[1;35m" : "");
    }
    buf_add(out, STR("│\n"));
    add_rule(out, widths, n, (const char *const[]){"├", "┼", "┤"});
    json_each(row, rows)
    {
        for (size_t i = 0; i < n; i++) {
            buf_clear(&cell);
            add_cell(&cell, json_get(row, names[i]));
            add_padded(out, buf_str(&cell), widths[i], style_of(names[i], buf_str(&cell), color));
        }
        buf_add(out, STR("│\n"));
    }
    add_rule(out, widths, n, (const char *const[]){"╰", "┴", "╯"});
}

void format_pairs(struct buf *out, const struct json *object, bool color)
{
    size_t widths[2] = {3, 5};
    AUTO_BUF(cell, DOC_BYTES_MAX);

    json_each(member, object)
    {
        buf_clear(&cell);
        add_cell(&cell, member);
        widths[0] = max_size(widths[0], width_of(member->key));
        widths[1] = max_size(widths[1], width_of(buf_str(&cell)));
    }
    add_rule(out, widths, 2, (const char *const[]){"╭", "┬", "╮"});
    add_padded(out, STR("Key"), widths[0], color ? "\033[1;35m" : "");
    add_padded(out, STR("Value"), widths[1], color ? "\033[1;35m" : "");
    buf_add(out, STR("│\n"));
    add_rule(out, widths, 2, (const char *const[]){"├", "┼", "┤"});
    json_each(member, object)
    {
        buf_clear(&cell);
        add_cell(&cell, member);
        add_padded(out, member->key, widths[0], color ? "\033[1;36m" : "");
        add_padded(out, buf_str(&cell), widths[1], style_of(member->key, buf_str(&cell), color));
        buf_add(out, STR("│\n"));
    }
    add_rule(out, widths, 2, (const char *const[]){"╰", "┴", "╯"});
}
