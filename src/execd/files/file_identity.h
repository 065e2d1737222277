/* file_identity.h - file access under another uid and gid: the file routes below
 * /v1/filesystem/{uid}/{gid}. A process with these ids serves each pair (file_view.h). Loop thread
 * only.
 *
 * The kernel checks every access with the ids of that process: uid, gid and the groups of the
 * account in /etc/group, none of execd's. A process of root has the workload's capabilities, any
 * other none. It has no variable but HOME, and "/" as its working directory. The first request
 * starts it. It ends after a minute without requests, when another identity needs its slot, or with
 * execd. An account whose groups or home change is another identity, so the next request uses the
 * new values. */
#pragma once

struct child_place;
struct http_req;
struct identities;
struct loop;
struct reaper;

enum { IDENTITIES_MAX = 16 }; /* at once; one with active requests is not evicted */

void identities_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                    struct identities **ret);
/* Ends all processes soon, after the last events of their streams. */
void identities_end(struct identities *all);
void identities_free(struct identities *all); /* NULL is fine; blocks until they have exited */

void identity_files(struct http_req *req); /* all file and directory routes, with streamed body */
/* The same for paths without a uid and gid, when the usual user of the sandbox is not execd's: as
 * that user, with the variables and the working directory of execd. */
void usual_files(struct http_req *req);
