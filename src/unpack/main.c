/* main.c - opensandbox-unpack: unpacks one layer into its root directory, reports, and ends.
 *
 * The broker starts it in namespaces of its own, see sandbox/unpack.h. Two threads: one reads the
 * blob, uncompresses and hashes it, the other writes files. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "unpack/apply.h"
#include "unpack/filter.h"
#include "unpack/inflate.h"
#include "version.h"

enum {
    PIECE_BYTES = 512 << 10,
    PIECES = 8,
    RATIO_FROM_BYTES = 64 << 20, /* small archives compress as well as they like */
};

struct piece {
    size_t n;
    char bytes[PIECE_BYTES];
};

/* A queue of uncompressed pieces between the threads. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_there;  /* the reader runs, and has made the calls of a new thread */
    bool may_start; /* the filter is in place */
    size_t first, count;
    bool ended;     /* no more pieces come */
    struct err err; /* why; code 0 = the blob's end */
    struct piece *pieces[PIECES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct unpack_limits limits;
static struct unpack_report report; /* diff_id and bytes are the reader's */

/* --- the thread that reads --- */

static struct piece *queue_room(void)
{
    struct piece *room;

    (void)pthread_mutex_lock(&queue.lock);
    while (queue.count == PIECES)
        (void)pthread_cond_wait(&queue.changed, &queue.lock);
    room = queue.pieces[(queue.first + queue.count) % PIECES];
    (void)pthread_mutex_unlock(&queue.lock);
    return room;
}

static void queue_put(bool ended, const struct err *why)
{
    (void)pthread_mutex_lock(&queue.lock);
    if (ended) {
        queue.err = *why;
        queue.ended = true;
    } else {
        queue.count++;
    }
    (void)pthread_cond_signal(&queue.changed);
    (void)pthread_mutex_unlock(&queue.lock);
}

static int check_amount(const struct inflate *in, uint64_t bytes, struct err *e)
{
    uint64_t taken = inflate_taken(in);

    if (bytes > limits.bytes)
        return err_set(e, EFBIG, "the archive is longer than %llu bytes",
                       (unsigned long long)limits.bytes);
    if (bytes > RATIO_FROM_BYTES && bytes / limits.ratio > taken)
        return err_set(e, EFBIG, "the layer grows more than %u times when uncompressed",
                       limits.ratio);
    return 0;
}

static int read_all(struct inflate *in, struct err *e)
{
    struct sha256 hash;
    int r = 0;

    sha256_init(&hash);
    while (r == 0) {
        struct piece *piece = queue_room();
        ssize_t n = inflate_read(in, piece->bytes, sizeof(piece->bytes), e);

        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        piece->n = (size_t)n;
        report.bytes += piece->n;
        sha256_add(&hash, str_make(piece->bytes, piece->n));
        r = check_amount(in, report.bytes, e);
        if (r == 0)
            queue_put(false, NULL);
    }
    if (r == 0)
        sha256_end(&hash, report.diff_id);
    return r;
}

static void *reader_main(void *ignored UNUSED)
{
    struct inflate *in = NULL;
    struct err e = {0};
    int r;

    (void)pthread_mutex_lock(&queue.lock);
    queue.is_there = true;
    (void)pthread_cond_signal(&queue.changed);
    while (!queue.may_start)
        (void)pthread_cond_wait(&queue.changed, &queue.lock);
    (void)pthread_mutex_unlock(&queue.lock);
    r = inflate_open(UNPACK_FD_BLOB, &in, &e);
    if (r == 0)
        r = read_all(in, &e);
    inflate_close(in);
    queue_put(true, &e);
    (void)r;
    return NULL;
}

/* --- the thread that writes --- */

/* The next piece, or NULL after the last. */
static struct piece *queue_front(struct err *e)
{
    struct piece *front = NULL;

    (void)pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && !queue.ended)
        (void)pthread_cond_wait(&queue.changed, &queue.lock);
    if (queue.count > 0)
        front = queue.pieces[queue.first];
    else if (queue.err.code)
        *e = queue.err;
    (void)pthread_mutex_unlock(&queue.lock);
    return front;
}

static void queue_drop(void)
{
    (void)pthread_mutex_lock(&queue.lock);
    queue.first = (queue.first + 1) % PIECES;
    queue.count--;
    (void)pthread_cond_signal(&queue.changed);
    (void)pthread_mutex_unlock(&queue.lock);
}

