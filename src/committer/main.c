/* main.c - image-committer: saves the containers of a pod as images in a registry, for the Jobs of
 * opensandbox-operator. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/time.h"
#include "committer/commit.h"
#include "version.h"

enum { EXIT_USAGE = 2, REPORT_BYTES_MAX = 64 * 1024 };

#define CREDENTIALS "/var/run/opensandbox/registry/config.json"
#define REPORT      "/dev/termination-log"

/* Set once by the first SIGTERM or SIGINT; calls that wait look at it. */
static volatile sig_atomic_t stop;

static void on_signal(int signo)
{
    stop = 1;
}

static int usage(void)
{
    fputs(
        "usage: image-committer POD NAMESPACE CONTAINER:IMAGE...\n"
        "       image-committer unpause POD NAMESPACE CONTAINER...\n"
        "\n"
        "Saves the files of a pod's containers on this node as images and pushes them. The "
        "containers\n"
        "are paused meanwhile, and run again whatever happens; `unpause` does only that.\n"
        "\n"
        "  CONTAINERD_SOCKET           (/run/containerd/containerd.sock)\n"
        "  CONTAINERD_NAMESPACE        (k8s.io)\n"
        "  SOURCE_POD_UID              the pod must be this one\n"
        "  SNAPSHOT_REGISTRY_INSECURE  true: any certificate, or none; unset: in private networks\n"
        "\n"
        "Credentials are those of " CREDENTIALS ".\n",
        stdout);
    return EXIT_SUCCESS;
}

static const char *env_of(const char *lower, const char *upper)
{
    const char *value = getenv(lower);

    return value ? value : getenv(upper);
}

/* Like the kubelet's, a file that is not there is no error. */
static void read_credentials(struct buf *text)
{
    struct err e = {0};
    int r = io_read_file(AT_FDCWD, CREDENTIALS, IMAGE_CREDENTIALS_BYTES_MAX, text, &e);

    if (r < 0 && r != -ENOENT)
        log_event(LOG_WARN, "the registry's credentials cannot be read", LOG_STR("error", e.msg));
}

/* --- the report --- */

static void print_digest(struct str container, const char *digest)
{
    fputs("SNAPSHOT_DIGEST_", stdout);
    for (size_t i = 0; i < container.n; i++) {
        char c = container.p[i];

        (void)putchar(c >= 'a' && c <= 'z'                     ? c - 'a' + 'A'
                      : ascii_is_alpha(c) || ascii_is_digit(c) ? c
                                                               : '_');
    }
    printf("=%s\n", digest);
}

/* For the operator, which reads it as the message of the Job's pod. */
static void write_report(const struct commit *c)
{
    AUTO_BUF(text, REPORT_BYTES_MAX);
    auto_fd fd = open(REPORT, O_WRONLY | O_TRUNC | O_CLOEXEC);
    char name[IMAGE_REFERENCE_TEXT_MAX];
    struct json_writer w;

    json_write_begin(&w, &text);
    json_write_object(&w);
    json_write_key(&w, STR("containers"));
    json_write_array(&w);
    for (size_t i = 0; i < c->options->target_count; i++) {
        image_reference_format(&c->options->targets[i].image, name);
        json_write_object(&w);
        json_member_string(&w, STR("name"), c->options->targets[i].container);
        json_member_string(&w, STR("image"), str_of(name));
        json_member_string(&w, STR("digest"), str_of(c->digests[i].text));
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    if (fd < 0) /* not in a pod */
        return;
    if (json_write_end(&w) < 0 || io_write_full(fd, buf_str(&text), deadline_in_ms(1000)) < 0)
        log_event(LOG_WARN, "the report cannot be written", LOG_STR("file", REPORT));
}

static void report(const struct commit *c)
{
    for (size_t i = 0; i < c->options->target_count; i++)
        print_digest(c->options->targets[i].container, c->digests[i].text);
    printf("SNAPSHOT_DIGEST=%s\n", c->digests[0].text);
    write_report(c);
}

/* --- the program --- */

static int run(const struct commit_options *o, struct err *e)
{
    struct containerd_conf conf = {o->socket, o->containerd_ns, &stop};
    AUTO_BUF(credentials, IMAGE_CREDENTIALS_BYTES_MAX);
    struct commit c = {.options = o};
    int r = containerd_open(&conf, &c.containerd, e);

    if (r < 0)
        return r;
    buf_keep_secret(&credentials);
    read_credentials(&credentials);
    c.push = (struct image_push_conf){
        .proxy = {env_of("http_proxy", "HTTP_PROXY"), env_of("https_proxy", "HTTPS_PROXY"),
                  env_of("no_proxy", "NO_PROXY")},
        .credentials = credentials.n ? buf_str(&credentials) : STR_NONE,
        .stop = &stop,
    };
    r = o->unpause ? commit_unpause(&c, e) : commit_run(&c, e);
    containerd_close(c.containerd);
    if (r == 0 && !o->unpause)
        report(&c);
    return r;
}

int main(int argc, char **argv)
{
    static struct commit_options o; /* large */
    struct sigaction action = {.sa_handler = on_signal};
    struct err e = {0};

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("image-committer %s\n", OPENSANDBOX_VERSION);
        return EXIT_SUCCESS;
    }
    if (commit_options_read(&o, argc, argv, getenv, &e) < 0) {
        fprintf(stderr, "image-committer: %s\nimage-committer --help says what it takes\n", e.msg);
        return EXIT_USAGE;
    }
    log_init(&(struct log_conf){.level = LOG_INFO, .fd = STDERR_FILENO, .area = "committer"});
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    if (run(&o, &e) < 0) {
        (void)log_err(&e, "image-committer");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
