/* docker_secrets.c - secretEnv: the vault of the sidecar gets the values, over the bridge of this
 * machine, and the sandbox gets placeholders. The engine sees no value. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/runtime/docker/docker_internal.h"
#include "server/runtime/egress_call.h"

enum { CALL_MS = 20 * 1000, BODY_MAX = 2 << 20, ANSWER_MAX = 64 << 10, HEADER_MAX = 512 };

static int connect_to(const struct sock_addr *addr, uint64_t deadline, struct err *e)
{
    auto_fd fd = sock_connect_start(addr, e);
    struct pollfd p = {fd, POLLOUT, 0};
    int r = fd;

    if (r >= 0)
        r = poll(&p, 1, deadline_left_ms(deadline)) == 1 ? sock_connect_result(fd) : -ETIMEDOUT;
    return r < 0 ? err_sys(e, -r, "reach the egress sidecar") : take_fd(&fd);
}

/* New ones, or those that the sidecar has already. */
static int write_body(const struct runtime_create *c, struct buf *out)
{
    int r;

    if (c->again)
        return buf_add(out, STR("{}"));
    r = buf_add(out, STR("{\"secretEnv\":"));
    if (r == 0)
        r = api_secrets_write(&c->spec->secrets, out);
    return r < 0 ? r : buf_add_char(out, '}');
}

/* {"NAME":"placeholder"} */
static int read_placeholders(struct str json, const struct api_secrets *s, struct docker_plan *p,
                             struct err *e)
{
    AUTO_ARENA(arena, 4 * ANSWER_MAX);
    struct json *root = NULL;
    int r = json_parse(&arena, json, NULL, &root, e);

    for (size_t i = 0; r == 0 && i < s->count; i++) {
        struct str text = STR("");

        (void)!json_to_str(json_get(root, s->rows[i].name), &text);
        r = str_copy(p->placeholders[i], sizeof(p->placeholders[i]), text);
        if (r == 0 && !text.n)
            log_event(LOG_WARN, "a value of secretEnv is lost: its egress sidecar was restarted",
                      LOG_STR("variable", s->rows[i].name));
    }
    return r < 0 ? err_set(e, EBADMSG, "the egress sidecar's answer makes no sense") : 0;
}

static int explain(struct runtime_create *c, int r, struct err *e)
{
    if (r == -ENOENT)
        (void)err_set(e, ENOTSUP, "the image of egress.image takes no secrets");
    c->fail_status = r == -EBADMSG || r == -ENOENT ? 400 : 500;
    c->fail_code =
        c->fail_status == 400 ? "SANDBOX::INVALID_PARAMETER" : "DOCKER::SANDBOX_START_FAILED";
    return err_wrap(e, e->code ? -e->code : r, "secretEnv");
}

int docker_secrets_hand_over(struct docker *d, struct runtime_create *c, struct docker_plan *p,
                             struct err *e)
{
    uint64_t deadline = deadline_in_ms(CALL_MS);
    struct str token = p->kept ? str_of(p->egress_token) : c->token;
    AUTO_BUF(body, BODY_MAX);
    AUTO_BUF(header, HEADER_MAX);
    struct egress_answer a = {0};
    struct sock_addr addr;
    auto_fd fd = -EBADF;
    int r;

    if (!c->spec->secrets.count)
        return 0;
    buf_keep_secret(&body);
    buf_keep_secret(&header);
    r = docker_sidecar_address(d, c->id, &addr, e);
    if (r < 0)
        return r;
    fd = connect_to(&addr, deadline, e);
    if (fd < 0)
        return explain(c, fd, e);
    buf_init(&a.text, ANSWER_MAX);
    r = write_body(c, &body);
    if (r == 0)
        r = buf_addf(&header, "OPENSANDBOX-EGRESS-AUTH: %.*s\r\n", STR_ARG(token));
    r = r < 0 ? err_sys(e, -r, "write the secrets")
              : egress_call(fd, "POST", "/secrets", buf_str(&header), buf_str(&body), &a, deadline,
                            e);
    if (r == 0)
        r = read_placeholders(a.body, &c->spec->secrets, p, e);
    buf_done(&a.text);
    return r < 0 ? explain(c, r, e) : 0;
}
