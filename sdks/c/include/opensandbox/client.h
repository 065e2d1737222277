/* client.h - a connection to an OpenSandbox server, and why a call failed.
 *
 * A client and all that was made with it belong to one thread at a time; different clients are
 * independent, and the library has no global state. Only osb_client_interrupt may be called from
 * other threads and from signal handlers. The process ignores SIGPIPE from the first client on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { OSB_MESSAGE_MAX = 512 };

struct osb_client;

/* A name and a value: a header, a variable, a label. */
struct osb_pair {
    const char *name, *value;
};

/* Option structs begin with their size, which their macro sets: OSB_CONFIG, OSB_CREATE and so on.
 * So a program works with later versions of the library, which may have more fields. What is 0 or
 * NULL has its default. */
struct osb_config {
    size_t size;
    /* "localhost:8080": may carry a scheme, which then counts, and a path. Otherwise the
     * environment variable OPEN_SANDBOX_DOMAIN, the file, that default. */
    const char *domain;
    const char *protocol; /* "http" or "https"; OPEN_SANDBOX_PROTOCOL, the file, "http" */
    const char *api_key;  /* OPEN_SANDBOX_API_KEY, the file; "" = none is sent */
    /* TOML with a section [connection]: api_key, domain, protocol, request_timeout (seconds),
     * use_server_proxy. NULL = none is read, "" = ~/.opensandbox/config.toml if there is one. */
    const char *config_file;
    bool no_environment;            /* do not read environment variables */
    bool use_server_proxy;          /* ask for endpoints that lead through the server */
    uint32_t request_timeout_ms;    /* 30 s; of a stream, until its head came */
    uint32_t connect_timeout_ms;    /* 5 s */
    uint32_t idle_timeout_ms;       /* 60 s during which a stream that pings is silent */
    const struct osb_pair *headers; /* sent with every request */
    size_t header_count;
    const char *user_agent; /* "OpenSandbox-C-SDK/<version>" */
    const char *ca_file;    /* PEM: certificates to trust; NULL = those of the system */
    bool insecure;          /* accept any certificate: for tests only */
};
#define OSB_CONFIG .size = sizeof(struct osb_config)

/* Opens a client; no request is sent yet. On failure `message` says what is wrong. */
int osb_client_open(const struct osb_config *config, struct osb_client **ret_client,
                    char message[OSB_MESSAGE_MAX]);
/* Cancels its tasks, closes its connections. Handles made with it must be freed before. */
void osb_client_close(struct osb_client *client);

const char *osb_client_base_url(const struct osb_client *client); /* "http://localhost:8080/v1" */
const char *osb_version(void);                                    /* of the library */

/* The time limit of each later call of this task, or of the program outside of tasks, as a whole:
 * in milliseconds; 0 = the defaults of the configuration; -1 = none. A call that reaches it returns
 * -ETIMEDOUT. */
void osb_client_set_timeout(struct osb_client *client, int64_t timeout_ms);

/* Any thread, any signal handler: calls in progress, else the next one, return -ECANCELED. */
void osb_client_interrupt(struct osb_client *client);

/* --- errors --- */

struct osb_error;

/* Of the last call of this task that failed; never NULL. Valid until the next call fails. */
const struct osb_error *osb_client_error(const struct osb_client *client);

/* The positive errno. HTTP statuses: 400 EINVAL, 401 and 403 EACCES, 404 ENOENT, 409 EBUSY, 413
 * EFBIG, 429 and 503 EAGAIN, 501 EOPNOTSUPP, other 4xx EINVAL, other 5xx EREMOTEIO. Also ETIMEDOUT,
 * ECANCELED, EPROTO (an answer that breaks the protocol, a stream that ends too early), EBADMSG
 * (JSON that does not fit), and those of the network. */
int osb_error_errno(const struct osb_error *error);
int osb_error_status(const struct osb_error *error);       /* HTTP; 0 when there was no answer */
const char *osb_error_code(const struct osb_error *error); /* "SANDBOX::INVALID_PARAMETER" or "" */
const char *osb_error_message(const struct osb_error *error);
const char *osb_error_request_id(const struct osb_error *error); /* "" when none came */
int osb_error_retry_after_s(const struct osb_error *error);      /* 0 when not told */

#ifdef __cplusplus
}
#endif
