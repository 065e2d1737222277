/* embedded_objects.c - volumes of object storage: a request becomes the arguments of s3fs or ossfs.
 *
 * The program has the host's network. So an endpoint on the host itself or its link is refused
 * unless the configuration names it, and options come from a table. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "server/config/config.h"
#include "server/runtime/embedded/embedded_internal.h"

enum { HOST_BYTES_MAX = 253, OPTION_BYTES_MAX = 256, CONNECT_MS = 5000, CONNECT_TRIES_MAX = 3 };

struct endpoint {
    bool plain_http;
    char address[HOST_BYTES_MAX + 8]; /* as given: host, or host:port */
    char host[HOST_BYTES_MAX + 1];    /* without the brackets of IPv6 */
};

/* --- the endpoint --- */

static bool is_address_char(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || (c && strchr(".-_:[]", c));
}

static int endpoint_parse(struct str text, struct endpoint *ret)
{
    struct str http = STR("http://"), https = STR("https://"), host;
    size_t end;

    text = str_trim(text);
    ret->plain_http = str_starts(text, http);
    if (ret->plain_http)
        text = str_skip(text, http.n);
    else if (str_starts(text, https))
        text = str_skip(text, https.n);
    if (str_ends(text, STR("/")))
        text.n--;
    for (size_t i = 0; i < text.n; i++)
        if (!is_address_char(text.p[i]))
            return -EINVAL;
    if (text.n == 0 || str_copy(ret->address, sizeof(ret->address), text) < 0)
        return -EINVAL;
    host = text;
    if (text.p[0] == '[') {
        end = str_find(text, ']');
        host = str_make(text.p + 1, end > 1 && end < text.n ? end - 1 : 0);
    } else {
        host.n = str_find(text, ':');
    }
    return host.n == 0 || str_copy(ret->host, sizeof(ret->host), host) < 0 ? -EINVAL : 0;
}

/* Loopback, link-local (where clouds serve their secrets) and unspecified addresses. */
static bool is_near_v4(uint32_t address)
{
    return address >> 24 == 127 || address >> 16 == 0xa9fe || address >> 24 == 0;
}

static bool is_near(const struct sockaddr *address)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

    if (address->sa_family == AF_INET)
        return is_near_v4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
    if (address->sa_family != AF_INET6)
        return true;
    if (IN6_IS_ADDR_V4MAPPED(v6)) {
        uint32_t v4;

        memcpy(&v4, v6->s6_addr + 12, sizeof(v4));
        return is_near_v4(ntohl(v4));
    }
    return IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_LINKLOCAL(v6) || IN6_IS_ADDR_UNSPECIFIED(v6);
}

static bool is_named(const struct config_list *list, const char *address)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i], address) == 0)
            return true;
    return false;
}

static int check_endpoint(const struct embedded *em, size_t i, const struct endpoint *at,
                          struct api_fail *f)
{
    const struct config_list *allowed = &em->conf.config->storage.ossfs_endpoints;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool near = false;
    int r;

    if (is_named(allowed, at->address))
        return 0;
    if (allowed->count)
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_ENDPOINT",
                            "volumes[%zu].ossfs.endpoint: '%s' is not among "
                            "storage.ossfs_endpoints of the server",
                            i, at->address);
    r = getaddrinfo(at->host, NULL, &hints, &found);
    if (r != 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_ENDPOINT",
                            "volumes[%zu].ossfs.endpoint: cannot find the host '%s': %s", i,
                            at->host, gai_strerror(r));
    for (struct addrinfo *a = found; a; a = a->ai_next)
        near = near || is_near(a->ai_addr);
    freeaddrinfo(found);
    return near ? api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_ENDPOINT",
                               "volumes[%zu].ossfs.endpoint: '%s' is the server's own machine or "
                               "link; the operator can allow it in storage.ossfs_endpoints",
                               i, at->address)
                : 0;
}

/* Connects and hangs up. */
static int try_address(const struct addrinfo *a)
{
    auto_fd fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    if (poll(&p, 1, CONNECT_MS) <= 0)
        return -ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
}

