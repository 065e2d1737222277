#include "kube/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/config_internal.h"

#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

enum {
    TEXT_BYTES_MAX = 8 << 20,
    TOKEN_MS = 60 * 1000,  /* a token of a file is used that long */
    TOKEN_RETRY_MS = 1000, /* one that could not be read again */
    NAMESPACE_BYTES_MAX = 256,
};

static struct kube_config *config_new(void)
{
    struct kube_config *c = mem_new(struct kube_config);

    arena_init(&c->arena, TEXT_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(c->memory); i++)
        c->memory[i] = -EBADF;
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

void kube_config_free(struct kube_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < ARRAY_LEN(c->memory); i++)
        fd_close(c->memory[i]);
    if (c->token)
        mem_wipe(c->token, strlen(c->token));
    free(c->token);
    arena_wipe(&c->arena);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

const char *kube_config_server(const struct kube_config *c)
{
    return c->server;
}

const char *kube_config_namespace(const struct kube_config *c)
{
    return c->ns ? c->ns : "default";
}

/* OpenSSL reads certificates from files: inline ones become files in memory, which have a name. */
int kube_config_put_file(struct kube_config *c, int i, struct str data, struct err *e)
{
    int fd = fd_memory("kubeconfig"), r;

    if (fd < 0)
        return err_sys(e, -fd, "make a file in memory");
    c->memory[i] = fd;
    r = fd_pwrite_all(fd, data.p, data.n, 0);
    if (r < 0)
        return err_sys(e, -r, "write a file in memory");
    c->files[i] = arena_printf(&c->arena, "/proc/self/fd/%d", fd);
    return c->files[i] ? 0 : err_set(e, EMSGSIZE, "too much text");
}

/* --- the server's addresses --- */

static bool is_numeric(const struct kube_config *c)
{
    return c->host_is_ipv6 || strspn(c->host, "0123456789.") == strlen(c->host);
}

bool kube_config_can_resolve(const struct kube_config *c)
{
    return !is_numeric(c);
}

static int resolve(struct kube_config *c, struct err *e)
{
    struct sock_addr found[KUBE_ADDRESSES_MAX];
    int n = sock_resolve_all(c->host, c->port, found, ARRAY_LEN(found), e);

    if (n < 0)
        return err_wrap(e, n, "the Kubernetes API server %s", c->server);
    (void)pthread_mutex_lock(&c->lock);
    memcpy(c->addresses, found, (size_t)n * sizeof(found[0]));
    c->address_count = (size_t)n;
    (void)pthread_mutex_unlock(&c->lock);
    return 0;
}

void kube_config_address(struct kube_config *c, uint32_t n, struct sock_addr *ret)
{
    (void)pthread_mutex_lock(&c->lock);
    *ret = c->address_count ? c->addresses[n % c->address_count] : (struct sock_addr){0};
    (void)pthread_mutex_unlock(&c->lock);
}

int kube_config_tls_new(const struct kube_config *c, struct tls_client **ret, struct err *e)
{
    struct tls_client_conf conf = {
        .ca_file = c->files[0],
        .cert_file = c->files[1],
        .key_file = c->files[2],
        .insecure_skip_verification = c->skip_verify,
    };

    *ret = NULL;
    return c->secure ? tls_client_new(&conf, ret, e) : 0;
}

/* --- tokens --- */

/* With the lock held. */
static void put_token(struct kube_config *c, char *token, uint64_t until)
{
    if (c->token)
        mem_wipe(c->token, strlen(c->token));
    free(c->token);
    c->token = token;
    c->token_until = until;
}

static int read_token_file(const char *path, char **ret, struct err *e)
{
    AUTO_BUF(text, KUBE_TOKEN_BYTES_MAX);
    struct str token;
    int r;

    buf_keep_secret(&text);
    r = io_read_regular(AT_FDCWD, path, KUBE_TOKEN_BYTES_MAX, &text, e);
    if (r < 0)
        return r;
    token = buf_str(&text);
    while (token.n && (token.p[token.n - 1] == '\n' || token.p[token.n - 1] == '\r' ||
                       token.p[token.n - 1] == ' '))
        token.n--;
    if (!token.n || str_has_nul(token))
        return err_set(e, EBADMSG, "%s has no token", path);
    *ret = mem_alloc(token.n + 1);
    memcpy(*ret, token.p, token.n);
    (*ret)[token.n] = '\0';
    return 0;
}

/* With the lock held. A file that cannot be read just now leaves the token that was read before. */
static int refresh_file(struct kube_config *c, struct err *e)
{
    char *token = NULL;
    int r = read_token_file(c->token_file, &token, e);

    if (r == 0)
        put_token(c, token, deadline_in_ms(TOKEN_MS));
    else if (c->token)
        c->token_until = deadline_in_ms(TOKEN_RETRY_MS);
    return r < 0 && !c->token ? err_wrap(e, r, "the token of Kubernetes") : 0;
}

int kube_config_authorization(struct kube_config *c, struct buf *out, struct err *e)
{
    int r = 0;

    if (c->basic)
        return buf_add(out, str_of(c->basic));
    (void)pthread_mutex_lock(&c->lock);
    if (c->token_file && (!c->token || deadline_passed(c->token_until)))
        r = refresh_file(c, e);
    else if (c->plugin.command && (!c->token || deadline_passed(c->token_until)))
        r = 1;
    if (r == 0 && c->token)
        r = buf_addf(out, "Bearer %s", c->token);
    (void)pthread_mutex_unlock(&c->lock);
    return r;
}

void kube_config_distrust(struct kube_config *c)
{
    (void)pthread_mutex_lock(&c->lock);
    if (c->token_until != DEADLINE_NEVER || c->plugin.command)
        c->token_until = 0;
    (void)pthread_mutex_unlock(&c->lock);
}

int kube_config_refresh(struct kube_config *c, bool with_name, struct err *e)
{
    uint64_t until = 0;
    char *token = NULL;
    bool due;
    int r = with_name && kube_config_can_resolve(c) ? resolve(c, e) : 0;

    (void)pthread_mutex_lock(&c->lock);
    due = c->plugin.command && (!c->token || deadline_passed(c->token_until));
    (void)pthread_mutex_unlock(&c->lock);
    if (r < 0 || !due)
        return r;
    r = kube_plugin_run(c, &token, &until, e); /* takes its time: without the lock */
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&c->lock);
    put_token(c, token, until);
    (void)pthread_mutex_unlock(&c->lock);
    return 0;
}

