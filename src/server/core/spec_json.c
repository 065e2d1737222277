#include "server/core/spec_json.h"

#include <errno.h>

#include "base/arena.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "server/core/spec_request.h"
#include "server/store/store.h"

enum {
    SPEC_KIB_MAX = 32,
    PRINT_ARENA_MAX = 1 << 20,
    SECRETS_BYTES_MAX = 512 << 10,
    UNSEAL_ARENA_MAX = 4 << 20,
    LABEL_BYTES_MAX = 256,
};

#define EXECD_TOKEN STR("EXECD_ACCESS_TOKEN")

/* --- secrets --- */

static bool is_alnum_at(struct str s, size_t at)
{
    return at < s.n && (ascii_is_alpha(s.p[at]) || ascii_is_digit(s.p[at]));
}

/* Ignores case. as_word: no letter or digit may be next to it. */
static bool name_has(struct str name, struct str part, bool as_word)
{
    for (size_t at = 0; at + part.n <= name.n; at++)
        if (str_eq_nocase(str_make(name.p + at, part.n), part) &&
            (!as_word ||
             ((at == 0 || !is_alnum_at(name, at - 1)) && !is_alnum_at(name, at + part.n))))
            return true;
    return false;
}

static bool name_looks_secret(struct str name)
{
    static const struct {
        struct str part;
        bool as_word;
    } rows[] = {
        {STR_INIT("SECRET"),  false},
        {STR_INIT("TOKEN"),   false},
        {STR_INIT("PASS"),    false},
        {STR_INIT("PWD"),     false},
        {STR_INIT("KEY"),     false},
        {STR_INIT("CRED"),    false},
        {STR_INIT("AUTH"),    false},
        {STR_INIT("DSN"),     false},
        {STR_INIT("PRIVATE"), false},
        {STR_INIT("SESSION"), false},
        {STR_INIT("COOKIE"),  false},
        {STR_INIT("HEADERS"), false}, /* OTEL_EXPORTER_OTLP_HEADERS */
        {STR_INIT("PAT"),     true }, /* personal access token, not a path */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (name_has(name, rows[i].part, rows[i].as_word))
            return true;
    return false;
}

/* Whether it contains scheme://user:password@host. A password may have any characters, so any '@'
 * later counts: a URL with one in its path is taken for a secret, too. */
static bool value_looks_secret(struct str value)
{
    struct str rest = str_skip(value, str_find_str(value, STR("://")));

    return str_find(rest, '@') < rest.n;
}

static struct str kept_value(const struct json_pair *variable)
{
    bool secret = name_looks_secret(variable->key) || value_looks_secret(variable->value);

    return secret ? STR("***") : variable->value;
}

/* --- writing --- */

static void write_limits(struct json_writer *w, const struct api_limits *limits)
{
    json_write_key(w, STR("limits"));
    json_write_object(w);
    json_member_u64(w, STR("cpu_millicores"), limits->cpu_millicores);
    json_member_u64(w, STR("memory_bytes"), limits->memory_bytes);
    json_member_u64(w, STR("disk_bytes"), limits->disk_bytes);
    json_write_object_end(w);
}

static void write_env(struct json_writer *w, const struct api_create *spec)
{
    json_write_object(w);
    for (size_t i = 0; i < spec->env_count; i++)
        json_member_string(w, spec->env[i].key, kept_value(&spec->env[i]));
    json_write_object_end(w);
}

static bool has_execd_token(const struct api_create *spec)
{
    for (size_t i = 0; i < spec->env_count; i++)
        if (str_eq(spec->env[i].key, EXECD_TOKEN))
            return true;
    return false;
}

static void write_secrets(struct json_writer *w, const struct api_secrets *secrets)
{
    AUTO_BUF(text, SECRETS_BYTES_MAX);

    if (api_secrets_show(secrets, &text) < 0)
        return;
    json_write_key(w, STR("secretEnv"));
    json_write_raw(w, buf_str(&text));
}

/* What the text says of the request. */
struct requests {
    const char *plain, *sealed; /* NULL = nothing */
};

static int write_spec(const struct api_create *spec, const struct requests *requests, bool with_env,
                      struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    write_limits(&w, &spec->limits);
    if (spec->secure_access)
        json_member_bool(&w, STR("secure_access"), true);
    if (spec->persistent)
        json_member_bool(&w, STR("persistent"), true);
    if (spec->stop_on_expiry)
        json_member_bool(&w, STR("stop_on_expiry"), true);
    if (has_execd_token(spec))
        json_member_bool(&w, STR("execd_token"), true);
    if (requests->plain)
        json_member_string(&w, STR("request"), str_of(requests->plain));
    if (requests->sealed)
        json_member_string(&w, STR("sealed"), str_of(requests->sealed));
    if (spec->pool_ref.n)
        json_member_string(&w, STR("pool"), spec->pool_ref);
    if (spec->idempotency.n)
        json_member_string(&w, STR("idempotency"), spec->idempotency);
    if (spec->secrets.count)
        write_secrets(&w, &spec->secrets);
    json_write_key(&w, STR("env"));
    if (with_env)
        write_env(&w, spec);
    else
        json_write_null(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

#define SEAL_LABEL "request of sandbox "

static int write_label(struct buf *out, struct str id)
{
    return buf_addf(out, SEAL_LABEL "%.*s", STR_ARG(id));
}

/* The request with the environment, which a later start of a persistent sandbox needs. */
static char *sealed_request(const struct api_create *spec, const struct seal *seal, struct str id)
{
    auto_free char *request = spec_request_new(spec, true);
    AUTO_BUF(label, LABEL_BYTES_MAX);
    AUTO_BUF(sealed, STORE_JSON_MAX);
    int r = request ? write_label(&label, id) : -ENOMEM;

    if (r == 0)
        r = seal_close(seal, buf_str(&label), str_of(request), &sealed);
    if (request)
        mem_wipe(request, strlen(request));
    return r < 0 ? NULL : buf_take(&sealed);
}

char *spec_json_new(const struct api_create *spec, const struct seal *seal, struct str id)
{
    AUTO_BUF(out, spec->persistent ? STORE_JSON_MAX : SPEC_KIB_MAX << 10);
    auto_free char *plain = spec_request_new(spec, spec->persistent && !seal);
    auto_free char *sealed = spec->persistent && seal ? sealed_request(spec, seal, id) : NULL;
    const struct requests both = {plain, sealed}, none = {0};

    if (spec->persistent && seal && !sealed)
        return NULL;
    if (write_spec(spec, &both, true, &out) < 0 && write_spec(spec, &both, false, &out) < 0 &&
        (spec->persistent || write_spec(spec, &none, false, &out) < 0))
        return NULL;
    return buf_take(&out);
}

char *spec_json_unseal(struct str json, const struct seal *seal, struct str id)
{
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST,
                                       .text_bytes_max = STORE_JSON_MAX};
    AUTO_ARENA(arena, UNSEAL_ARENA_MAX);
    AUTO_BUF(label, LABEL_BYTES_MAX);
    AUTO_BUF(text, STORE_JSON_MAX);
    struct json *root = NULL;
    struct str sealed;

    if (!seal || str_find_str(json, STR("\"sealed\":")) == json.n)
        return NULL; /* most have none: no need to parse them */
    if (json_parse(&arena, json, &limits, &root, NULL) < 0 ||
        json_to_str(json_get(root, STR("sealed")), &sealed) < 0 || write_label(&label, id) < 0 ||
        seal_open(seal, buf_str(&label), sealed, &text) < 0)
        return NULL;
    return buf_take(&text);
}

/* --- reading --- */

struct spec_facts spec_json_facts(struct str json)
{
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST};
    AUTO_ARENA(arena, PRINT_ARENA_MAX);
    struct spec_facts facts = {0};
    struct json *root = NULL;
    const struct json *secure, *needs;
    uint64_t millicores = 0;

    if (json.n == 0)
        return facts; /* an older server stored no such text */
    facts.secure = true;
    if (json_parse(&arena, json, &limits, &root, NULL) < 0)
        return facts;
    secure = json_get(root, STR("secure_access"));
    facts.secure = secure && !(secure->type == JSON_BOOL && !secure->boolean);
    (void)!json_to_bool(json_get(root, STR("persistent")), &facts.persistent);
    (void)!json_to_bool(json_get(root, STR("stop_on_expiry")), &facts.stop_on_expiry);
    (void)!json_to_bool(json_get(root, STR("execd_token")), &facts.execd_token);
    if (json_get(json_get(root, STR("env")), EXECD_TOKEN))
        facts.execd_token = true; /* an older server stored only the environment */
    needs = json_get(root, STR("limits"));
    (void)!json_to_u64(json_get(needs, STR("memory_bytes")), &facts.limits.memory_bytes);
    (void)!json_to_u64(json_get(needs, STR("disk_bytes")), &facts.limits.disk_bytes);
    if (json_to_u64(json_get(needs, STR("cpu_millicores")), &millicores) == 0)
        facts.limits.cpu_millicores = (uint32_t)millicores;
    return facts;
}

void spec_json_idempotency(struct str json, char ret[IDEMPOTENCY_MARK_MAX])
{
    const struct str name = STR("\"idempotency\":\"");
    size_t at = str_find_str(json, name);
    struct str rest = str_skip(json, min_size(json.n, at + name.n)), mark;

    /* Most have none: no need to parse them. Inside of a string the quotes would be escaped. */
    if (at == json.n || !str_cut(&rest, '"', &mark) ||
        str_copy(ret, IDEMPOTENCY_MARK_MAX, mark) < 0)
        ret[0] = '\0';
}

char *spec_json_pool(struct str json)
{
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST};
    AUTO_ARENA(arena, PRINT_ARENA_MAX);
    AUTO_BUF(name, SPEC_KIB_MAX << 10);
    struct json *root = NULL;
    struct str pool;

    if (json.n == 0 || json_parse(&arena, json, &limits, &root, NULL) < 0 ||
        json_to_str(json_get(root, STR("pool")), &pool) < 0 || buf_add(&name, pool) < 0)
        return NULL;
    return buf_take(&name);
}

