/* kubedo.c - drives src/kube from tests: one request, a watch, an election, a command in a pod.
 *
 *   kubedo KUBECONFIG call|block VERB KIND NS NAME SUBRESOURCE QUERY PATCH [BODY]
 *   kubedo KUBECONFIG watch KIND NS SELECTOR PAGE WATCH_S SILENCE_S
 *   kubedo KUBECONFIG lead NS NAME IDENTITY LEASE_S RENEW_S RETRY_S
 *   kubedo KUBECONFIG event KIND NS NAME UID REASON MESSAGE TIMES
 *   kubedo KUBECONFIG exec NS POD COMMAND...
 *
 * Prints one line per fact. A watch and an election end with SIGTERM. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kube/blocking.h"
#include "kube/exec.h"
#include "kube/informer.h"
#include "kube/leader.h"
#include "kube/recorder.h"

static struct loop *loop;
static struct kube_config *config;
static struct kube_client *client;
static struct kube_leader *leader;

static const char *const verbs[] = {"get", "list", "create", "update", "patch", "delete"};
static const char *const patches[] = {"merge", "json", "strategic", "apply"};
static const struct kube_kind *const kinds[] = {
    &kube_pods,  &kube_configmaps, &kube_secrets,         &kube_events, &kube_leases,
    &kube_nodes, &kube_crds,       &kube_batch_sandboxes, &kube_pools,  &kube_snapshots,
    &kube_jobs,  &kube_services,   &kube_namespaces,
};

static void fail(const char *what, const struct err *e)
{
    (void)fprintf(stderr, "kubedo: %s: %s\n", what, e->msg);
    exit(1);
}

static int index_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return 0;
}

static const struct kube_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i]->plural, name) == 0)
            return kinds[i];
    return NULL; /* the name is a path */
}

static void stop(int code)
{
    (void)fflush(stdout);
    if (code)
        exit(code);
    loop_stop(loop);
}

/* --- one request --- */

static void print_answer(const struct kube_error *error, const struct kube_object *o)
{
    AUTO_BUF(text, 64 << 20);
    struct json_writer w;

    json_write_begin(&w, &text);
    json_write_object(&w);
    json_member_i64(&w, STR("status"), error->status);
    json_member_i64(&w, STR("code"), error->err.code);
    json_member_string(&w, STR("reason"), str_of(error->reason));
    json_member_string(&w, STR("message"), str_of(error->err.msg));
    if (o) {
        json_write_key(&w, STR("object"));
        json_write_value(&w, o->root);
    }
    json_write_object_end(&w);
    if (json_write_end(&w) == 0)
        (void)puts(text.p);
}

static void on_answer(void *user, const struct kube_answer *answer)
{
    struct kube_client_stats stats;

    print_answer(&answer->error, answer->object);
    kube_client_stats(client, &stats);
    (void)fprintf(stderr, "retries=%llu\n", (unsigned long long)stats.retries);
    stop(0);
}

static void request(bool blocks, char **argv, int argc)
{
    struct kube_request rq = {
        .verb = (enum kube_verb)index_of(verbs, ARRAY_LEN(verbs), argv[0]),
        .kind = kind_of(argv[1]),
        .path = str_of(argv[1]),
        .ns = str_of(argv[2]),
        .name = str_of(argv[3]),
        .subresource = str_of(argv[4]),
        .query = str_of(argv[5]),
        .patch = (enum kube_patch)index_of(patches, ARRAY_LEN(patches), argv[6]),
        .body = str_of(argc > 7 ? argv[7] : ""),
        .timeout_ms = getenv("KUBEDO_MS") ? (uint32_t)strtoul(getenv("KUBEDO_MS"), NULL, 10) : 0,
    };
    struct kube_blocking *b = NULL;
    struct kube_error error = {0};
    auto_object *o = NULL;
    struct err e = {0};

    if (!blocks) {
        if (kube_send(client, &rq, on_answer, NULL, NULL, &e) < 0)
            fail("request", &e);
        (void)loop_run(loop, &e);
        return;
    }
    if (kube_blocking_new(&(struct kube_blocking_conf){.config = config}, &b, &e) < 0)
        fail("client", &e);
    for (int i = 0; i < 2; i++) { /* the second one on the same connection */
        kube_object_unref(take_ptr(&o));
        (void)!kube_blocking_call(b, &rq, &o, &error);
        if (rq.verb != KUBE_GET)
            break;
    }
    print_answer(&error, o);
    kube_blocking_free(b);
}

/* --- a watch --- */

static void say(const char *what, const struct kube_object *o)
{
    (void)printf("%s %.*s/%.*s %.*s\n", what, STR_ARG(o->ns), STR_ARG(o->name),
                 STR_ARG(o->version));
    (void)fflush(stdout);
}

static void on_add(struct kube_handler *h, struct kube_object *o)
{
    say("add", o);
}

static void on_update(struct kube_handler *h, struct kube_object *old, struct kube_object *o)
{
    say("update", o);
}

static void on_delete(struct kube_handler *h, struct kube_object *last)
{
    say("delete", last);
}

static void on_synced(struct kube_handler *h)
{
    (void)puts("synced");
    (void)fflush(stdout);
}