/* Tells an endpoint that does not exist from one that refuses, without the program's retries. */
static int try_endpoint(const struct endpoint *at, struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *usual = at->plain_http ? "80" : "443";
    const char *colon = strrchr(at->address, ':'), *bracket = strrchr(at->address, ']');
    struct addrinfo *found = NULL;
    int r = getaddrinfo(at->host, colon && colon > bracket ? colon + 1 : usual, &hints, &found);
    unsigned tries = 0;

    if (r != 0)
        return err_set(e, EIO, "the endpoint %s cannot be reached: %s", at->address,
                       gai_strerror(r));
    r = -ENOENT;
    for (struct addrinfo *a = found; a && r < 0 && tries < CONNECT_TRIES_MAX;
         a = a->ai_next, tries++)
        r = try_address(a);
    freeaddrinfo(found);
    return r < 0 ? err_sys(e, -r, "the endpoint %s cannot be reached", at->address) : 0;
}

/* --- options --- */

enum option_use { OPTION_PASS, OPTION_VALUE, OPTION_DROP };

/* Without those that name files of the host, other credentials, or what we set ourselves. */
static const struct {
    const char *name;
    enum option_use use;
} options[] = {
    {"allow_other",             OPTION_DROP }, /* always so */
    {"compat_dir",              OPTION_PASS },
    {"complement_stat",         OPTION_PASS },
    {"connect_timeout",         OPTION_VALUE},
    {"default_acl",             OPTION_VALUE},
    {"enable_content_md5",      OPTION_PASS },
    {"enable_noobj_cache",      OPTION_PASS },
    {"enable_unsigned_payload", OPTION_PASS },
    {"endpoint",                OPTION_VALUE},
    {"gid",                     OPTION_VALUE},
    {"list_object_max_keys",    OPTION_VALUE},
    {"max_dirty_data",          OPTION_VALUE},
    {"max_stat_cache_size",     OPTION_VALUE},
    {"mp_umask",                OPTION_VALUE},
    {"multipart_size",          OPTION_VALUE},
    {"multireq_max",            OPTION_VALUE},
    {"no_check_certificate",    OPTION_PASS },
    {"nocopyapi",               OPTION_PASS },
    {"nomultipart",             OPTION_PASS },
    {"nonempty",                OPTION_DROP },
    {"norenameapi",             OPTION_PASS },
    {"parallel_count",          OPTION_VALUE},
    {"readwrite_timeout",       OPTION_VALUE},
    {"requester_pays",          OPTION_PASS },
    {"retries",                 OPTION_VALUE},
    {"ro",                      OPTION_PASS },
    {"sigv2",                   OPTION_PASS },
    {"sigv4",                   OPTION_PASS },
    {"ssl_verify_hostname",     OPTION_VALUE},
    {"stat_cache_expire",       OPTION_VALUE},
    {"storage_class",           OPTION_VALUE},
    {"uid",                     OPTION_VALUE},
    {"umask",                   OPTION_VALUE},
    {"use_path_request_style",  OPTION_PASS },
};

static bool is_option_value(struct str value)
{
    for (size_t i = 0; i < value.n; i++)
        if (!ascii_is_alpha(value.p[i]) && !ascii_is_digit(value.p[i]) &&
            !(value.p[i] && strchr("._-", value.p[i])))
            return false;
    return value.n > 0;
}

/* -ENOENT: it may not be used. */
static int option_find(struct str option, enum option_use *ret)
{
    struct str name = str_make(option.p, str_find(option, '='));

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        bool has_value = name.n < option.n;

        if (!str_eq(name, str_of(options[i].name)))
            continue;
        if (has_value != (options[i].use == OPTION_VALUE) ||
            (has_value && !is_option_value(str_skip(option, name.n + 1))))
            return -ENOENT;
        *ret = options[i].use;
        return 0;
    }
    return -ENOENT;
}

static bool has_option(struct str all, struct str name)
{
    struct str option;

    while (str_cut(&all, '\n', &option))
        if (str_eq(str_make(option.p, str_find(option, '=')), name))
            return true;
    return false;
}

