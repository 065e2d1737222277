/* volume.h - named volumes: directories of the server that outlive sandboxes.
 *
 * struct osb_volume of sandbox.h mounts one by claim_name. An extension of the lifecycle API. */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is in an answer of get and create, or in item `index` of a page. */
struct osb_volume_info;
size_t osb_volume_count(const struct osb_answer *answer);
const struct osb_volume_info *osb_volume_at(const struct osb_answer *answer,
                                            size_t index); /* or NULL */
const char *osb_volume_name(const struct osb_volume_info *volume);
int64_t osb_volume_created_us(const struct osb_volume_info *volume); /* microseconds since 1970 */
int64_t osb_volume_size(const struct osb_volume_info *volume);       /* its limit; -1 = none */
int64_t osb_volume_used(const struct osb_volume_info *volume);       /* bytes; -1 = not known */
size_t osb_volume_user_count(const struct osb_volume_info *volume);  /* sandboxes that mount it */
const char *osb_volume_user(const struct osb_volume_info *volume, size_t index); /* or NULL */
const char *osb_volume_json(const struct osb_volume_info *volume);

/* size: its limit, such as "10Gi"; NULL = none. -EBUSY when the name is taken. ret_answer may be
 * NULL. */
int osb_volume_create(struct osb_client *client, const char *name, const char *size,
                      struct osb_answer **ret_answer);
int osb_volume_get(struct osb_client *client, const char *name, struct osb_answer **ret_answer);
/* Of `filter` count page and page_size. */
int osb_volume_list(struct osb_client *client, const struct osb_filter *filter,
                    struct osb_answer **ret_answer);
/* With all that is in it. -EBUSY while sandboxes mount it. */
int osb_volume_delete(struct osb_client *client, const char *name);

#ifdef __cplusplus
}
#endif
