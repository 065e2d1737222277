/* pull_documents.c - the first half of a pull: what is here, manifests, configuration. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/io.h"
#include "image/pull_internal.h"

enum { INDEXES_MAX = 2 }; /* an index may list indexes */

/* --- documents --- */

/* A failure before there are layers: nothing is under way. */
static void fail_early(struct pull_job *job, int code, const char *why)
{
    pull_fail(job, code, "%s", why);
    if (!job->busy && !job->closing)
        pull_close(job);
}

static int document_start(struct image_fetch *f, uint64_t from UNUSED)
{
    struct pull_job *job = image_fetch_user(f);

    buf_clear(&job->document);
    snprintf(job->media_type, sizeof(job->media_type), "%s", image_fetch_media_type(f));
    snprintf(job->content_digest, sizeof(job->content_digest), "%s", image_fetch_content_digest(f));
    return 0;
}

static ssize_t document_body(struct image_fetch *f, struct str piece)
{
    struct pull_job *job = image_fetch_user(f);

    return buf_add(&job->document, piece) < 0 ? -EFBIG : (ssize_t)piece.n;
}

/* Bytes by their digest; the hash of up to 8 MiB is for a worker. */
static int check_document(struct pull_job *job, struct image_digest *ret, struct err *e)
{
    struct str bytes = buf_str(&job->document);
    const struct image_digest *want = &job->expected;

    struct image_hash hash;

    image_hash_init_for(&hash, want);
    image_hash_add(&hash, bytes);
    image_hash_end(&hash, ret);
    if (job->expected_bytes && bytes.n != job->expected_bytes)
        return err_set(e, EPROTO, "%s has %zu bytes, not %llu", want->text, bytes.n,
                       (unsigned long long)job->expected_bytes);
    if (image_digest_is_set(want) && !image_digest_eq(want, ret))
        return err_set(e, EBADMSG, "the registry sent %.19s... for %.19s...", ret->text,
                       want->text);
    return 0;
}

static int read_config(struct pull_job *job, struct err *e)
{
    char has[IMAGE_PLATFORM_TEXT_MAX], want[IMAGE_PLATFORM_TEXT_MAX];
    int r = image_config_parse(&job->arena, buf_str(&job->document), &job->config, e);

    if (r == 0)
        r = image_config_check(&job->config, &job->manifest, e);
    if (r < 0)
        return r;
    if (image_platform_match(&job->platform, &job->config.platform) > 0)
        return 0;
    image_platform_format(&job->config.platform, has);
    image_platform_format(&job->platform, want);
    return err_set(e, ENOEXEC, "it is made for %s, not for %s", has, want);
}

static int config_work(struct pull_work *w)
{
    struct pull_job *job = w->pull;
    struct image_digest digest;
    int r = check_document(job, &digest, &w->err);

    if (r == 0)
        r = read_config(job, &w->err);
    if (r == 0)
        r = pull_blobs(job)->put(job->session, &digest, buf_str(&job->document), &w->err);
    return r < 0 ? err_wrap(&w->err, r, "its configuration") : 0;
}

static void config_done(struct pull_work *w, int r)
{
    if (w->pull->failed)
        pull_close(w->pull);
    else if (r < 0)
        fail_early(w->pull, -r, w->err.msg);
    else
        pull_begin_layers(w->pull);
}

static void config_end(struct image_fetch *f, int error, const struct err *e)
{
    struct pull_job *job = image_fetch_user(f);

    job->fetch = NULL;
    if (error)
        fail_early(job, error, error == EFBIG ? "its configuration is too large" : e->msg);
    else
        pull_work_start(&job->work, config_work, config_done, 0);
}

static const struct image_fetch_ops config_ops = {document_start, document_body, config_end};

static void fetch_document(struct pull_job *job, const char *version, bool is_blob,
                           const struct image_fetch_ops *ops)
{
    struct image_fetch_spec spec = {
        .reference = &job->reference,
        .version = version,
        .is_blob = is_blob,
        .bytes = job->expected_bytes,
        .auth = &job->auth,
        .credentials = job->credentials.n ? buf_str(&job->credentials) : STR_NONE,
        .ops = ops,
        .user = job,
    };
    struct err e = {0};
    int r = image_fetch_start(job->puller->conf.registry, &spec, &job->fetch, &e);

    if (r < 0)
        fail_early(job, -r, e.msg);
}

