/* volume.h - the volumes of a request. Checks only the request, not the file system or
 * configuration: whether a volume is available is up to the runtime. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

enum { API_VOLUMES_MAX = 64 };

enum api_volume_kind { API_VOLUME_HOST, API_VOLUME_PVC, API_VOLUME_OSSFS };

struct api_volume {
    struct str name, mount_path, sub_path; /* sub_path: "" = none; relative, no ".." component */
    bool read_only;
    enum api_volume_kind kind;
    struct str host_path;  /* HOST: absolute, without "", "." or ".." components */
    struct str claim_name; /* PVC */
    bool create_if_missing, delete_with_sandbox;
    uint64_t size_bytes;                 /* PVC: a hint for one that is made for it; 0 = none */
    struct str size_text, storage_class; /* PVC: hints as written; "" = none */
    struct str access_modes;             /* the same; each ends with a newline */
    struct str bucket, endpoint;         /* OSSFS */
    struct str key_id, key_secret;       /* OSSFS; never written, see api_volume_bodies */
    struct str options;                  /* OSSFS: each ends with a newline */
};

/* How the binder reads an element of volumes[]: into a private struct, for the checks below. */
struct api_volume_body;
extern const struct json_field api_volume_element;

/* Check the bound volumes, with the contract's codes VOLUME::...: api_volumes_check_shape each
 * volume by itself, api_volumes_check the rest, which relies on that. */
int api_volumes_check_shape(const struct api_volume_body *bodies, size_t count, struct api_fail *f);
int api_volumes_check(struct arena *a, const struct api_volume_body *bodies, size_t count,
                      struct api_volume **ret_volumes, struct api_fail *f);

/* For a client: the volumes as the element above writes them; of OSSFS no key, and so
 * nothing. NULL when the arena is full. */
struct api_volume_body *api_volume_bodies(struct arena *a, const struct api_volume *volumes,
                                          size_t count);
