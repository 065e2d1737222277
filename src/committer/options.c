#include "committer/options.h"

#include <errno.h>

static bool read_bool(struct str s, bool *ret)
{
    static const char *const yes[] = {"1", "t", "true"}, *const no[] = {"0", "f", "false"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (str_eq_nocase(s, str_of(yes[i])) || str_eq_nocase(s, str_of(no[i]))) {
            *ret = str_eq_nocase(s, str_of(yes[i]));
            return true;
        }
    }
    return false;
}

static bool is_private(struct str host)
{
    struct str second = STR_NONE;
    uint64_t n;

    if (str_find_str(host, STR("local")) < host.n || str_starts(host, STR("127.")) ||
        str_starts(host, STR("10.")) || str_starts(host, STR("192.168.")))
        return true;
    if (!str_starts(host, STR("172.")))
        return false;
    host = str_skip(host, 4);
    return str_cut(&host, '.', &second) && str_to_u64(second, &n) == 0 && n >= 16 && n <= 31;
}

bool commit_is_insecure(const struct commit_options *o, const char *registry)
{
    bool told;

    return read_bool(o->insecure, &told) ? told : is_private(str_of(registry));
}

static int read_target(struct commit_options *o, const char *word, struct err *e)
{
    struct commit_target *t = &o->targets[o->target_count];
    struct str rest = str_of(word);

    if (o->target_count == COMMIT_CONTAINERS_MAX)
        return err_set(e, EINVAL, "more than %d containers", COMMIT_CONTAINERS_MAX);
    *t = (struct commit_target){0};
    if (o->unpause) {
        t->container = rest;
    } else if (!str_cut(&rest, ':', &t->container) || !t->container.n || !rest.p || !rest.n) {
        return err_set(e, EINVAL, "expected CONTAINER:IMAGE, not '%s'", word);
    } else {
        int r = image_reference_parse(rest, &t->image, e);

        if (r < 0)
            return r;
        if (!t->image.tag[0])
            return err_set(e, EINVAL, "'%s': the image needs a tag", word);
    }
    o->target_count++;
    return 0;
}

/* Names become part of a filter. */
static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && s.p[i] != '-' && s.p[i] != '.')
            return false;
    return s.n > 0 && s.n <= 253;
}

static int check_names(const struct commit_options *o, struct err *e)
{
    if (!is_name(o->pod) || !is_name(o->ns) || (o->uid.n && !is_name(o->uid)))
        return err_set(e, EINVAL, "expected names of a pod and its namespace");
    for (size_t i = 0; i < o->target_count; i++)
        if (!is_name(o->targets[i].container))
            return err_set(e, EINVAL, "'%.*s' is no name of a container",
                           STR_ARG(o->targets[i].container));
    return 0;
}

static const char *value_of(char *(*env)(const char *), const char *name, const char *usual)
{
    const char *value = env(name);

    return value && value[0] ? value : usual;
}

int commit_options_read(struct commit_options *o, int argc, char **argv,
                        char *(*env)(const char *name), struct err *e)
{
    int at = 1, r = 0;

    *o = (struct commit_options){0};
    o->socket = value_of(env, "CONTAINERD_SOCKET", "/run/containerd/containerd.sock");
    o->containerd_ns = value_of(env, "CONTAINERD_NAMESPACE", "k8s.io");
    o->insecure = str_of(value_of(env, "SNAPSHOT_REGISTRY_INSECURE", ""));
    o->uid = str_of(value_of(env, "SOURCE_POD_UID", ""));
    if (argc > 1 && str_eq(str_of(argv[1]), STR("unpause"))) {
        o->unpause = true;
        at++;
    }
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-')
            return err_set(e, EINVAL, "'%s' is no option of this program", argv[i]);
    if (argc < at + 3)
        return err_set(e, EINVAL, "expected a pod, its namespace and containers");
    o->pod = str_of(argv[at]);
    o->ns = str_of(argv[at + 1]);
    for (int i = at + 2; i < argc && r == 0; i++)
        r = read_target(o, argv[i], e);
    return r < 0 ? r : check_names(o, e);
}
