#include "server/runtime/egress_call.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"

static int receive(int fd, struct buf *text, uint64_t deadline)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;
        int r = buf_reserve(text, 4096);

        if (r < 0)
            return r;
        do
            r = poll(&p, 1, deadline_left_ms(deadline));
        while (r < 0 && errno == EINTR);
        if (r <= 0)
            return r < 0 ? -errno : -ETIMEDOUT;
        n = read(fd, text->p + text->n, 4096);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n == 0)
            return 0;
        if (n > 0)
            buf_claim(text, (size_t)n);
    }
}

/* The answer has no chunks: the request is of HTTP/1.0. */
static int parse_answer(struct egress_answer *a)
{
    struct str text = buf_str(&a->text), line = text, word;
    size_t end = str_find_str(text, STR("\r\n\r\n"));
    uint16_t status;

    if (end == text.n || !str_cut(&line, ' ', &word) || !str_cut(&line, ' ', &word) ||
        str_to_u16(word, &status) < 0)
        return -EBADMSG;
    a->status = status;
    a->body = str_skip(text, end + 4);
    while (a->body.n && a->body.p[a->body.n - 1] == '\n')
        a->body.n--;
    return 0;
}

int egress_call(int fd, const char *method, const char *path, struct str header, struct str body,
                struct egress_answer *a, uint64_t deadline, struct err *e)
{
    AUTO_BUF(head, 1024);
    int r;

    buf_keep_secret(&head);
    r = buf_addf(&head, "%s %s HTTP/1.0\r\nHost: egress\r\n%.*sContent-Length: %zu\r\n\r\n", method,
                 path, STR_ARG(header), body.n);
    if (r == 0)
        r = io_write_full(fd, buf_str(&head), deadline);
    if (r == 0)
        r = io_write_full(fd, body, deadline);
    if (r == 0)
        r = receive(fd, &a->text, deadline);
    if (r == 0)
        r = parse_answer(a);
    if (r < 0)
        return err_sys(e, -r, "talk to opensandbox-egress");
    if (a->status / 100 != 2)
        return err_set(e,
                       a->status == 404  ? ENOENT
                       : a->status < 500 ? EBADMSG
                                         : EIO,
                       "%.*s", (int)min_size(a->body.n, 200), a->body.p);
    return 0;
}