static int tell(const struct unpack_message *m, const int *fd, struct err *e)
{
    int r = fd_send(UNPACK_FD_SOCK, m, sizeof(*m), fd, fd ? 1 : 0);

    return r < 0 ? err_sys(e, -r, "talk to the broker") : 0;
}

/* Waits until it is marked: the kernel limits the descriptors that are under way in sockets. */
static int tell_opaque(void *ctx UNUSED, int dir, struct err *e)
{
    int r = tell(&(struct unpack_message){.said = UNPACK_OPAQUE}, &dir, e);
    char marked;

    if (r == 0 && read(UNPACK_FD_SOCK, &marked, 1) != 1)
        r = err_set(e, EPIPE, "the broker does not answer");
    return r;
}

static int write_all(int root, struct err *e)
{
    static struct layer_reader layer;
    static struct apply apply;
    struct piece *piece;
    int r = 0;

    apply_init(&apply, root, tell_opaque, NULL);
    layer_reader_init(&layer, &limits, &apply_ops, &apply);
    while (r == 0 && (piece = queue_front(e))) {
        r = layer_reader_feed(&layer, str_make(piece->bytes, piece->n), e);
        queue_drop();
    }
    if (r == 0 && e->code)
        r = -e->code;
    if (r == 0)
        r = layer_reader_end(&layer, e);
    if (r == 0)
        r = apply_end(&apply, e);
    report.entries = layer.entries;
    report.file_bytes = layer.file_bytes;
    report.skipped = layer.skipped;
    layer_reader_done(&layer);
    apply_done(&apply);
    return r;
}

/* --- start --- */

static int limits_read(struct err *e)
{
    size_t n = 0;
    int r = io_read_full(UNPACK_FD_LIMITS, &limits, sizeof(limits), DEADLINE_NEVER, &n);

    if (r < 0 || n != sizeof(limits))
        return err_set(e, EPROTO, "no limits were given");
    return unpack_limits_check(&limits, e);
}

/* The reader exists before the filter, which forbids to make threads, and waits for it. */
static int confine(struct err *e)
{
    pthread_t reader;
    int r;

    for (size_t i = 0; i < PIECES; i++)
        queue.pieces[i] = mem_alloc(sizeof(struct piece));
    r = pthread_create(&reader, NULL, reader_main, NULL);
    if (r != 0)
        return err_sys(e, r, "make a thread");
    (void)pthread_mutex_lock(&queue.lock);
    while (!queue.is_there)
        (void)pthread_cond_wait(&queue.changed, &queue.lock);
    r = filter_install();
    queue.may_start = r == 0;
    (void)pthread_cond_signal(&queue.changed);
    (void)pthread_mutex_unlock(&queue.lock);
    return r < 0 ? err_sys(e, -r, "load the system call filter") : 0;
}

/* The broker starts the program without arguments. */
static int answer_by_hand(const char *option)
{
    static const char help[] =
        "usage: opensandbox-unpack [--help | --version]\n"
        "Unpacks one layer of an image. opensandbox-broker starts it, in namespaces of its own;\n"
        "it cannot be started by hand.\n";

    if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0)
        return fputs(help, stdout) < 0;
    if (strcmp(option, "--version") == 0)
        return puts("opensandbox-unpack " OPENSANDBOX_VERSION) < 0;
    (void)fprintf(stderr, "opensandbox-unpack: unexpected argument '%s'; see --help\n", option);
    return 2;
}

int main(int argc, char **argv)
{
    struct stat st;
    struct err e = {0};
    int root, r;

    if (argc > 1)
        return answer_by_hand(argv[1]);
    if (getpid() != 1 || fstat(UNPACK_FD_SOCK, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        (void)fputs("opensandbox-unpack: started by opensandbox-broker, not by hand\n", stderr);
        return 2;
    }
    (void)umask(0);
    root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = root < 0 ? err_sys(&e, errno, "open the root") : limits_read(&e);
    if (r == 0)
        r = confine(&e);
    if (r == 0)
        r = write_all(root, &e);
    report.result = r;
    report.err = e;
    r = tell(&(struct unpack_message){.said = UNPACK_DONE, .report = report}, NULL, &e);
    _exit(r < 0);
}
