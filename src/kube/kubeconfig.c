/* kubeconfig.c - reads a kubeconfig: clusters, users, contexts, and the one that is current. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/mem.h"
#include "kube/config_internal.h"
#include "kube/object.h"
#include "kube/yaml.h"

enum { ARGS_MAX = 256, DATA_BYTES_MAX = 1 << 20 };

struct reader {
    struct kube_config *c;
    const char *dir;
    struct err *e;
};

/* A copy; NULL for what is absent or "". */
static int take_text(struct reader *r, const struct json *v, const char *name, const char **ret)
{
    const struct json *text = json_get(v, str_of(name));
    struct str s;

    *ret = NULL;
    if (!text || text->type == JSON_NULL)
        return 0;
    if (json_to_str(text, &s) < 0)
        return err_set(r->e, EBADMSG, "%s is %s, not a string", name, json_type_name(text));
    if (str_has_nul(s))
        return err_set(r->e, EBADMSG, "%s has a NUL", name);
    if (s.n) {
        *ret = arena_strdup(&r->c->arena, s);
        if (!*ret)
            return err_set(r->e, EMSGSIZE, "too much text");
    }
    return 0;
}

/* A path, relative to the directory of the kubeconfig. */
static int take_path(struct reader *r, const struct json *v, const char *name, const char **ret)
{
    int n = take_text(r, v, name, ret);

    if (n < 0 || !*ret || (*ret)[0] == '/')
        return n;
    *ret = arena_printf(&r->c->arena, "%s/%s", r->dir, *ret);
    return *ret ? 0 : err_set(r->e, EMSGSIZE, "too much text");
}

/* `name`-data, base64, or the path `name`. */
static int take_file(struct reader *r, const struct json *v, const char *name, int i)
{
    char data_name[64];
    const char *text;
    auto_free char *data = NULL;
    size_t n = 0;
    int e;

    (void)snprintf(data_name, sizeof(data_name), "%s-data", name);
    e = take_text(r, v, data_name, &text);
    if (e < 0)
        return e;
    if (!text)
        return take_path(r, v, name, &r->c->files[i]);
    if (strlen(text) > DATA_BYTES_MAX)
        return err_set(r->e, EMSGSIZE, "%s is too long", data_name);
    data = mem_alloc(BASE64_DATA_MAX(strlen(text)) + 1);
    if (base64_decode(str_of(text), BASE64_STD, data, BASE64_DATA_MAX(strlen(text)), &n) < 0)
        return err_set(r->e, EBADMSG, "%s is not base64", data_name);
    e = kube_config_put_file(r->c, i, str_make(data, n), r->e);
    mem_wipe(data, n);
    return e;
}

/* The entry called `name` of a list such as clusters, and in it the member `what`. */
static int find_named(struct reader *r, const struct json *root, const char *list, const char *what,
                      struct str name, const struct json **ret)
{
    json_each(row, json_get(root, str_of(list)))
    {
        if (str_eq(kube_str(row, "name"), name)) {
            *ret = json_get(row, str_of(what));
            return 0;
        }
    }
    return err_set(r->e, ENOENT, "there is no %s called '%.*s'", what, STR_ARG(name));
}

static int read_server(struct reader *r, const struct json *cluster)
{
    struct kube_config *c = r->c;
    struct url url;
    int n = take_text(r, cluster, "server", &c->server);

    if (n == 0 && !c->server)
        return err_set(r->e, EBADMSG, "the cluster has no server");
    if (n == 0)
        n = url_split(str_of(c->server), &url, r->e);
    if (n < 0)
        return err_wrap(r->e, n, "server");
    if (url.scheme != URL_HTTP && url.scheme != URL_HTTPS)
        return err_set(r->e, EBADMSG, "the server '%.100s' is neither https nor http", c->server);
    while (url.path.n && url.path.p[url.path.n - 1] == '/')
        url.path.n--;
    c->secure = url.scheme == URL_HTTPS;
    c->port = url.port;
    c->host_is_ipv6 = url.host_is_ipv6;
    c->host = arena_strdup(&c->arena, url.host);
    c->prefix = arena_strdup(&c->arena, url.path);
    return c->host && c->prefix ? 0 : err_set(r->e, EMSGSIZE, "too much text");
}

static int read_cluster(struct reader *r, const struct json *cluster)
{
    struct kube_config *c = r->c;
    const char *proxy;
    int n = read_server(r, cluster);

    if (n == 0)
        n = take_text(r, cluster, "proxy-url", &proxy);
    if (n == 0 && proxy)
        return err_set(r->e, EOPNOTSUPP, "proxy-url is not supported");
    c->skip_verify = kube_bool(cluster, "insecure-skip-tls-verify");
    if (n == 0)
        n = take_text(r, cluster, "tls-server-name", &c->tls_name);
    if (n == 0 && !c->tls_name)
        c->tls_name = c->host;
    return n < 0 ? n : take_file(r, cluster, "certificate-authority", 0);
}

static int read_basic(struct reader *r, const struct json *user)
{
    char text[512], encoded[BASE64_TEXT_MAX(512)];
    const char *name, *password;
    int n = take_text(r, user, "username", &name);

    if (n == 0)
        n = take_text(r, user, "password", &password);
    if (n < 0 || !name)
        return n;
    n = snprintf(text, sizeof(text), "%s:%s", name, password ? password : "");
    if (n < 0 || (size_t)n >= sizeof(text))
        return err_set(r->e, EMSGSIZE, "username and password are too long");
    (void)base64_encode(str_make(text, (size_t)n), BASE64_STD, encoded);
    r->c->basic = arena_printf(&r->c->arena, "Basic %s", encoded);
    mem_wipe(text, sizeof(text));
    mem_wipe(encoded, sizeof(encoded));
    return r->c->basic ? 0 : err_set(r->e, EMSGSIZE, "too much text");
}

