/* objects.h - volumes of object storage (S3): a FUSE file system that a program outside the sandbox
 * serves, s3fs or ossfs.
 *
 * The program runs before there is a sandbox, so that a slow or wrong endpoint holds up no worker:
 *
 *   worker    BROKER_OBJECTS: forks a watch process; the caller gets one end of a socket
 *   watch     starts the program in namespaces of its own and waits for it
 *   program   looks at the bucket, then asks "fusermount" to mount: that is our own program
 *             (objects_fusermount_main), which tells the watch OBJECTS_READY and waits
 *   worker    BROKER_SPAWN with that socket in place of a volume: objects_mount() makes a FUSE
 *             mount in the sandbox's user namespace, notes the program in the slot's directory, and
 *             sends /dev/fuse over the socket; the watch passes it on to "fusermount", and ends
 *
 * The mount belongs to the sandbox's user namespace, so ids need no mapping. It vanishes with the
 * sandbox's mount namespace, and the program with it. A program that dies leaves ENOTCONN inside.
 * A request that it does not answer cannot be interrupted: before a sandbox is killed its programs
 * are (objects_kill). */
#pragma once

#include "sandbox/slot.h"
#include "sandbox/spawn.h"

enum {
    OBJECTS_ARGS_MAX = 64,
    OBJECTS_TEXT_MAX = 8192,
    OBJECTS_KEY_MAX = 1024,
    OBJECTS_READY_MS_MAX = 30 * 1000, /* for the program to see the bucket */
    OBJECTS_TAKE_MS_MAX = 60 * 1000,  /* from then until a sandbox takes it */
    OBJECTS_STEP_MS_MAX = 5 * 1000,
    OBJECTS_TMP_BYTES = 256 << 20, /* what the program holds of files that are open */
};

enum objects_program { OBJECTS_S3FS, OBJECTS_OSSFS, OBJECTS_PROGRAM_COUNT };

/* What the caller asks for. The program gets these arguments after its name; its key file is
 * OBJECTS_KEY_PATH, its mount point OBJECTS_MOUNT_POINT. */
struct objects_spec {
    uint32_t program; /* enum objects_program */
    uint32_t arg_count;
    uint32_t text_bytes;
    char text[OBJECTS_TEXT_MAX]; /* arguments: NUL-terminated strings, back to back */
    char key[OBJECTS_KEY_MAX];   /* contents of the key file, NUL-terminated */
};
enum { OBJECTS_FD = 3 }; /* the socket, in the program */
#define OBJECTS_KEY_PATH    "/run/key"
#define OBJECTS_MOUNT_POINT "/mnt"

/* Its path on this host; NULL when it is not installed. */
const char *objects_program_path(enum objects_program program);
int objects_spec_check(const struct objects_spec *spec, struct err *e);

enum objects_said {
    OBJECTS_READY = 1, /* watch to caller: the program waits for its mount */
    OBJECTS_FAILED,    /* watch to caller: it ended, see err */
    OBJECTS_MOUNT,     /* worker to watch, with /dev/fuse */
    OBJECTS_HELPER,    /* watch to worker: see helper */
    OBJECTS_GO,        /* worker to watch: the helper is noted */
};
struct objects_message {
    uint32_t said; /* enum objects_said */
    struct slot_owner helper;
    struct err err;
};

/* Starts the program. *ret_sock is for objects_fusermount_main, *ret_output what the program
 * prints. The program outlives this process. */
int objects_start(const struct host *host, const struct objects_spec *spec, struct proc *ret_proc,
                  int *ret_sock, int *ret_output, struct err *e);
/* Passes /dev/fuse on to the program. */
int objects_pass(int sock, int fuse, struct err *e);
/* Makes the mount for a slot, over the socket of a watch. Returns it, detached. */
int objects_mount(const struct spawn_slot *slot, int sock, bool read_only, struct err *e);
/* Kills the programs that the slot's directory names. */
void objects_kill(int slot_dir);

/* Whether this program was started under a name of fusermount; then it is to call the other. */
bool objects_is_fusermount(const char *argv0);
int objects_fusermount_main(void);
