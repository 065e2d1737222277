/* answer.h - what a server or sandbox answered: JSON, headers, or bytes; and any request by hand.
 *
 * Strings and views borrow from the answer. */
#pragma once

#include <opensandbox/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_answer;
struct osb_sandbox;

void osb_answer_free(struct osb_answer *answer);

int osb_answer_status(const struct osb_answer *answer);             /* HTTP */
const char *osb_answer_request_id(const struct osb_answer *answer); /* "" when none came */
const char *osb_answer_header(const struct osb_answer *answer, const char *name); /* or NULL */
/* The body, with a NUL behind it. */
const char *osb_answer_body(const struct osb_answer *answer, size_t *ret_bytes);

/* A value by its path, such as "status.state", "items[2].id", "[0].path": keys joined by dots,
 * elements in brackets, "" = all of it. A key that contains dots is written in quotes:
 * metadata."a.b". Text is a string or the JSON of another value; NULL when there is none. */
const char *osb_answer_text(const struct osb_answer *answer, const char *path);
int64_t osb_answer_int(const struct osb_answer *answer, const char *path, int64_t otherwise);
double osb_answer_number(const struct osb_answer *answer, const char *path, double otherwise);
bool osb_answer_bool(const struct osb_answer *answer, const char *path, bool otherwise);
bool osb_answer_has(const struct osb_answer *answer, const char *path);
/* Elements of an array or members of an object there; 0 when it is neither. */
size_t osb_answer_count(const struct osb_answer *answer, const char *path);
/* The name of member `index` of the object there, or NULL. */
const char *osb_answer_key(const struct osb_answer *answer, const char *path, size_t index);

/* --- any request --- */

/* Takes a piece of the body; not 0 ends the call, which returns -ECANCELED. May make other calls.
 */
typedef int osb_sink_fn(void *user, const char *data, size_t bytes);
/* Fills at most `size` bytes: how many, 0 at the end, or a negative errno that ends the call. */
typedef long osb_source_fn(void *user, char *out, size_t size);

struct osb_request {
    size_t size;
    const char *method; /* "GET" */
    /* Below the base URL ("/sandboxes"), or with a sandbox: below its port. May have a query. */
    const char *path;
    struct osb_sandbox *sandbox; /* NULL = the lifecycle API, with the API key */
    uint16_t port;               /* of the sandbox; 0 = its daemon, 44772 */
    const struct osb_pair
        *query; /* encoded and added to the path; a pair without value is skipped */
    size_t query_count;
    const struct osb_pair *headers;
    size_t header_count;
    const char *content_type; /* "application/json" when there is a body */
    const void *body;
    size_t body_bytes;
    osb_source_fn *source; /* instead of a body */
    int64_t source_bytes;  /* all it will give; 0 = unknown */
    osb_sink_fn *sink;     /* gets the body of a 2xx as it comes; the answer has none then */
    void *user;            /* of source and sink */
    bool streams;          /* no time limit once the head came */
};
#define OSB_REQUEST .size = sizeof(struct osb_request)

/* A status outside 200..299 is an error. ret_answer may be NULL. The body is limited to 64 MiB
 * unless there is a sink. */
int osb_request(struct osb_client *client, const struct osb_request *request,
                struct osb_answer **ret_answer);

#ifdef __cplusplus
}
#endif