/* The strings of a list, or "name=value" of a list of objects, after `first` (NULL: none). */
static int take_words(struct reader *r, const struct json *list, const char *first, bool pairs,
                      const char ***ret)
{
    size_t count = json_count(list), at = 0;
    const char **words;
    struct str s = STR("");

    if (count > ARGS_MAX)
        return err_set(r->e, EMSGSIZE, "exec has more than %d arguments or variables", ARGS_MAX);
    words = arena_new_array(&r->c->arena, const char *, count + 2);
    if (!words)
        return err_set(r->e, EMSGSIZE, "too much text");
    if (first)
        words[at++] = first;
    json_each(item, list)
    {
        if (pairs)
            words[at] = arena_printf(&r->c->arena, "%.*s=%.*s", STR_ARG(kube_str(item, "name")),
                                     STR_ARG(kube_str(item, "value")));
        else if (json_to_str(item, &s) == 0)
            words[at] = arena_strdup(&r->c->arena, s);
        else
            return err_set(r->e, EBADMSG, "an argument of exec is not a string");
        if (!words[at++])
            return err_set(r->e, EMSGSIZE, "too much text");
    }
    *ret = words;
    return 0;
}

static int read_plugin(struct reader *r, const struct json *exec)
{
    struct kube_plugin *p = &r->c->plugin;
    const char *command;
    int n = take_text(r, exec, "command", &command);

    if (n == 0 && !command)
        return err_set(r->e, EBADMSG, "exec has no command");
    /* As kubectl does: a name is searched in PATH, a path with a slash begins at the file. */
    if (n == 0 && strchr(command, '/'))
        n = take_path(r, exec, "command", &command);
    if (n == 0)
        n = take_text(r, exec, "apiVersion", &p->api_version);
    if (n == 0 && !p->api_version)
        p->api_version = "client.authentication.k8s.io/v1";
    if (n == 0)
        n = take_text(r, exec, "installHint", &p->hint);
    if (n == 0)
        n = take_words(r, json_get(exec, STR("args")), command, false, &p->argv);
    if (n == 0)
        n = take_words(r, json_get(exec, STR("env")), NULL, true, &p->env);
    if (n == 0)
        p->command = command;
    return n;
}

static int read_user(struct reader *r, const struct json *user)
{
    struct kube_config *c = r->c;
    const struct json *exec = json_get(user, STR("exec"));
    const char *token = NULL;
    int n;

    if (json_get(user, STR("auth-provider")))
        return err_set(r->e, EOPNOTSUPP, "auth-provider is not supported: use exec");
    n = take_file(r, user, "client-certificate", 1);
    if (n == 0)
        n = take_file(r, user, "client-key", 2);
    if (n == 0 && !c->files[1] != !c->files[2])
        n = err_set(r->e, EBADMSG, "client-certificate and client-key belong together");
    if (n == 0)
        n = take_path(r, user, "tokenFile", &c->token_file);
    if (n == 0 && !c->token_file)
        n = take_text(r, user, "token", &token);
    if (n == 0 && token) {
        c->token = mem_strdup(token);
        c->token_until = DEADLINE_NEVER;
    }
    if (n == 0 && !token && !c->token_file)
        n = read_basic(r, user);
    if (n == 0 && exec && exec->type != JSON_NULL && !token && !c->token_file)
        n = read_plugin(r, exec);
    return n;
}

static int read_context(struct reader *r, const struct json *root, const char *context)
{
    struct str name = context && context[0] ? str_of(context) : kube_str(root, "current-context");
    const struct json *found = NULL, *cluster = NULL, *user = NULL;
    int n;

    if (!name.n)
        return err_set(r->e, ENOENT, "there is no current-context");
    n = find_named(r, root, "contexts", "context", name, &found);
    if (n == 0)
        n = find_named(r, root, "clusters", "cluster", kube_str(found, "cluster"), &cluster);
    if (n == 0 && kube_str(found, "user").n)
        n = find_named(r, root, "users", "user", kube_str(found, "user"), &user);
    if (n == 0)
        n = take_text(r, found, "namespace", &r->c->ns);
    if (n == 0)
        n = read_cluster(r, cluster);
    if (n == 0)
        n = read_user(r, user);
    return n;
}

int kubeconfig_read(struct kube_config *c, struct str text, const char *dir, const char *context,
                    struct err *e)
{
    struct reader r = {c, dir, e};
    AUTO_BUF(json, KUBECONFIG_BYTES_MAX);
    AUTO_ARENA(arena, KUBECONFIG_BYTES_MAX * 16);
    struct json *root = NULL;
    int n;

    buf_keep_secret(&json);
    n = kube_yaml_to_json(text, &json, e);
    if (n == 0)
        n = json_parse(&arena, buf_str(&json), NULL, &root, e);
    if (n)
        return n;
    n = root->type == JSON_OBJECT
            ? read_context(&r, root, context)
            : err_set(e, EBADMSG, "expected a mapping, got %s", json_type_name(root));
    arena_wipe(&arena);
    return n;
}