static void watch(char **argv)
{
    struct kube_handler handler = {
        .on_add = on_add, .on_update = on_update, .on_delete = on_delete, .on_synced = on_synced};
    struct kube_informer_conf conf = {
        .client = client,
        .kind = kind_of(argv[0]),
        .ns = argv[1],
        .label_selector = argv[2],
        .page = (uint32_t)strtoul(argv[3], NULL, 10),
        .watch_s = (uint32_t)strtoul(argv[4], NULL, 10),
        .silence_s = (uint32_t)strtoul(argv[5], NULL, 10),
    };
    struct kube_informer *informer = NULL;
    struct kube_informer_stats stats;
    struct err e = {0};

    if (kube_informer_new(&conf, &informer, &e) < 0)
        fail("watch", &e);
    kube_informer_add_handler(informer, &handler);
    (void)loop_run(loop, &e);
    kube_informer_stats(informer, &stats);
    (void)printf("end objects=%zu lists=%llu watches=%llu failures=%llu %s\n", stats.objects,
                 (unsigned long long)stats.lists, (unsigned long long)stats.watches,
                 (unsigned long long)stats.failures, stats.last_error);
    kube_informer_free(informer);
}

/* --- an election --- */

static void on_started(void *user)
{
    (void)puts("started");
    (void)fflush(stdout);
}

static void on_lost(void *user, const char *why)
{
    (void)printf("lost: %s\n", why);
    stop(0);
}

static void on_new_leader(void *user, const char *identity)
{
    (void)printf("leader %s\n", identity);
    (void)fflush(stdout);
}

static void on_released(void *user)
{
    stop(0);
}

static void lead(char **argv)
{
    struct kube_leader_conf conf = {
        .client = client,
        .ns = argv[0],
        .name = argv[1],
        .identity = argv[2],
        .lease_s = (uint32_t)strtoul(argv[3], NULL, 10),
        .renew_s = (uint32_t)strtoul(argv[4], NULL, 10),
        .retry_s = (uint32_t)strtoul(argv[5], NULL, 10),
        .on_started = on_started,
        .on_lost = on_lost,
        .on_new_leader = on_new_leader,
    };
    struct err e = {0};

    if (kube_leader_new(&conf, &leader, &e) < 0)
        fail("lead", &e);
    (void)loop_run(loop, &e);
    kube_leader_free(leader);
}

/* --- events, and commands in pods --- */

static void on_flushed(void *user, const struct kube_answer *answer)
{
    struct kube_client_stats stats;

    kube_client_stats(client, &stats);
    if (stats.inflight + stats.queued > 0)
        (void)kube_send(client, &(struct kube_request){.path = STR("/version")}, on_flushed, NULL,
                        NULL, NULL);
    else
        stop(0);
}

static void event(char **argv)
{
    struct kube_recorder *recorder = NULL;
    AUTO_BUF(text, 4096);
    auto_object *about = NULL;
    struct err e = {0};

    (void)buf_addf(&text, "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\"}}",
                   argv[1], argv[2], argv[3]);
    if (kube_object_parse(buf_str(&text), &about, &e) < 0 ||
        kube_recorder_new(client, "kubedo", "here", &recorder, &e) < 0)
        fail("event", &e);
    for (unsigned long i = strtoul(argv[6], NULL, 10); i; i--)
        kube_record(recorder, kind_of(argv[0]), about, KUBE_EVENT_WARNING, argv[4], "%s", argv[5]);
    (void)kube_send(client, &(struct kube_request){.path = STR("/version")}, on_flushed, NULL, NULL,
                    NULL);
    (void)loop_run(loop, &e);
    kube_recorder_free(recorder);
}

static void on_output(void *user, int stream, struct str data)
{
    (void)printf("%d: %.*s\n", stream, STR_ARG(data));
}

static void on_exit_code(void *user, int exit_code, const struct kube_error *error)
{
    (void)printf("exit %d %s\n", exit_code, error ? error->err.msg : "");
    stop(0);
}

static void execute(char **argv)
{
    struct kube_exec_spec spec = {
        .ns = str_of(argv[0]),
        .pod = str_of(argv[1]),
        .argv = (const char *const *)(argv + 2),
        .on_output = on_output,
        .on_end = on_exit_code,
    };
    struct kube_exec *x = NULL;
    struct err e = {0};

    if (kube_exec_start(client, &spec, &x, &e) < 0)
        fail("exec", &e);
    (void)loop_run(loop, &e);
}

static void on_signal(struct loop_signals *s, int signo)
{
    if (leader)
        kube_leader_release(leader, on_released);
    else
        stop(0);
}

static void run(char **argv, int argc)
{
    if (strcmp(argv[0], "watch") == 0)
        watch(argv + 1);
    else if (strcmp(argv[0], "lead") == 0)
        lead(argv + 1);
    else if (strcmp(argv[0], "event") == 0)
        event(argv + 1);
    else if (strcmp(argv[0], "exec") == 0)
        execute(argv + 1);
    else
        request(strcmp(argv[0], "block") == 0, argv + 1, argc - 1);
}

int main(int argc, char **argv)
{
    struct loop_signals signals;
    struct err e = {0};
    sigset_t set;

    if (argc < 6) {
        (void)fprintf(stderr, "usage: kubedo KUBECONFIG call|block|watch|lead|event|exec ...\n");
        return 2;
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    if (loop_new(&loop, &e) < 0 || loop_signals_start(loop, &signals, &set, on_signal, &e) < 0)
        fail("loop", &e);
    if (kube_config_load(argv[1], NULL, &config, &e) < 0)
        fail("config", &e);
    if (kube_client_new(&(struct kube_client_conf){.loop = loop, .config = config}, &client, &e) <
        0)
        fail("client", &e);
    run(argv + 2, argc - 2);
    kube_client_free(client);
    kube_config_free(config);
    loop_signals_stop(&signals);
    loop_free(loop);
    return 0;
}
