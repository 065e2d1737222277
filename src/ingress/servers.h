/* servers.h - lifecycle servers that the gateway may ask: a static list, read at start.
 *
 *   [[servers]]
 *   name = "a"
 *   url = "http://10.0.0.1:8080"
 *   api_key_file = "/etc/opensandbox/key"  # or api_key
 *   ca_file = "/etc/opensandbox/ca.pem"    # https only; default: the system's authorities
 */
#pragma once

#include "base/err.h"
#include "net/http_client.h"
#include "net/sock.h"

enum {
    SERVERS_MAX = 256,
    SERVER_TEXT_MAX = 512,
    SERVERS_FILE_BYTES_MAX = 1 << 20,
    SERVER_REPLY_BYTES_MAX = 1 << 20,
};

struct server {
    size_t index;
    char name[64];
    char host[SERVER_TEXT_MAX];      /* name or address, for TLS */
    char authority[SERVER_TEXT_MAX]; /* host:port, for Host */
    uint16_t port;
    bool tls;
    char ca_file[SERVER_TEXT_MAX];
    char api_key[SERVER_TEXT_MAX];
    struct sock_addr addr;
};

struct servers {
    struct server *at;
    size_t count;
};

/* Reads the text of the file. Keys in files are read, too, but no name is resolved: addr is set for
 * numeric hosts only. -EINVAL with the place of the mistake. */
int servers_parse(struct str text, const char *path, struct servers *ret, struct err *e);
/* The same for a file, with all names resolved. BLOCKS. */
int servers_load(const char *path, struct servers *ret, struct err *e);
void servers_done(struct servers *s);

/* --- requests to them, on one loop --- */

struct server_calls {
    struct http_client *client;
    struct stream_security **tls; /* by the server's index; NULL = plain */
};

struct server_call;

/* status 0: there was no answer, or one that is too long. Exactly once, unless cancelled. */
typedef void server_done_fn(void *user, int status, struct str body);

/* Asks with the server's API key. NULL when it could not be started; then done does not come. */
struct server_call *server_ask(const struct server_calls *calls, const struct server *server,
                               enum http_method method, const char *target, server_done_fn *done,
                               void *user);
void server_cancel(struct server_call *call);