static int check_options(size_t i, struct str all, struct api_fail *f)
{
    struct str option;
    enum option_use use;

    while (str_cut(&all, '\n', &option))
        if (option.n && option_find(option, &use) < 0)
            return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_OPTION",
                                "volumes[%zu].ossfs.options: '%s' is not among the options that "
                                "this server passes on, or has no fitting value; "
                                "docs/guides/volumes.md lists them",
                                i, api_show(option).text);
    return 0;
}

/* --- the program --- */

static bool is_of(const struct endpoint *at, const char *domain)
{
    return str_ends(str_of(at->host), str_of(domain));
}

/* ossfs for its own service when it is installed, else s3fs. -ENOENT when there is neither. */
static int program_for(const struct endpoint *at)
{
    bool ours = is_of(at, ".aliyuncs.com") && objects_program_path(OBJECTS_OSSFS);
    enum objects_program program = ours ? OBJECTS_OSSFS : OBJECTS_S3FS;

    return objects_program_path(program) ? (int)program : -ENOENT;
}

/* A key file has one line with colons between its parts. */
static bool is_key(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == ':' || s.p[i] == '#')
            return false;
    return s.n > 0 && s.n < OBJECTS_KEY_MAX / 4;
}

int embedded_objects_check(struct embedded *em, size_t i, const struct api_create *spec,
                           struct api_fail *f)
{
    const struct api_volume *v = &spec->volumes[i];
    struct endpoint at = {0};

    if (spec->persistent)
        return api_fail_set(f, 400, "VOLUME::UNSUPPORTED_BACKEND",
                            "volumes[%zu].ossfs: a persistent sandbox cannot have object storage, "
                            "as its key is not kept for another start",
                            i);
    if (endpoint_parse(v->endpoint, &at) < 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_ENDPOINT",
                            "volumes[%zu].ossfs.endpoint: expected a host, or http(s)://host:port, "
                            "without a path",
                            i);
    if (!is_key(v->key_id) || !is_key(v->key_secret))
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_CREDENTIALS",
                            "volumes[%zu].ossfs: accessKeyId and accessKeySecret must have less "
                            "than %d printable characters, without ':' and '#'",
                            i, OBJECTS_KEY_MAX / 4);
    if (check_options(i, v->options, f) < 0)
        return -EBADMSG;
    if (program_for(&at) < 0)
        return api_fail_set(f, 400, "VOLUME::UNSUPPORTED_BACKEND",
                            "volumes[%zu].ossfs: the server has no program for object storage; its "
                            "operator can install s3fs (Debian's package s3fs) or ossfs",
                            i);
    return check_endpoint(em, i, &at, f);
}

/* --- starting it --- */

static int add_arg(struct objects_spec *spec, const char *text)
{
    size_t bytes = strlen(text) + 1;

    if (spec->arg_count == OBJECTS_ARGS_MAX || bytes > sizeof(spec->text) - spec->text_bytes)
        return -E2BIG;
    memcpy(spec->text + spec->text_bytes, text, bytes);
    spec->text_bytes += (uint32_t)bytes;
    spec->arg_count++;
    return 0;
}

static int add_option(struct objects_spec *spec, struct str name, struct str value)
{
    AUTO_BUF(text, OPTION_BYTES_MAX + HOST_BYTES_MAX);
    int r = buf_addf(&text, "%.*s%s%.*s", STR_ARG(name), value.n ? "=" : "", STR_ARG(value));

    if (r == 0)
        r = add_arg(spec, "-o");
    return r < 0 ? r : add_arg(spec, text.p);
}

static int add_given_options(struct objects_spec *spec, struct str all)
{
    struct str option;
    enum option_use use;
    int r = 0;

    while (r == 0 && str_cut(&all, '\n', &option))
        if (option.n && option_find(option, &use) == 0 && use != OPTION_DROP)
            r = add_option(spec, option, STR_NONE);
    return r;
}

static int add_source(struct objects_spec *spec, const struct api_volume *v)
{
    AUTO_BUF(source, OBJECTS_TEXT_MAX / 2);
    int r = buf_addf(&source, "%.*s%s%.*s", STR_ARG(v->bucket), v->sub_path.n ? ":/" : "",
                     STR_ARG(v->sub_path));

    return r < 0 ? r : add_arg(spec, source.p);
}

