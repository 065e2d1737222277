/* shape.c - answers of the API as osb shows them: keys in snake case, missing ones as null. */
#include "osb/cli.h"

enum { KEY_BYTES_MAX = 200 };

const char SHAPE_SANDBOX[] = "id status{state reason message last_transition_at} entrypoint "
                             "expires_at created_at image{image=uri auth} snapshot_id platform "
                             "allocation metadata extensions";
const char SHAPE_SNAPSHOT[] =
    "id sandbox_id name status{state reason message last_transition_at} created_at";
const char SHAPE_PAGE[] = "page page_size total_items total_pages has_next_page";
const char SHAPE_FILE[] = "path entry_type=type mode owner group size modified_at created_at";
const char SHAPE_COMMAND[] = "id content running exit_code error started_at finished_at";
const char SHAPE_DIAGNOSTIC[] = "sandbox_id kind scope delivery content_type truncated content "
                                "content_url content_length expires_at warnings";

const char SHAPE_TEMPLATE[] = "template_id image publish format status{phase manifest_ref message} "
                              "created_at updated_at resource_limits entrypoint env metadata "
                              "readiness{probe warmup_seconds}";

/* "created_at" to "createdAt" */
static struct str to_camel(struct str name, char out[KEY_BYTES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < name.n && n < KEY_BYTES_MAX; i++) {
        char c = name.p[i];

        if (c == '_' && i + 1 < name.n) {
            c = name.p[++i];
            c = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        }
        out[n++] = c;
    }
    return str_make(out, n);
}

static struct str to_snake(struct str name, char out[2 * KEY_BYTES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < name.n && i < KEY_BYTES_MAX; i++) {
        bool upper = name.p[i] >= 'A' && name.p[i] <= 'Z';

        if (upper && i > 0)
            out[n++] = '_';
        out[n++] = ascii_lower(name.p[i]);
    }
    return str_make(out, n);
}

/* The member of an object that the API calls as `name` in either case. */
static const struct json *member(const struct json *v, struct str name)
{
    char camel[KEY_BYTES_MAX];
    const struct json *found = json_get(v, to_camel(name, camel));

    return found ? found : json_get(v, name);
}

/* One member: "name" or "name=source"; a nested shape is written by the caller. */
static const struct json *write_key(struct json_writer *w, const struct json *v, struct str word)
{
    struct str name;

    str_cut(&word, '=', &name);
    json_write_key(w, name);
    return member(v, word.p ? word : name);
}

static void write_flat(struct json_writer *w, const struct json *v, struct str shape)
{
    struct str word;

    json_write_object(w);
    while (str_cut(&shape, ' ', &word)) {
        const struct json *found = write_key(w, v, word);

        if (found)
            json_write_value(w, found);
        else
            json_write_null(w);
    }
    json_write_object_end(w);
}

void shape_write(struct json_writer *w, const struct json *v, const char *shape)
{
    struct str rest = str_of(shape);

    json_write_object(w);
    while (rest.n > 0) {
        size_t blank = str_find(rest, ' '), brace = str_find(rest, '{');
        struct str inner = STR_NONE, word = str_make(rest.p, blank < brace ? blank : brace);
        const struct json *found;

        if (brace < blank) {
            size_t end = str_find(rest, '}');

            inner = str_make(rest.p + brace + 1, end - brace - 1);
            blank = end + 1;
        }
        found = write_key(w, v, word);
        if (!found || found->type == JSON_NULL)
            json_write_null(w);
        else if (inner.p && found->type == JSON_OBJECT)
            write_flat(w, found, inner);
        else
            json_write_value(w, found);
        rest = str_skip(rest, min_size(blank + 1, rest.n));
    }
    json_write_object_end(w);
}

static bool is_map(struct str key)
{
    return str_eq(key, STR("metadata")) || str_eq(key, STR("headers")) || str_eq(key, STR("env")) ||
           str_eq(key, STR("extensions")) || str_eq(key, STR("template"));
}

/* Levels are walked by hand: the depth of what the server sends is limited by json_parse. */
void shape_snake(struct json_writer *w, const struct json *v)
{
    const struct json *open[JSON_DEPTH_CEILING], *next[JSON_DEPTH_CEILING + 1] = {v};
    unsigned depth = 0;

    for (;;) {
        const struct json *n = next[depth];
        char key[2 * KEY_BYTES_MAX];

        if (!n && depth == 0)
            return;
        if (!n) {
            if (open[--depth]->type == JSON_ARRAY)
                json_write_array_end(w);
            else
                json_write_object_end(w);
            continue;
        }
        next[depth] = depth ? n->next : NULL;
        if (depth > 0 && n->key.p)
            json_write_key(w, to_snake(n->key, key));
        if ((n->type != JSON_ARRAY && n->type != JSON_OBJECT) ||
            (depth > 0 && n->key.p && is_map(n->key)) || depth == JSON_DEPTH_CEILING - 1) {
            json_write_value(w, n);
            continue;
        }
        if (n->type == JSON_ARRAY)
            json_write_array(w);
        else
            json_write_object(w);
        open[depth++] = n;
        next[depth] = json_first(n);
    }
}