/* --- where it comes from --- */

static int finish(struct kube_config *c, int r, struct kube_config **ret)
{
    if (r < 0)
        kube_config_free(c);
    else
        *ret = c;
    return r < 0 ? r : 0;
}

int kube_config_parse(struct str text, const char *dir, const char *context,
                      struct kube_config **ret, struct err *e)
{
    struct kube_config *c = config_new();

    return finish(c, kubeconfig_read(c, text, dir, context, e), ret);
}

static int load_file(const char *path, const char *context, struct kube_config **ret, struct err *e)
{
    AUTO_BUF(text, KUBECONFIG_BYTES_MAX);
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX] = ".";
    struct kube_config *c;
    int r;

    buf_keep_secret(&text);
    if (slash && str_copy(dir, sizeof(dir), str_make(path, max_size(1, (size_t)(slash - path)))))
        return err_set(e, ENAMETOOLONG, "the path of the kubeconfig is too long");
    r = io_read_file(AT_FDCWD, path, KUBECONFIG_BYTES_MAX, &text, e);
    if (r < 0)
        return err_wrap(e, r, "kubeconfig");
    c = config_new();
    r = kubeconfig_read(c, buf_str(&text), dir, context, e);
    if (r < 0)
        r = err_wrap(e, r, "kubeconfig %s", path);
    else
        r = resolve(c, e);
    return finish(c, r, ret);
}

static void read_namespace(struct kube_config *c)
{
    AUTO_BUF(text, NAMESPACE_BYTES_MAX);

    if (io_read_regular(AT_FDCWD, ACCOUNT_DIR "/namespace", NAMESPACE_BYTES_MAX, &text, NULL) == 0)
        c->ns = arena_strdup(&c->arena, str_trim(buf_str(&text)));
}

int kube_config_in_cluster(struct kube_config **ret, struct err *e)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    struct kube_config *c;
    int r = 0;

    if (!host || !host[0] || !port || !port[0])
        return err_set(e, ENOENT,
                       "not in a pod: KUBERNETES_SERVICE_HOST and "
                       "KUBERNETES_SERVICE_PORT are not set; name a kubeconfig");
    c = config_new();
    c->secure = true;
    c->host_is_ipv6 = strchr(host, ':') != NULL;
    c->host = arena_strdup(&c->arena, str_of(host));
    c->prefix = "";
    c->tls_name = c->host;
    c->server =
        arena_printf(&c->arena, c->host_is_ipv6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
    c->files[0] = ACCOUNT_DIR "/ca.crt";
    c->token_file = ACCOUNT_DIR "/token";
    if (!c->host || !c->server)
        r = err_set(e, EMSGSIZE, "KUBERNETES_SERVICE_HOST is too long");
    else if (str_to_u16(str_of(port), &c->port) < 0 || !c->port)
        r = err_set(e, EINVAL, "KUBERNETES_SERVICE_PORT is '%s', not a port", port);
    read_namespace(c);
    if (r == 0)
        r = resolve(c, e);
    return finish(c, r, ret);
}

int kube_config_load(const char *path, const char *context, struct kube_config **ret, struct err *e)
{
    const char *env = getenv("KUBECONFIG"), *home = getenv("HOME");
    char usual[PATH_MAX];
    int r;

    if (path && path[0])
        return load_file(path, context, ret, e);
    if (env && env[0])
        return load_file(env, context, ret, e);
    r = kube_config_in_cluster(ret, e);
    if (r != -ENOENT || !home)
        return r;
    (void)snprintf(usual, sizeof(usual), "%s/.kube/config", home);
    return access(usual, R_OK) == 0 ? load_file(usual, context, ret, e) : r;
}
