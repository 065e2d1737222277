#include "api/volume.h"

#include "api/create.h"
#include "api/requests.h"

enum { ROOM = 1 << 20 };

/* Volumes are read as part of a request. */
#define BEFORE "{'image':{'uri':'a'},'entrypoint':['sh'],'resourceLimits':{},'volumes':["
#define AFTER  "]}"

static const struct api_create_host any = {0};

static int volumes(struct arena *a, const char *text, struct api_create *ret, struct api_fail *f)
{
    char body[2048];

    snprintf(body, sizeof(body), BEFORE "%s" AFTER, text);
    *f = (struct api_fail){0};
    return api_create_parse(a, STR("application/json"), json_quoted(a, body), &any, ret, f);
}

TEST(volume, reads_each_kind)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;
    struct api_fail f;

    CHECK_EQ(volumes(&a,
                     "{'name':'h','mountPath':'/in','readOnly':true,'subPath':'a/b',"
                     "'host':{'path':'/data'}},"
                     "{'name':'p-1','mountPath':'/p//','pvc':{'claimName':'claim'}},"
                     "{'name':'p-2','mountPath':'/q','subPath':null,'pvc':{'claimName'"
                     ":'claim','createIfNotExists':false,'deleteOnSandboxTermination':true,"
                     "'storageClass':null,'storage':'1.5Gi','accessModes':['RWO']}},"
                     "{'name':'o','mountPath':'/o','host':null,'ossfs':{'bucket':"
                     "'my-bucket','endpoint':'oss.example.org','options':['allow_other'],"
                     "'version':'1.0','accessKeyId':'i','accessKeySecret':'s'}}",
                     &c, &f),
             0);
    CHECK_EQ(c.volumes_count, 4);
    CHECK_EQ(c.volumes[0].kind, API_VOLUME_HOST);
    CHECK_SPAN(c.volumes[0].name, "h");
    CHECK_SPAN(c.volumes[0].mount_path, "/in");
    CHECK_SPAN(c.volumes[0].sub_path, "a/b");
    CHECK_SPAN(c.volumes[0].host_path, "/data");
    CHECK(c.volumes[0].read_only);
    CHECK_EQ(c.volumes[1].kind, API_VOLUME_PVC);
    CHECK_SPAN(c.volumes[1].mount_path, "/p");
    CHECK_SPAN(c.volumes[1].claim_name, "claim");
    CHECK(c.volumes[1].create_if_missing && !c.volumes[1].delete_with_sandbox);
    CHECK(!c.volumes[1].read_only);
    CHECK_EQ(c.volumes[1].sub_path.n, 0);
    CHECK(!c.volumes[2].create_if_missing && c.volumes[2].delete_with_sandbox);
    CHECK_EQ(c.volumes[3].kind, API_VOLUME_OSSFS);
}

#define HOST(fields)  "{'name':'v','mountPath':'/m'," fields "}"
#define PATH(path)    HOST("'host':{'path':'" path "'}")
#define NAME(name)    "{'name':'" name "','mountPath':'/m','host':{'path':'/d'}}"
#define MOUNT(path)   "{'name':'v','mountPath':'" path "','host':{'path':'/d'}}"
#define SUB(path)     HOST("'subPath':'" path "','host':{'path':'/d'}")
#define PVC(fields)   HOST("'pvc':{" fields "}")
#define OSSFS(fields) HOST("'ossfs':{" fields "}")
#define KEYS          "'accessKeyId':'i','accessKeySecret':'s'"
#define BUCKET        "'bucket':'abc','endpoint':'e'," KEYS
#define BAD           "SANDBOX::INVALID_PARAMETER"

#define REFUSES(body, code, message)                                                               \
    do {                                                                                           \
        AUTO_ARENA(a_, ROOM);                                                                      \
        struct api_create c_;                                                                      \
        struct api_fail f_;                                                                        \
                                                                                                   \
        CHECK_EQ(volumes(&a_, body, &c_, &f_), -EBADMSG);                                          \
        check_refusal(__FILE__, __LINE__, &f_, code, message);                                     \
    } while (0)

TEST(volume, refuses_bad_names_and_mount_paths)
{
    REFUSES("1", BAD, "volumes[0]: expected an object, got a number");
    REFUSES("{}", BAD, "volumes[0].name: required, but missing");
    REFUSES("{'name':'v'}", BAD, "volumes[0].mountPath: required, but missing");
    REFUSES(NAME(""), "VOLUME::INVALID_NAME", "volumes[0].name: expected 1 to 63 lower-case");
    REFUSES(NAME("A"), "VOLUME::INVALID_NAME", "");
    REFUSES(NAME("-a"), "VOLUME::INVALID_NAME", "");
    REFUSES(NAME("a\\n"), "VOLUME::INVALID_NAME", "");
    REFUSES(MOUNT(""), "VOLUME::INVALID_MOUNT_PATH",
            "volumes[0].mountPath: expected an absolute path");
    REFUSES(MOUNT("m"), "VOLUME::INVALID_MOUNT_PATH", "");
    REFUSES(MOUNT("/"), "VOLUME::INVALID_MOUNT_PATH", "");
    REFUSES(MOUNT("/a/../etc"), "VOLUME::INVALID_MOUNT_PATH", "");
    REFUSES(NAME("v") "," MOUNT("/other"), "VOLUME::DUPLICATE_NAME",
            "volumes[1].name: an earlier volume is called 'v', too");
    REFUSES(NAME("v") "," NAME("w"), "VOLUME::INVALID_MOUNT_PATH",
            "volumes[1].mountPath: an earlier volume is mounted there, too");
}

