/* docker.h - the runtime that has a Docker Engine make its sandboxes: a container each, named
 * sandbox-ID, with execd as its first process.
 *
 * What must survive the server is in the labels of containers, with the names that other builds of
 * OpenSandbox use, and in the store. The label opensandbox.io/owner keeps installations apart that
 * share an engine. */
#pragma once

#include "server/runtime/runtime.h"

extern const struct runtime_kind docker_runtime;
