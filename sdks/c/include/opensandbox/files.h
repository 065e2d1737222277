/* files.h - files and directories of a sandbox: read, write, trees, watch. */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- what is there --- */

/* Answers of info, list and search have files. */
struct osb_file;
size_t osb_file_count(const struct osb_answer *answer);
const struct osb_file *osb_file_at(const struct osb_answer *answer, size_t index); /* or NULL */
const char *osb_file_path(const struct osb_file *file);
const char *osb_file_type(const struct osb_file *file); /* file, directory, symlink, other */
int64_t osb_file_size(const struct osb_file *file);
unsigned osb_file_mode(const struct osb_file *file); /* 0644 */
const char *osb_file_owner(const struct osb_file *file);
const char *osb_file_group(const struct osb_file *file);
int64_t osb_file_modified_us(const struct osb_file *file); /* microseconds since 1970 */
const char *osb_file_json(const struct osb_file *file);

int osb_files_info(struct osb_sandbox *sandbox, const char *const *paths, size_t path_count,
                   struct osb_answer **ret_answer);
/* depth: how many levels; 0 = 1. */
int osb_files_list(struct osb_sandbox *sandbox, const char *path, unsigned depth,
                   struct osb_answer **ret_answer);
/* pattern: "*.py", "src/" and so on; NULL = every file. */
int osb_files_search(struct osb_sandbox *sandbox, const char *path, const char *pattern,
                     struct osb_answer **ret_answer);

/* --- reading --- */

struct osb_read {
    size_t size;
    const char *range;              /* "bytes=0-99"; or: */
    int64_t first_line, line_count; /* from 1 */
};
#define OSB_READ .size = sizeof(struct osb_read)

/* Pieces of the file go to `sink`, however long it is. `read` may be NULL. */
int osb_file_read(struct osb_sandbox *sandbox, const char *path, const struct osb_read *read,
                  osb_sink_fn *sink, void *user);
/* All of it, as the body of the answer: at most 64 MiB. */
int osb_file_get(struct osb_sandbox *sandbox, const char *path, const struct osb_read *read,
                 struct osb_answer **ret_answer);

/* --- writing --- */

struct osb_upload {
    const char *path;
    unsigned mode; /* 0644; 0 = what the sandbox chooses */
    const char *owner, *group;
    const void *data; /* this, or a source, or a file of this machine */
    size_t data_bytes;
    osb_source_fn *source;
    void *user;             /* of the source */
    const char *local_path; /* opened when its turn comes */
};

/* Many files with one request. Directories above them are made. */
int osb_files_upload(struct osb_sandbox *sandbox, const struct osb_upload *uploads, size_t count);
/* One file out of memory. */
int osb_file_put(struct osb_sandbox *sandbox, const char *path, const void *data, size_t bytes,
                 unsigned mode);

/* --- changing --- */

struct osb_permission {
    const char *path;
    unsigned mode; /* 0755; 0 = leave it */
    const char *owner, *group;
};

struct osb_move {
    const char *from, *to;
};

struct osb_replace {
    const char *path, *old_text, *new_text;
};

int osb_files_remove(struct osb_sandbox *sandbox, const char *const *paths, size_t path_count);
int osb_directories_remove(struct osb_sandbox *sandbox, const char *const *paths,
                           size_t path_count);
int osb_directories_make(struct osb_sandbox *sandbox, const struct osb_permission *directories,
                         size_t count);
int osb_files_chmod(struct osb_sandbox *sandbox, const struct osb_permission *permissions,
                    size_t count);
int osb_files_move(struct osb_sandbox *sandbox, const struct osb_move *moves, size_t count);
/* The answer has "\"/path\".replacedCount"; it may be NULL. */
int osb_files_replace(struct osb_sandbox *sandbox, const struct osb_replace *replaces, size_t count,
                      struct osb_answer **ret_answer);

/* --- archives of directories, as tar --- */

int osb_archive_read(struct osb_sandbox *sandbox, const char *path, osb_sink_fn *sink, void *user);
int osb_archive_write(struct osb_sandbox *sandbox, const char *path, osb_source_fn *source,
                      void *user);

/* --- whole directories --- */

struct osb_tree {
    size_t size;
    /* After each entry: its path below the root, and its bytes. Not 0 ends the call. */
    int (*on_entry)(void *user, const char *path, int64_t bytes);
    void *user;
};
#define OSB_TREE .size = sizeof(struct osb_tree)

/* What is in the local directory comes into the one of the sandbox, which is made; and the other
 * way round. Files replace files. Links stay links and are not followed; devices, sockets and FIFOs
 * are left out; owners are not kept. `tree` may be NULL. */
int osb_tree_upload(struct osb_sandbox *sandbox, const char *local, const char *path,
                    const struct osb_tree *tree);
int osb_tree_download(struct osb_sandbox *sandbox, const char *path, const char *local,
                      const struct osb_tree *tree);

/* --- watching --- */

enum osb_change {
    OSB_CHANGE_READY, /* all is being watched */
    OSB_CHANGE_CREATE,
    OSB_CHANGE_MODIFY,
    OSB_CHANGE_DELETE,
    OSB_CHANGE_MOVE,
    OSB_CHANGE_OVERFLOW, /* some was missed: look at everything again */
};

/* path is absolute; from is where it was before a move, else NULL. Not 0 ends the watch. */
typedef int osb_change_fn(void *user, enum osb_change change, const char *path, const char *from,
                          bool is_directory);
/* Until on_change ends it, then 0; or the directory is gone, then -ENOENT. */
int osb_files_watch(struct osb_sandbox *sandbox, const char *path, bool recursive,
                    osb_change_fn *on_change, void *user);

#ifdef __cplusplus
}
#endif
