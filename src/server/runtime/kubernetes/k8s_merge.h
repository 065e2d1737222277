/* k8s_merge.h - lays the manifest that a request makes over the template of an administrator. Pure:
 * trees in, JSON out. */
#pragma once

#include "base/json_write.h"

/* Writes `over` laid over `under`. Either may be NULL. Objects are merged; other values of `over`
 * win, and its nulls count as absent. These lists are merged by the key of their elements, so that
 * an administrator can set what a request cannot (security contexts, probes, sidecars): containers
 * and initContainers by name, volumes by name, env by name, volumeMounts by mountPath.
 *
 * expireTime and shutdownTime of `under` are left out.
 *
 * The container of `under` that a request's container is laid over is the one called like it; if
 * none is, the first of the list is laid under `main_name`. */
void k8s_merge_write(struct json_writer *w, const struct json *over, const struct json *under,
                     struct str main_name);