TEST(volume, refuses_bad_host_and_sub_paths)
{
    REFUSES(SUB("/a"), "VOLUME::INVALID_SUB_PATH", "volumes[0].subPath: expected a relative path");
    REFUSES(SUB(".."), "VOLUME::INVALID_SUB_PATH", "");
    REFUSES(SUB("a/../b"), "VOLUME::INVALID_SUB_PATH", "");
    REFUSES(SUB("a/.."), "VOLUME::INVALID_SUB_PATH", "");
    REFUSES(HOST("'readOnly':false"), "VOLUME::INVALID_BACKEND",
            "volumes[0]: expected exactly one of host, pvc, ossfs, got 0");
    REFUSES(HOST("'host':{'path':'/d'},'pvc':{'claimName':'c'}"), "VOLUME::INVALID_BACKEND",
            "volumes[0]: expected exactly one of host, pvc, ossfs, got 2");
    REFUSES(HOST("'host':{}"), BAD, "volumes[0].host.path: required, but missing");
    REFUSES(PATH(""), "VOLUME::INVALID_HOST_PATH",
            "volumes[0].host.path: expected an absolute path");
    REFUSES(PATH("data"), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("C:\\\\data"), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("/data/../etc"), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("/.."), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("/data/./x"), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("/data//x"), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("//data"), "VOLUME::INVALID_HOST_PATH", "");
    REFUSES(PATH("/data/"), "VOLUME::INVALID_HOST_PATH", "");
}

TEST(volume, refuses_bad_claims)
{
    REFUSES(PVC(""), BAD, "volumes[0].pvc.claimName: required, but missing");
    REFUSES(PVC("'claimName':'A'"), "VOLUME::INVALID_PVC_NAME",
            "volumes[0].pvc.claimName: expected 1 to 253 lower-case");
    REFUSES(PVC("'claimName':'c','createIfNotExists':'perhaps'"), BAD,
            "volumes[0].pvc.createIfNotExists: expected a boolean");
    REFUSES(PVC("'claimName':'c','storage':'big'"), BAD, "volumes[0].pvc.storage: expected a quan");
    REFUSES(PVC("'claimName':'c','storage':''"), BAD, "volumes[0].pvc.storage: ");
    REFUSES(PVC("'claimName':'c','storage':'1.Gi'"), BAD, "volumes[0].pvc.storage: ");
    REFUSES(PVC("'claimName':'c','storage':'1.5.5'"), BAD, "volumes[0].pvc.storage: ");
    REFUSES(PVC("'claimName':'c','storage':'5G'"), BAD, "volumes[0].pvc.storage: ");
    REFUSES(PVC("'claimName':'c','accessModes':'RWO'"), BAD, "volumes[0].pvc.accessModes: ");
}

TEST(volume, refuses_bad_buckets)
{
    REFUSES(OSSFS("'bucket':'ab','endpoint':'e'," KEYS), "VOLUME::INVALID_OSSFS_BUCKET",
            "volumes[0].ossfs.bucket: expected 3 to 63");
    REFUSES(OSSFS("'bucket':'a;b','endpoint':'e'," KEYS), "VOLUME::INVALID_OSSFS_BUCKET", "");
    REFUSES(OSSFS("'bucket':'abc','endpoint':''," KEYS), "VOLUME::INVALID_OSSFS_ENDPOINT", "");
    REFUSES(OSSFS("'bucket':'abc','endpoint':'$(x)'," KEYS), BAD, "volumes[0]: ossfs.endpoint and");
    REFUSES(OSSFS("'bucket':'abc'," KEYS), BAD, "volumes[0].ossfs.endpoint: required, but missing");
    REFUSES(OSSFS(BUCKET ",'version':'3.0'"), "VOLUME::INVALID_OSSFS_VERSION", "");
    REFUSES(OSSFS(BUCKET ",'options':[' ']"), "VOLUME::INVALID_OSSFS_OPTION",
            "volumes[0].ossfs.options[0]: expected an option without leading '-'");
    REFUSES(OSSFS(BUCKET ",'options':['a','-o']"), "VOLUME::INVALID_OSSFS_OPTION",
            "volumes[0].ossfs.options[1]");
    REFUSES(OSSFS(BUCKET ",'options':['a`b']"), BAD, "volumes[0].ossfs.options[0]: must not hold");
    REFUSES(OSSFS("'bucket':'abc','endpoint':'e','accessKeyId':'i'"),
            "VOLUME::INVALID_OSSFS_CREDENTIALS",
            "volumes[0].ossfs: both accessKeyId and accessKeySecret");
    REFUSES(OSSFS("'bucket':'abc','endpoint':'e','accessKeyId':'','accessKeySecret':'s'"),
            "VOLUME::INVALID_OSSFS_CREDENTIALS", "");
}

TEST(volume, takes_what_only_looks_odd)
{
    static const char *const good[] = {
        MOUNT("/a b"),
        MOUNT("/..a"),
        SUB(""),
        SUB("..a"),
        SUB("a/./b"),
        PATH("/"),
        PATH("/..a/b"),
        PVC("'claimName':'c','storage':'10'"),
        OSSFS(BUCKET ",'options':null"),
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        AUTO_ARENA(a, ROOM);
        struct api_create c;
        struct api_fail f;

        if (volumes(&a, good[i], &c, &f) < 0)
            test_fail(__FILE__, __LINE__, "%s: %s", good[i], f.message);
    }
}
