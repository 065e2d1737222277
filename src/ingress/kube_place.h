/* kube_place.h - what an object of the cluster says of where its sandbox is. Pure. */
#pragma once

#include "base/json_write.h"
#include "ingress/place.h"
#include "kube/object.h"

extern const struct kube_kind kube_place_agent_sandboxes;

/* Of a BatchSandbox: ready pods, and the first address of its annotation. */
void kube_place_of_batch(const struct kube_object *o, struct place *ret);
/* Of a Sandbox of agent-sandbox: condition Ready, and the name of its service. */
void kube_place_of_agent(const struct kube_object *o, struct place *ret);

/* Writes of either what the two read; for kube_informer_conf.reduce. */
void kube_place_reduce(const struct json *full, struct json_writer *w);
