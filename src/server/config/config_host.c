/* config_host.c - lookups on the host for a configuration: usual files, home directory, our
 * programs, accounts. */
#include <errno.h>
#include <pwd.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "server/config/config_internal.h"

#define SYSTEM_FILE "/etc/opensandbox/config.toml"

static const char *home(void)
{
    const char *named = getenv("HOME");

    return named && named[0] == '/' ? named : "/root";
}

const char *config_path_resolve(struct arena *a, const char *path)
{
    bool below_home = path[0] == '~' && (path[1] == '/' || !path[1]);
    char here[PATH_MAX];

    while (path[0] == '.' && path[1] == '/')
        path += 2;
    if (below_home)
        path = arena_printf(a, "%s%s", home(), path + 1);
    else if (path[0] != '/' && getcwd(here, sizeof(here)))
        path = arena_printf(a, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path);
    return path && strlen(path) < PATH_MAX ? path : NULL;
}

const char *config_file_find(struct arena *a, const char *option, bool *ret_named)
{
    const char *variable = getenv("SANDBOX_CONFIG_PATH");
    const char *named = option ? option : variable && variable[0] ? variable : NULL;
    const char *usual[] = {config_path_resolve(a, "~/.sandbox.toml"), SYSTEM_FILE};

    *ret_named = named != NULL;
    if (named)
        return config_path_resolve(a, named);
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (usual[i] && access(usual[i], F_OK) == 0)
            return usual[i];
    return NULL;
}

/* `name` in the directory of `program`, or NULL when there is none. */
static const char *find_beside(struct arena *a, const char *program, const char *name)
{
    const char *slash = strrchr(program, '/');
    const char *found;

    if (!slash)
        return NULL;
    found = arena_printf(a, "%.*s/%s", (int)(slash - program), program, name);
    found = found ? config_path_resolve(a, found) : NULL;
    return found && access(found, X_OK) == 0 ? found : NULL;
}

/* In a build tree the programs are symbolic links in one directory, so look beside the name we were
 * called by before the file it links to. */
const char *config_program_find(struct arena *a, const char *name, const char *installed)
{
    const char *called = (const char *)getauxval(AT_EXECFN); /* the kernel stores a pointer there */
    char file[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", file, sizeof(file) - 1);
    const char *found = called ? find_beside(a, called, name) : NULL;

    if (!found && n > 0) {
        file[n] = '\0';
        found = find_beside(a, file, name);
    }
    return found ? found : installed;
}

int config_account(const struct config *config, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
    const char *name = config->server.user[0] ? config->server.user : CONFIG_USER_DEFAULT;
    struct passwd entry, *found = NULL;
    char room[4096];
    uint32_t number;

    if (str_to_u32(str_of(name), &number) == 0) {
        if (number == 0 || number == UINT32_MAX)
            return err_set(e, EINVAL,
                           "uid %u cannot be used; expected an account without privilege", number);
        *ret_uid = *ret_gid = number;
        return 0;
    }
    (void)getpwnam_r(name, &entry, room, sizeof(room), &found);
    if (!found && strcmp(name, CONFIG_USER_DEFAULT) != 0)
        return err_set(e, ENOENT, "there is no account '%s' on this host", name);
    if (found && found->pw_uid == 0)
        return err_set(e, EINVAL, "'%s' is root; expected an account without privilege", name);
    *ret_uid = found ? found->pw_uid : CONFIG_ID_DEFAULT;
    *ret_gid = found ? found->pw_gid : CONFIG_ID_DEFAULT;
    return 0;
}