static int fill_spec(const struct api_volume *v, const struct endpoint *at,
                     struct objects_spec *spec)
{
    bool by_host = is_of(at, ".aliyuncs.com") || is_of(at, ".amazonaws.com");
    AUTO_BUF(url, sizeof(at->address) + 16);
    int r = buf_addf(&url, "http%s://%s", at->plain_http ? "" : "s", at->address);

    if (r == 0)
        r = add_source(spec, v);
    if (r == 0)
        r = add_arg(spec, OBJECTS_MOUNT_POINT);
    if (r == 0)
        r = add_arg(spec, "-f");
    if (r == 0)
        r = add_option(spec, STR("url"), buf_str(&url));
    if (r == 0)
        r = add_option(spec, STR("passwd_file"), STR(OBJECTS_KEY_PATH));
    if (r == 0)
        r = add_option(spec, STR("allow_other"), STR_NONE);
    if (r == 0 && !by_host && !has_option(v->options, STR("use_path_request_style")))
        r = add_option(spec, STR("use_path_request_style"), STR_NONE);
    if (r == 0 && !has_option(v->options, STR("connect_timeout")))
        r = add_option(spec, STR("connect_timeout"), STR("5"));
    if (r == 0 && !has_option(v->options, STR("retries")))
        r = add_option(spec, STR("retries"), STR("2"));
    if (r == 0 && v->read_only && !has_option(v->options, STR("ro")))
        r = add_option(spec, STR("ro"), STR_NONE);
    if (r == 0)
        r = add_given_options(spec, v->options);
    if (r < 0)
        return r;
    if (spec->program == OBJECTS_OSSFS)
        (void)snprintf(spec->key, sizeof(spec->key), "%.*s:%.*s:%.*s\n", STR_ARG(v->bucket),
                       STR_ARG(v->key_id), STR_ARG(v->key_secret));
    else
        (void)snprintf(spec->key, sizeof(spec->key), "%.*s:%.*s\n", STR_ARG(v->key_id),
                       STR_ARG(v->key_secret));
    return 0;
}

/* Says first what it means; the program's own words follow. */
static int explain(const struct api_volume *v, const struct endpoint *at, struct err *e)
{
    static const struct {
        const char *word, *meaning;
    } rows[] = {
        {"invalid credentials", "the endpoint refuses the access key"         },
        {"accessdenied",        "the endpoint refuses the access key"         },
        {"nosuchbucket",        "there is no such bucket, or no such subPath" },
        {"not found",           "there is no such bucket, or no such subPath" },
        {"unable to connect",   "the endpoint cannot be reached"              },
        {"could not connect",   "the endpoint cannot be reached"              },
        {"does not answer",     "the endpoint cannot be reached"              },
        {"bad request",         "the endpoint takes the request for a bad one"},
    };
    const char *meaning = "it cannot be mounted";
    struct err said = *e;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcasestr(said.msg, rows[i].word)) {
            meaning = rows[i].meaning;
            break;
        }
    return err_set(e, EIO, "bucket '%.*s' at %s: %s (%.100s)", STR_ARG(v->bucket), at->address,
                   meaning, said.msg);
}

static int call_objects(void *user, struct broker_client *client, struct err *e)
{
    return broker_objects(client, user, e);
}

int embedded_objects_open(struct embedded *em, const struct api_volume *v, struct err *e)
{
    struct objects_spec spec = {0};
    struct endpoint at = {0};
    auto_fd sock = -EBADF;
    int r = endpoint_parse(v->endpoint, &at), program;

    program = r < 0 ? r : program_for(&at);
    if (program < 0)
        return err_set(e, ENOTSUP, "the server has no program for object storage");
    spec.program = (uint32_t)program;
    r = fill_spec(v, &at, &spec);
    if (r < 0)
        return err_set(e, E2BIG, "the options are too long");
    r = try_endpoint(&at, e);
    if (r == 0)
        sock = r = embedded_call(em, call_objects, &spec, e);
    explicit_bzero(&spec, sizeof(spec)); /* it has the key */
    if (r < 0)
        return r;
    r = broker_objects_result(sock, e);
    return r < 0 ? explain(v, &at, e) : take_fd(&sock);
}
