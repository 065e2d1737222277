/* pool.h - pools: sandboxes made ahead, to be claimed by name.
 *
 * A create claims one by the extension poolRef:
 *
 *   struct osb_pair pool = {"poolRef", "python"};
 *   osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .extensions = &pool,
 *                                                   .extension_count = 1}, &box);
 */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is in an answer of get, create and resize, or in item `index` of a list. */
struct osb_pool;
size_t osb_pool_count(const struct osb_answer *answer);
const struct osb_pool *osb_pool_at(const struct osb_answer *answer, size_t index); /* or NULL */
const char *osb_pool_name(const struct osb_pool *pool);
int64_t osb_pool_total(const struct osb_pool *pool);       /* all, also those being made */
int64_t osb_pool_allocated(const struct osb_pool *pool);   /* claimed */
int64_t osb_pool_available(const struct osb_pool *pool);   /* can be claimed now */
const char *osb_pool_message(const struct osb_pool *pool); /* why none could be made; or "" */
const char *osb_pool_json(const struct osb_pool *pool);

/* Between buffer_min and buffer_max sandboxes wait. With those in use there are pool_min to
 * pool_max. */
struct osb_capacity {
    int64_t buffer_min, buffer_max, pool_min, pool_max;
};

struct osb_pool_create {
    size_t size;
    const char *name;
    /* What its sandboxes are made of: image or snapshot, entrypoint, env, resources, volumes. */
    const struct osb_create *sandbox;
    const char *template_json; /* instead: the template as the API has it */
    const char *warm_up;       /* a shell command that runs in each before it can be claimed */
    struct osb_capacity capacity;
};
#define OSB_POOL_CREATE .size = sizeof(struct osb_pool_create)

/* ret_answer may be NULL. */
int osb_pool_create(struct osb_client *client, const struct osb_pool_create *create,
                    struct osb_answer **ret_answer);
int osb_pool_get(struct osb_client *client, const char *name, struct osb_answer **ret_answer);
int osb_pool_list(struct osb_client *client, struct osb_answer **ret_answer);
int osb_pool_resize(struct osb_client *client, const char *name,
                    const struct osb_capacity *capacity, struct osb_answer **ret_answer);
/* With the sandboxes that wait; those that were claimed live on. */
int osb_pool_delete(struct osb_client *client, const char *name);

#ifdef __cplusplus
}
#endif
