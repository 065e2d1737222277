/* client.c - a client: its configuration, and where its server is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/toml.h"
#include "base/url.h"
#include "sdk.h"
#include "version.h"

enum {
    CONFIG_BYTES_MAX = 1 << 20,
    REQUEST_MS = 30 * 1000,
    CONNECT_MS = 5 * 1000,
    IDLE_MS = 60 * 1000,
    ADDRESSES_MAX = 1024,
};

/* --- sites --- */

void site_done(struct site *s)
{
    for (size_t i = 0; i < s->header_count; i++) {
        free((char *)(uintptr_t)s->headers[i].name);
        free((char *)(uintptr_t)s->headers[i].value);
    }
    free(s->headers);
    free(s->name);
    free(s->authority);
    free(s->path);
    *s = (struct site){0};
}

static char *dup_str(struct str s)
{
    char *copy = mem_alloc(s.n + 1);

    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return copy;
}

int site_add_header(struct site *s, struct str name, struct str value, struct err *e)
{
    if (!http_is_token(name) || !http_is_value(value))
        return err_set(e, EINVAL, "header '%.*s': a name or value that HTTP does not allow",
                       STR_ARG(str_make(name.p, min_size(name.n, 64))));
    if (s->header_count == SDK_HEADERS_MAX)
        return err_set(e, E2BIG, "more than %d headers", SDK_HEADERS_MAX);
    s->headers = mem_realloc(s->headers, (s->header_count + 1) * sizeof(*s->headers));
    s->headers[s->header_count++] = (struct osb_pair){dup_str(name), dup_str(value)};
    return 0;
}

int site_parse(struct site *s, const char *text, bool tls, struct err *e)
{
    bool has_scheme = strstr(text, "://");
    AUTO_BUF(whole, 8192);
    struct str authority, path;
    struct url url;
    int r;

    if (buf_addf(&whole, "%s%s", has_scheme ? "" : tls ? "https://" : "http://", text) < 0)
        return err_set(e, EINVAL, "the address of the server is too long");
    r = url_split(buf_str(&whole), &url, e);
    if (r < 0)
        return err_wrap(e, r, "address '%.200s'", text);
    if (url.scheme != URL_HTTP && url.scheme != URL_HTTPS)
        return err_set(e, EINVAL, "address '%.200s': expected http or https", text);
    authority = str_skip(buf_str(&whole), str_find_str(buf_str(&whole), STR("://")) + 3);
    authority.n = min_size(authority.n, str_find(authority, '/'));
    path = url.path;
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    s->tls = url.scheme == URL_HTTPS;
    s->port = url.port;
    s->name = dup_str(url.host);
    s->authority = dup_str(authority);
    s->path = dup_str(path);
    return 0;
}

/* --- the configuration: what the program says, else the environment, else the file --- */

struct settings {
    const char *domain, *protocol, *api_key;
    uint32_t request_ms;
    bool use_server_proxy;
};

static void set_missing(const char **to, const char *value)
{
    if (!*to)
        *to = value;
}

static void settings_from_environment(struct settings *s)
{
    static const struct {
        const char *name;
        size_t at;
    } rows[] = {
        {"OPEN_SANDBOX_DOMAIN",   offsetof(struct settings, domain)  },
        {"OPEN_SANDBOX_PROTOCOL", offsetof(struct settings, protocol)},
        {"OPEN_SANDBOX_API_KEY",  offsetof(struct settings, api_key) },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = getenv(rows[i].name);

        if (value && value[0])
            set_missing((const char **)(void *)((char *)s + rows[i].at), value);
    }
}

static int file_text(const struct toml *table, const char *key, const char **to, struct err *e)
{
    const struct toml *v = toml_get(table, str_of(key));
    struct str text;
    int r = v ? toml_to_str(v, &text, e) : 0;

    if (v && r == 0)
        set_missing(to, text.p);
    return r;
}

static int settings_from_table(struct settings *s, const struct toml *table, struct err *e)
{
    const struct toml *seconds = toml_get(table, STR("request_timeout"));
    const struct toml *proxy = toml_get(table, STR("use_server_proxy"));
    double value;
    bool on;
    int r = file_text(table, "domain", &s->domain, e);

    if (r == 0)
        r = file_text(table, "protocol", &s->protocol, e);
    if (r == 0)
        r = file_text(table, "api_key", &s->api_key, e);
    if (r == 0 && seconds) {
        r = toml_to_double(seconds, &value, e);
        if (r == 0 && !(value > 0 && value <= 86400))
            r = toml_fail(seconds, e, EINVAL, "expected more than 0 and at most 86400 seconds");
        if (r == 0 && !s->request_ms)
            s->request_ms = (uint32_t)(value * 1000);
    }
    if (r == 0 && proxy) {
        r = toml_to_bool(proxy, &on, e);
        if (r == 0)
            s->use_server_proxy |= on;
    }
    return r;
}

static int settings_from_file(struct settings *s, struct arena *a, const char *name, struct err *e)
{
    AUTO_BUF(text, CONFIG_BYTES_MAX);
    const char *home = getenv("HOME");
    struct toml *root;
    char path[4096];
    int r;

    if (!name)
        return 0;
    if (name[0])
        (void)snprintf(path, sizeof(path), "%s", name);
    else
        (void)snprintf(path, sizeof(path), "%s/.opensandbox/config.toml", home ? home : "");
    r = io_read_file(AT_FDCWD, path, CONFIG_BYTES_MAX, &text, e);
    if (r == -ENOENT && !name[0])
        return 0;
    if (r == 0)
        r = toml_parse(a, buf_str(&text), path, &root, e);
    return r < 0 ? r : settings_from_table(s, toml_get(root, STR("connection")), e);
}

