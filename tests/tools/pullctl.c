/* pullctl - pulls an image into a directory, for tests: blobs are files, nothing is unpacked.
 *
 *   pullctl --dir=DIR [options] NAME
 *
 * Options: --platform=P --user=U --password=P --credentials=FILE --policy=always|never --ca=FILE
 * --tls=REGISTRY --plain=REGISTRY --skip-verify=REGISTRY --mirror=REGISTRY=URL --http-proxy=URL
 * --https-proxy=URL --no-proxy=LIST. Progress goes to standard error. On standard output:
 * "ok MANIFEST BYTES new|present", or "PROBLEM: message" and exit status 1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defs.h"
#include "base/fd.h"
#include "base/str.h"
#include "dir_blobs.h"
#include "image/problem.h"
#include "image/pull.h"

enum { RULES_MAX = 8 };

struct options {
    const char *dir, *platform, *user, *password, *credentials, *policy, *ca;
    const char *http_proxy, *https_proxy, *no_proxy, *name;
    struct image_registry_rule rules[RULES_MAX];
    char mirror_registry[128];
    const char *mirror;
    size_t rule_count;
};

struct outcome {
    struct loop *loop;
    int error;
    struct err err;
    struct image_pulled pulled;
};

static void on_progress(struct image_pull *p UNUSED, const char *text, uint64_t done,
                        uint64_t total)
{
    fprintf(stderr, "%llu/%llu %s\n", (unsigned long long)done, (unsigned long long)total, text);
}

static void on_done(struct image_pull *p, int error, const struct err *e,
                    const struct image_pulled *image)
{
    struct outcome *o = image_pull_user(p);

    o->error = error;
    if (error)
        o->err = *e;
    else
        o->pulled = *image;
    loop_stop(o->loop);
}

static const struct image_pull_ops pull_ops = {on_progress, on_done};

static int usage(const char *what)
{
    fprintf(stderr, "pullctl: %s\nusage: pullctl --dir=DIR [options] NAME\n", what);
    return 2;
}

static struct image_registry_rule *rule_of(struct options *o, const char *registry)
{
    for (size_t i = 0; i < o->rule_count; i++)
        if (strcmp(o->rules[i].registry, registry) == 0)
            return &o->rules[i];
    o->rules[o->rule_count].registry = registry;
    return &o->rules[o->rule_count++];
}

static int read_rule(struct options *o, struct str name, const char *value)
{
    if (o->rule_count == RULES_MAX)
        return -ENOSPC;
    if (str_eq(name, STR("tls"))) {
        (void)rule_of(o, value);
    } else if (str_eq(name, STR("plain"))) {
        rule_of(o, value)->plain_http = true;
    } else if (str_eq(name, STR("skip-verify"))) {
        rule_of(o, value)->skip_verify = true;
    } else if (str_eq(name, STR("mirror")) && strchr(value, '=')) {
        struct image_registry_rule *rule;

        snprintf(o->mirror_registry, sizeof(o->mirror_registry), "%.*s",
                 (int)(strchr(value, '=') - value), value);
        rule = rule_of(o, o->mirror_registry);
        o->mirror = strchr(value, '=') + 1;
        rule->mirrors = &o->mirror;
        rule->mirror_count = 1;
    } else {
        return -EINVAL;
    }
    return 0;
}

static int read_option(struct options *o, struct str name, const char *value)
{
    const struct {
        const char *name;
        const char **at;
    } rows[] = {
        {"dir",         &o->dir        },
        {"platform",    &o->platform   },
        {"user",        &o->user       },
        {"password",    &o->password   },
        {"credentials", &o->credentials},
        {"policy",      &o->policy     },
        {"ca",          &o->ca         },
        {"http-proxy",  &o->http_proxy },
        {"https-proxy", &o->https_proxy},
        {"no-proxy",    &o->no_proxy   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_eq(name, str_of(rows[i].name))) {
            *rows[i].at = value;
            return 0;
        }
    }
    return read_rule(o, name, value);
}

static int read_arguments(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');

        if (strncmp(argv[i], "--", 2) != 0)
            o->name = argv[i];
        else if (!value || read_option(o, str_make(argv[i] + 2, (size_t)(value - argv[i]) - 2),
                                       value + 1) < 0)
            return usage(argv[i]);
    }
    return o->dir && o->name ? 0 : usage("no directory or no name");
}

static int read_spec(const struct options *o, struct image_pull_spec *spec, struct err *e)
{
    int r = image_reference_parse(str_of(o->name), &spec->reference, e);

    if (r == 0 && o->platform)
        r = image_platform_parse(str_of(o->platform), &spec->platform, e);
    spec->auth.username = str_of(o->user);
    spec->auth.password = str_of(o->password);
    if (o->policy)
        spec->policy = strcmp(o->policy, "never") == 0 ? IMAGE_PULL_NEVER : IMAGE_PULL_ALWAYS;
    return r;
}

/* Everything is made, used, and taken down again, so that leaks show under the sanitizers. */
static int pull(const struct options *o, struct outcome *out, struct dir_blobs *blobs,
                struct err *e)
{
    struct pool_conf pool_conf = {.name = "pullctl", .threads = 4, .queue_max = 64};
    struct image_registry_conf conf = {
        .rules = o->rules,
        .rule_count = o->rule_count,
        .ca_file = o->ca,
        .proxy = {o->http_proxy, o->https_proxy, o->no_proxy},
        .tries = 2,
        .backoff_ms = 50,
    };
    struct image_puller_conf puller_conf = {
        .blobs = {&dir_blobs_ops, blobs},
          .credentials_file = o->credentials
    };
    struct image_registry *registry = NULL;
    struct image_puller *puller = NULL;
    struct image_pull_spec spec = {0};
    struct pool *pool = NULL;
    struct image_pull *p;
    int r = loop_new(&out->loop, e);

    if (r == 0)
        r = pool_new(&pool_conf, &pool, e);
    conf.loop = puller_conf.loop = blobs->loop = out->loop;
    conf.pool = puller_conf.pool = pool;
    if (r == 0)
        r = image_registry_new(&conf, &registry, e);
    puller_conf.registry = registry;
    if (r == 0)
        r = image_puller_new(&puller_conf, &puller, e);
    if (r == 0)
        r = read_spec(o, &spec, e);
    if (r == 0)
        r = image_pull_start(puller, &spec, &pull_ops, out, &p, e);
    if (r == 0)
        r = loop_run(out->loop, e);
    pool_free(pool);
    loop_settle(out->loop);
    image_puller_free(puller);
    image_registry_free(registry);
    loop_free(out->loop);
    return r;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct outcome out = {0};
    struct dir_blobs blobs = {0};
    struct err e = {0};
    int r = read_arguments(argc, argv, &o);

    if (r)
        return r;
    blobs.dirfd = open(o.dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (blobs.dirfd < 0)
        return usage("the directory cannot be opened");
    r = pull(&o, &out, &blobs, &e);
    fd_close(blobs.dirfd);
    if (r < 0 || out.error) {
        const struct err *why = r < 0 ? &e : &out.err;

        printf("%s: %s\n", image_problem_name(image_problem_of(why->code)), why->msg);
        return 1;
    }
    printf("ok %s %llu %s\n", out.pulled.manifest.text, (unsigned long long)out.pulled.bytes,
           out.pulled.was_present ? "present" : "new");
    return 0;
}