static int manifest_work(struct pull_work *w)
{
    struct pull_job *job = w->pull;
    const struct image_blobs_ops *ops = pull_blobs(job);
    struct image_digest *digest = &job->result.manifest;
    const struct image_descriptor *entry;
    int r = check_document(job, digest, &w->err);

    if (r == 0 && job->content_digest[0] && strcmp(job->content_digest, digest->text) != 0 &&
        strncmp(job->content_digest, digest->text, STR("sha256:").n) == 0)
        r = err_set(&w->err, EBADMSG, "the registry calls %.19s... what it sent as %.19s...",
                    job->content_digest, digest->text);
    if (r == 0)
        r = image_manifest_parse(&job->arena, buf_str(&job->document), str_of(job->media_type),
                                 &job->manifest, &w->err);
    if (r < 0)
        return r;
    if (job->manifest.media == IMAGE_MEDIA_INDEX) {
        r = image_index_select(&job->manifest, &job->platform, &entry, &w->err);
        if (r == 0) {
            job->expected = entry->digest;
            job->expected_bytes = entry->bytes;
        }
        return r;
    }
    r = ops->put(job->session, digest, buf_str(&job->document), &w->err);
    if (r < 0)
        return r;
    job->expected = job->result.config = job->manifest.config.digest;
    job->expected_bytes = job->manifest.config.bytes;
    r = ops->has(job->session, &job->expected, &w->err);
    job->has_config = r > 0;
    if (r <= 0)
        return r;
    buf_clear(&job->document);
    r = ops->read(job->session, &job->expected, &job->document, &w->err);
    return r < 0 ? r : read_config(job, &w->err);
}

static void manifest_end(struct image_fetch *f, int error, const struct err *e);
static const struct image_fetch_ops manifest_ops = {document_start, document_body, manifest_end};

static void manifest_done(struct pull_work *w, int r)
{
    struct pull_job *job = w->pull;

    if (job->failed)
        pull_close(job);
    else if (r < 0)
        fail_early(job, -r, w->err.msg);
    else if (job->manifest.media == IMAGE_MEDIA_INDEX && ++job->indexes > INDEXES_MAX)
        fail_early(job, EPROTO, "its indexes are nested too deep");
    else if (job->manifest.media == IMAGE_MEDIA_INDEX)
        fetch_document(job, job->expected.text, false, &manifest_ops);
    else if (job->has_config)
        pull_begin_layers(job);
    else
        fetch_document(job, job->expected.text, true, &config_ops);
}

static void manifest_end(struct image_fetch *f, int error, const struct err *e)
{
    struct pull_job *job = image_fetch_user(f);

    job->fetch = NULL;
    if (error)
        fail_early(job, error, error == EFBIG ? "its manifest is too large" : e->msg);
    else
        pull_work_start(&job->work, manifest_work, manifest_done, 0);
}

/* --- what is here --- */

static int read_credentials(struct pull_job *job, struct err *e)
{
    const char *path = job->puller->conf.credentials_file;
    int r;

    if (!path || !path[0] || image_auth_is_set(&job->auth))
        return 0;
    r = io_read_file(AT_FDCWD, path, IMAGE_CREDENTIALS_BYTES_MAX, &job->credentials, e);
    if (r == -ENOENT)
        return 0;
    return r < 0 ? err_set(e, EIO, "the credentials file: %s", e->msg) : 0;
}

static int open_work(struct pull_work *w)
{
    struct pull_job *job = w->pull;
    const struct image_blobs_ops *ops = pull_blobs(job);
    int r = ops->begin(job->puller->conf.blobs.store, &job->session, &w->err);

    if (r < 0 || job->policy == IMAGE_PULL_ALWAYS)
        return r < 0 ? r : read_credentials(job, &w->err);
    r = ops->find(job->session, &job->reference, &job->platform, &job->result.manifest, &w->err);
    job->result.was_present = r > 0;
    if (r != 0)
        return r < 0 ? r : 0;
    if (job->policy == IMAGE_PULL_NEVER)
        return err_set(&w->err, ENOENT,
                       "it is not on this machine, and the policy is never to pull it");
    return read_credentials(job, &w->err);
}

static void open_done(struct pull_work *w, int r)
{
    struct pull_job *job = w->pull;

    if (job->failed || job->result.was_present)
        pull_close(job);
    else if (r < 0)
        fail_early(job, -r, w->err.msg);
    else
        fetch_document(job, image_reference_version(&job->reference), false, &manifest_ops);
}

void pull_documents_start(struct pull_job *job)
{
    job->expected = job->reference.digest;
    buf_init(&job->credentials, IMAGE_CREDENTIALS_BYTES_MAX);
    buf_init(&job->document, IMAGE_CONFIG_BYTES_MAX);
    pull_work_start(&job->work, open_work, open_done, 0);
}