/* --- its life --- */

static bool ends_with(const char *text, const char *end)
{
    return str_ends(str_of(text), str_of(end));
}

/* "http://host/prefix" and "http://host/prefix/v1/" name the same server. */
static int place_server(struct osb_client *c, const struct settings *s, struct err *e)
{
    const char *protocol = s->protocol ? s->protocol : "http";
    AUTO_BUF(url, 16384);
    int r;

    if (strcasecmp(protocol, "http") != 0 && strcasecmp(protocol, "https") != 0)
        return err_set(e, EINVAL, "protocol '%.64s': expected http or https", protocol);
    r = site_parse(&c->server, s->domain && s->domain[0] ? s->domain : "localhost:8080",
                   strcasecmp(protocol, "https") == 0, e);
    if (r < 0)
        return r;
    if (ends_with(c->server.path, "/v1"))
        c->server.path[strlen(c->server.path) - 3] = '\0';
    c->server.is_server = true;
    if (buf_addf(&url, "%s/v1", c->server.path) < 0)
        return err_set(e, EINVAL, "the address of the server is too long");
    free(c->server.path);
    c->server.path = mem_strdup(url.p);
    buf_clear(&url);
    if (buf_addf(&url, "%s://%s%s", c->server.tls ? "https" : "http", c->server.authority,
                 c->server.path) < 0)
        return err_set(e, EINVAL, "the address of the server is too long");
    c->base_url = mem_strdup(url.p);
    return 0;
}

static int configure(struct osb_client *c, const struct osb_config *conf, struct err *e)
{
    AUTO_ARENA(a, 16 << 20);
    struct settings s = {conf->domain, conf->protocol, conf->api_key, conf->request_timeout_ms,
                         conf->use_server_proxy};
    int r;

    if (!conf->no_environment)
        settings_from_environment(&s);
    r = settings_from_file(&s, &a, conf->config_file, e);
    if (r == 0)
        r = place_server(c, &s, e);
    if (r < 0)
        return r;
    if (s.api_key && !http_is_value(str_of(s.api_key)))
        return err_set(e, EINVAL, "the API key contains a character that HTTP does not allow");
    c->api_key = mem_strdup(s.api_key ? s.api_key : "");
    c->user_agent =
        mem_strdup(conf->user_agent ? conf->user_agent : "OpenSandbox-C-SDK/" OPENSANDBOX_VERSION);
    c->ca_file = conf->ca_file ? mem_strdup(conf->ca_file) : NULL;
    c->insecure = conf->insecure;
    c->use_server_proxy = s.use_server_proxy;
    c->request_ms = s.request_ms ? s.request_ms : REQUEST_MS;
    c->connect_ms = conf->connect_timeout_ms ? conf->connect_timeout_ms : CONNECT_MS;
    c->idle_ms = conf->idle_timeout_ms ? conf->idle_timeout_ms : IDLE_MS;
    for (size_t i = 0; r == 0 && i < conf->header_count; i++)
        r = site_add_header(&c->server, str_of(conf->headers[i].name),
                            str_of(conf->headers[i].value), e);
    return r;
}

static int client_start(struct osb_client *c, const struct osb_config *conf, struct err *e)
{
    struct http_client_conf http = {0};
    int r = configure(c, conf, e);

    http.connect_ms = c->connect_ms;
    if (r == 0)
        r = loop_new(&c->loop, e);
    if (r == 0)
        r = client_tasks_init(c, e);
    return r < 0 ? r : http_client_new(c->loop, &http, &c->http, e);
}

int osb_client_open(const struct osb_config *config, struct osb_client **ret_client,
                    char message[OSB_MESSAGE_MAX])
{
    OPTIONS_COPY(struct osb_config, conf, config);
    struct osb_client *c = mem_new(struct osb_client);
    struct err e = {0};
    int r;

    c->interrupt_fd = c->timer_fd = c->interrupt_io.fd = c->timer_io.fd = -EBADF;
    list_init(&c->tasks);
    list_init(&c->ptys);
    map_init(&c->addresses, ADDRESSES_MAX, free);
    r = client_start(c, &conf, &e);
    if (r < 0) {
        if (message)
            (void)snprintf(message, OSB_MESSAGE_MAX, "%s", e.msg);
        osb_client_close(c);
        return r;
    }
    *ret_client = c;
    return 0;
}

void osb_client_close(struct osb_client *client)
{
    struct osb_client *c = client;

    if (!c)
        return;
    if (c->loop) {
        client_tasks_done(c);
        client_cut_ptys(c);
        http_client_free(c->http);
        pool_free(c->pool);
        loop_settle(c->loop);
        loop_free(c->loop);
    }
    tls_client_free(c->tls);
    map_done(&c->addresses);
    site_done(&c->server);
    if (c->api_key)
        mem_wipe(c->api_key, strlen(c->api_key));
    free(c->api_key);
    free(c->user_agent);
    free(c->ca_file);
    free(c->base_url);
    free(c);
}

const char *osb_client_base_url(const struct osb_client *client)
{
    return client->base_url;
}

const char *osb_version(void)
{
    return OPENSANDBOX_VERSION;
}
