#include "server/spec_json.h"

#include "base/arena.h"
#include "base/json_write.h"

enum { SPEC_BYTES_MAX = 32 << 10, PRINT_ARENA_MAX = 1 << 20 };

/* Whether a name contains one of these words, in any case. */
static bool looks_secret(struct str name)
{
    static const char *const words[] = {"SECRET", "TOKEN", "PASSWORD", "KEY"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);

        for (size_t at = 0; at + n <= name.n; at++)
            if (str_eq_nocase(str_make(name.p + at, n), str_of(words[i])))
                return true;
    }
    return false;
}

static void write_limits(struct json_writer *w, const struct api_limits *limits)
{
    json_write_key(w, STR("limits"));
    json_write_object(w);
    json_write_key(w, STR("cpu_millicores"));
    json_write_u64(w, limits->cpu_millicores);
    json_write_key(w, STR("memory_bytes"));
    json_write_u64(w, limits->memory_bytes);
    json_write_key(w, STR("disk_bytes"));
    json_write_u64(w, limits->disk_bytes);
    json_write_object_end(w);
}

static int write_spec(const struct api_create *spec, bool with_env, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    write_limits(&w, &spec->limits);
    if (with_env) {
        json_write_key(&w, STR("env"));
        json_write_object(&w);
        for (size_t i = 0; i < spec->env_count; i++) {
            json_write_key(&w, spec->env[i].key);
            json_write_string(&w, looks_secret(spec->env[i].key) ? STR("***") : spec->env[i].value);
        }
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

char *spec_json_new(const struct api_create *spec)
{
    AUTO_BUF(out, SPEC_BYTES_MAX);

    if (write_spec(spec, true, &out) < 0 && write_spec(spec, false, &out) < 0)
        return NULL;
    return buf_take(&out);
}

static int print_limits(const struct json *limits, struct buf *out)
{
    static const struct {
        const char *key, *name, *unit;
    } rows[] = {
        {"cpu_millicores", "cpu limit:",  "millicores"},
        {"memory_bytes",   "mem. limit:", "bytes"     },
        {"disk_bytes",     "disk limit:", "bytes"     },
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++) {
        uint64_t value = 0;

        if (json_to_u64(json_get(limits, str_of(rows[i].key)), &value) == 0 && value > 0)
            r = buf_addf(out, "%-12s%llu %s\n", rows[i].name, (unsigned long long)value,
                         rows[i].unit);
        else
            r = buf_addf(out, "%-12sthe server's default\n", rows[i].name);
    }
    return r;
}

/* Text may hold anything: it stays on its line, quoted as in JSON where it has to be. */
static int print_text(struct str text, struct buf *out)
{
    struct json_writer w;

    if (json_plain_bytes(text) == text.n)
        return buf_add(out, text);
    json_write_begin(&w, out);
    json_write_string(&w, text);
    return json_write_end(&w);
}

static int print_env(const struct json *v, struct buf *out)
{
    struct str value = STR_NONE;
    int r = buf_addf(out, "%-12s", "env:");

    (void)!json_to_str(v, &value);
    if (r == 0)
        r = print_text(v->key, out);
    if (r == 0)
        r = buf_add_char(out, '=');
    if (r == 0)
        r = print_text(value, out);
    return r < 0 ? r : buf_add_char(out, '\n');
}

int spec_json_print(struct str json, struct buf *out)
{
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST};
    struct arena arena;
    struct json *root = NULL;
    int r = 0;

    arena_init(&arena, PRINT_ARENA_MAX);
    if (json.n > 0 && json_parse(&arena, json, &limits, &root, NULL) == 0) {
        r = print_limits(json_get(root, STR("limits")), out);
        json_each(v, json_get(root, STR("env"))) if (r == 0) r = print_env(v, out);
    }
    arena_done(&arena);
    return r;
}