char *spec_json_secrets(struct str json)
{
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST};
    AUTO_ARENA(arena, PRINT_ARENA_MAX);
    AUTO_BUF(text, SECRETS_BYTES_MAX);
    const struct json *secrets = NULL;
    struct json *root = NULL;
    struct json_writer w;

    if (json.n && json_parse(&arena, json, &limits, &root, NULL) == 0)
        secrets = json_get(root, STR("secretEnv"));
    json_write_begin(&w, &text);
    if (secrets)
        json_write_value(&w, secrets);
    return !secrets || json_write_end(&w) < 0 ? mem_strdup("") : buf_take(&text);
}

/* --- printing --- */

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

/* Prints arbitrary text on one line, quoted as in JSON where needed. */
static int print_text(struct str text, struct buf *out)
{
    struct json_writer w;

    if (json_plain_bytes(text) == text.n)
        return buf_add(out, text);
    json_write_begin(&w, out);
    json_write_string(&w, text);
    return json_write_end(&w);
}

static int print_variable(const struct json *v, struct buf *out)
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

/* Prints nothing without "env", which an older server left out when it was too large. */
static int print_env(const struct json *env, struct buf *out)
{
    int r = 0;

    if (env && env->type == JSON_NULL)
        return buf_addf(out, "%-12sleft out: more than %d KiB\n", "env:", SPEC_KIB_MAX);
    json_each(v, env) if (r == 0) r = print_variable(v, out);
    return r;
}

/* Names and hosts; there is no value to print. */
static int print_secrets(const struct json *secrets, struct buf *out)
{
    int r = 0;

    json_each(v, secrets)
    {
        struct str host;

        if (r == 0)
            r = buf_addf(out, "%-12s%.*s for", "secret:", STR_ARG(v->key));
        json_each(row, json_get(v, STR("hosts"))) if (r == 0 && json_to_str(row, &host) == 0)
        {
            r = buf_add_char(out, ' ');
            if (r == 0)
                r = print_text(host, out);
        }
        if (r == 0)
            r = buf_add_char(out, '\n');
    }
    return r;
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
        if (r == 0)
            r = print_env(json_get(root, STR("env")), out);
        if (r == 0)
            r = print_secrets(json_get(root, STR("secretEnv")), out);
    }
    arena_done(&arena);
    return r;
}
