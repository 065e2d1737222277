/* file_identity.h - files as someone else: the routes of files below /v1/filesystem/{uid}/{gid},
 * each pair of numbers served by a process that has become them (file_view.h). Loop thread only.
 *
 * The kernel judges every step by who that process is: uid, gid, the groups that /etc/group gives
 * the account, nothing of ours. It has no capability, but as root those of the workload; no
 * variable but HOME; and "/" for its working directory. It is started by the first request, and
 * ends when none came for a minute, when another identity needs its place, or with us. An account
 * whose groups or home change is another identity: the next request sees what holds then. */
#pragma once

struct child_place;
struct http_req;
struct identities;
struct loop;
struct reaper;

enum { IDENTITIES_MAX = 16 }; /* at once; one that is at work keeps its place */

void identities_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                    struct identities **ret);
/* Their streams, with their last events, and then themselves, soon. */
void identities_end(struct identities *all);
void identities_free(struct identities *all); /* NULL is fine; waits until they have ended */

void identity_files(struct http_req *req); /* all of files and directories, the body streamed */
