#include "api/create.h"

#include "api/requests.h"
#include "base/buf.h"

#define JSON STR("application/json")
/* What every request from an image needs; more fields go in front. */
#define REST "'image':{'uri':'python:3.11'},'entrypoint':['sh'],'resourceLimits':{}}"

enum { ROOM = 4 << 20 };

static const struct api_create_host any = {0};
static const struct api_create_host host = {.timeout_s_max = 3600};

static int create_at(struct arena *a, const struct api_create_host *at, const char *body,
                     struct api_create *ret, struct api_fail *f)
{
    *f = (struct api_fail){0};
    return api_create_parse(a, JSON, json_quoted(a, body), at, ret, f);
}

static int create(struct arena *a, const char *body, struct api_create *ret, struct api_fail *f)
{
    return create_at(a, &host, body, ret, f);
}

static void check_taken(struct arena *a, const char *body, struct api_create *ret)
{
    struct api_fail f;

    if (create(a, body, ret, &f) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", body, f.message);
}

TEST(create, reads_every_field)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a,
                "{'image':{'uri':' python:3.11 ','auth':{'username':'u','password':"
                "'p'}},'platform':{'os':' Linux ','arch':'ARM64'},'timeout':60.0,"
                "'resourceLimits':{'cpu':'500m','memory':'512Mi','what':'ever'},"
                "'env':{'A':'1','B':null,'C':''},'metadata':{'team':'a'},"
                "'entrypoint':['sh','-c',''],'networkPolicy':{'defaultAction':'deny',"
                "'egress':[{'action':'allow','target':'*.pypi.org','more':1}],"
                "'x':[]},'credentialProxy':{'enabled':true},'secureAccess':true,"
                "'extensions':{'access.renew.extend.seconds':' 300 ','other':'x'},"
                "'lifecycle':{'preStart':{'command':['true']}},"
                "'unknown':{'a':[1,2]}}",
                &c);
    CHECK(c.hooks);
    CHECK_SPAN(c.image, "python:3.11");
    CHECK_SPAN(c.auth_user, "u");
    CHECK_SPAN(c.auth_password, "p");
    CHECK_SPAN(c.snapshot_id, "");
    CHECK_SPAN(c.os, "linux");
    CHECK_SPAN(c.arch, "arm64");
    CHECK_EQ(c.timeout_s, 60);
    CHECK_EQ(c.limits.cpu_millicores, 500);
    CHECK_EQ(c.limits.memory_bytes, 512 << 20);
    CHECK_EQ(c.env_count, 2);
    CHECK_SPAN(c.env[0].key, "A");
    CHECK_SPAN(c.env[0].value, "1");
    CHECK_SPAN(c.env[1].key, "C");
    CHECK_SPAN(c.env[1].value, "");
    CHECK_EQ(c.metadata_count, 1);
    CHECK_SPAN(c.metadata[0].value, "a");
    CHECK_EQ(c.entrypoint_count, 3);
    CHECK_SPAN(c.entrypoint[1], "-c");
    CHECK(c.network_policy && c.credential_proxy && c.secure_access);
    CHECK_SPAN(c.network_policy_json, "{\"defaultAction\":\"deny\",\"egress\":[{\"action\":"
                                      "\"allow\",\"target\":\"*.pypi.org\"}]}");
    CHECK_EQ(c.renew_extend_s, 300);
    CHECK_SPAN(c.pool_ref, "");
    CHECK_EQ(c.volumes_count, 0);
}

TEST(create, takes_numbers_and_booleans_as_text)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a,
                "{'timeout':'100','secureAccess':'true','credentialProxy':{'enabled':'yes'},"
                "'networkPolicy':{}," REST,
                &c);
    CHECK_EQ(c.timeout_s, 100);
    CHECK(c.secure_access && c.credential_proxy);
}

TEST(create, takes_names_in_snake_case)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a,
                "{'image':{'uri':'a'},'entrypoint':['sh'],'resource_limits':{'cpu':'2'},"
                "'secure_access':true,'network_policy':{'default_action':'deny'},"
                "'volumes':[{'name':'v','mount_path':'/m','read_only':'yes','pvc':{"
                "'claim_name':'c','create_if_not_exists':false}}]}",
                &c);
    CHECK_EQ(c.limits.cpu_millicores, 2000);
    CHECK(c.secure_access);
    CHECK_SPAN(c.network_policy_json, "{\"defaultAction\":\"deny\",\"egress\":[]}");
    CHECK_EQ(c.volumes_count, 1);
    CHECK_SPAN(c.volumes[0].mount_path, "/m");
    CHECK(c.volumes[0].read_only && !c.volumes[0].create_if_missing);
}

TEST(create, takes_actions_in_any_case)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a,
                "{'networkPolicy':{'defaultAction':'Deny','egress':[{'action':'ALLOW',"
                "'target':'a'}]}," REST,
                &c);
    CHECK_SPAN(c.network_policy_json, "{\"defaultAction\":\"deny\",\"egress\":[{\"action\":"
                                      "\"allow\",\"target\":\"a\"}]}");
}

TEST(create, takes_null_for_absent)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a,
                "{'snapshotId':null,'platform':null,'timeout':null,'env':null,"
                "'metadata':null,'networkPolicy':null,'credentialProxy':null,"
                "'secureAccess':null,'volumes':null,'extensions':null,"
                "'lifecycle':{'preStart':null,'periodic':[]}," REST,
                &c);
    CHECK(!c.hooks);
    CHECK_EQ(c.timeout_s, 0);
    CHECK(!c.network_policy && !c.credential_proxy && !c.secure_access);
    CHECK_EQ(c.network_policy_json.n, 0);
    CHECK_EQ(c.env_count + c.metadata_count + c.volumes_count, 0);
}

TEST(create, sees_hooks_of_either_kind)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a, "{'lifecycle':{'pre_start':{'command':['true']}}," REST, &c);
    CHECK(c.hooks);
    check_taken(&a, "{'lifecycle':{'periodic':[{'command':['true']}]}," REST, &c);
    CHECK(c.hooks);
    check_taken(&a, "{'lifecycle':{}," REST, &c);
    CHECK(!c.hooks);
}

TEST(create, counts_an_empty_policy_as_one)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a, "{'networkPolicy':{}," REST, &c);
    CHECK(c.network_policy);
    CHECK_SPAN(c.network_policy_json, "{\"egress\":[]}");
}

TEST(create, gives_a_snapshot_something_to_do)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a, "{'snapshotId':'s1','image':{'uri':' '},'resourceLimits':{}}", &c);
    CHECK_SPAN(c.snapshot_id, "s1");
    CHECK_SPAN(c.image, "");
    CHECK_EQ(c.entrypoint_count, 3);
    CHECK_SPAN(c.entrypoint[0], "tail");
    CHECK_SPAN(c.entrypoint[2], "/dev/null");
    check_taken(&a, "{'snapshotId':'s1','entrypoint':['x'],'resourceLimits':{}}", &c);
    CHECK_EQ(c.entrypoint_count, 1);
}

TEST(create, needs_little_for_a_pool)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a, "{'extensions':{'poolRef':' p '}}", &c);
    CHECK_SPAN(c.pool_ref, "p");
    check_taken(&a, "{'extensions':{'poolRef':' '}," REST, &c);
    CHECK_SPAN(c.pool_ref, "");
}

#define BAD "SANDBOX::INVALID_PARAMETER"

#define REFUSES_AT(host, body, code, message)                                                      \
    do {                                                                                           \
        AUTO_ARENA(a_, ROOM);                                                                      \
        struct api_create c_;                                                                      \
        struct api_fail f_;                                                                        \
                                                                                                   \
        CHECK_EQ(create_at(&a_, host, body, &c_, &f_), -EBADMSG);                                  \
        check_refusal(__FILE__, __LINE__, &f_, code, message);                                     \
    } while (0)
#define REFUSES(body, code, message) REFUSES_AT(&host, body, code, message)

TEST(create, refuses_bad_images_and_sources)
{
    REFUSES("[]", BAD, "body: expected an object, got an array");
    REFUSES("{'image':'python'," REST, BAD, "body: line 1, column ");
    REFUSES("{'image':'python'}", BAD, "image: expected an object, got a string");
    REFUSES("{'image':{}}", BAD, "image.uri: required, but missing");
    REFUSES("{'image':{'uri':7}}", BAD, "image.uri: expected a string, got a number");
    REFUSES("{'image':{'uri':'a','auth':{'username':'u'}}}", BAD,
            "image.auth.password: required, but missing");
    REFUSES("{'image':{'uri':'a','auth':{'password':'p'}}}", BAD,
            "image.auth.username: required, but missing");
    REFUSES("{'snapshotId':1}", BAD, "snapshotId: expected a string, got a number");
    REFUSES("{'snapshotId':'s'," REST, BAD,
            "image, snapshotId: expected exactly one of them, got both");
    REFUSES("{'resourceLimits':{}}", BAD, "image, snapshotId: expected exactly one of them");
    REFUSES("{'snapshotId':' ','image':{'uri':' '},'resourceLimits':{}}", BAD,
            "image, snapshotId: expected exactly one of them (image.uri not blank), got none");
    REFUSES("{'snapshotId':'s','extensions':{'poolRef':'p'}}", BAD, "snapshotId: a sandbox of a");
}

#define SECRET_TEST "'secretEnv':{'KEY':{'value':'v','hosts':['api.test','*.x.test']}}"

TEST(create, secrets_turn_the_proxy_on_and_open_their_hosts)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    check_taken(&a, "{" SECRET_TEST "," REST, &c);
    CHECK_EQ(c.secrets.count, 1);
    CHECK_SPAN(c.secrets.rows[0].name, "KEY");
    CHECK_SPAN(c.secrets.rows[0].value, "v");
    CHECK_EQ(c.secrets.rows[0].hosts_count, 2);
    CHECK(c.credential_proxy && c.network_policy);
    CHECK_SPAN(
        c.network_policy_json,
        "{\"defaultAction\":\"allow\",\"egress\":[{\"action\":\"allow\",\"target\":\"api.test\"},"
        "{\"action\":\"allow\",\"target\":\"*.x.test\"}]}");
    check_taken(&a, "{" SECRET_TEST ",'networkPolicy':{}," REST, &c);
    CHECK_SPAN(c.network_policy_json, "{\"egress\":[]}");
    check_taken(&a, "{'secretEnv':null," REST, &c);
    CHECK(!c.secrets.count && !c.credential_proxy);
}

TEST(create, refuses_bad_secrets_without_repeating_them)
{
    struct api_create_host kept = {.secrets_kept = true};

    REFUSES("{'secretEnv':[]," REST, BAD, "secretEnv: expected an object of secrets");
    REFUSES("{'secretEnv':{'A B':{'value':'v','hosts':['h']}}," REST, BAD,
            "secretEnv: a name must");
    REFUSES("{'secretEnv':{'A':{'value':'v'}}," REST, BAD, "secretEnv: A: hosts: required");
    REFUSES("{'secretEnv':{'A':{'value':'v','hosts':[]}}," REST, BAD,
            "secretEnv: A: hosts: expected");
    REFUSES("{'secretEnv':{'A':{'value':'v\\n','hosts':['h']}}," REST, BAD,
            "secretEnv: A: value: it holds a line break");
    REFUSES("{'secretEnv':{'A':{'hosts':['h']}}," REST, BAD, "secretEnv.A.value: required");
    REFUSES_AT(&kept, "{'env':{'KEY':'x'}," SECRET_TEST "," REST, BAD,
               "secretEnv.KEY: env has the same variable");
    REFUSES("{" SECRET_TEST ",'extensions':{'poolRef':'p'}}", BAD,
            "secretEnv: a sandbox of a pool");
}

TEST(create, refuses_bad_platforms_and_timeouts)
{
    REFUSES("{'platform':{'os':'linux'}," REST, BAD, "platform.arch: required, but missing");
    REFUSES("{'platform':{'os':'plan9','arch':'amd64'}," REST, BAD,
            "platform.os: expected linux or windows, got 'plan9'");
    REFUSES("{'platform':{'os':'linux','arch':'sparc'}," REST, BAD,
            "platform.arch: expected amd64 or arm64, got 'sparc'");
    REFUSES("{'platform':{'os':1,'arch':'amd64'}," REST, BAD,
            "platform.os: expected a string, got a number");
    REFUSES("{'timeout':59," REST, BAD,
            "timeout: expected an integer from 60 to 200000000000, got 59");
    REFUSES("{'timeout':60.5," REST, BAD, "timeout: expected an integer from 60");
    REFUSES("{'timeout':'soon'," REST, BAD, "timeout: expected an integer, got a string");
    REFUSES("{'timeout':'59'," REST, BAD,
            "timeout: expected an integer from 60 to 200000000000, got 59");
    REFUSES("{'timeout':true," REST, BAD, "timeout: expected an integer from 60");
    REFUSES("{'timeout':99999999999999999999," REST, BAD, "timeout: expected an integer from 60");
    REFUSES("{'timeout':3601," REST, BAD,
            "timeout: this server allows at most 3600 seconds, got 3601");
}

TEST(create, refuses_bad_variables_and_metadata)
{
    REFUSES("{'env':[]," REST, BAD, "env: expected an object, got an array");
    REFUSES("{'env':{'A':1}," REST, BAD, "env.A: expected a string or null, got a number");
    REFUSES("{'env':{'':'x'}," REST, BAD, "env: '' is not a variable name");
    REFUSES("{'env':{'A=B':'x'}," REST, BAD, "env: 'A=B' is not a variable name");
    REFUSES("{'env':{'A=B':null}," REST, BAD, "env: 'A=B' is not a variable name");
    REFUSES("{'env':{'A':'\\u0000'}," REST, BAD, "body: strings must not hold a NUL character");
    REFUSES("{'metadata':{'a':null}," REST, BAD, "metadata.a: expected a string, got null");
    REFUSES("{'metadata':{'a b':''}," REST, "SANDBOX::INVALID_METADATA_LABEL",
            "metadata key 'a b'");
    REFUSES("{'metadata':{'a':'b\\n'}," REST, "SANDBOX::INVALID_METADATA_LABEL",
            "metadata value of 'a'");
    REFUSES("{'metadata':{'opensandbox.io/a':'b'}," REST, "SANDBOX::INVALID_METADATA_LABEL",
            "metadata key 'opensandbox.io/a': keys that begin with opensandbox.io/");
}

TEST(create, refuses_bad_entrypoints_and_limits)
{
    REFUSES("{'entrypoint':[]}", BAD, "entrypoint: expected at least 1 elements, got 0");
    REFUSES("{'entrypoint':[1]}", BAD, "entrypoint[0]: expected a string, got a number");
    REFUSES("{'entrypoint':'sh'}", BAD, "entrypoint: expected an array, got a string");
    REFUSES("{'image':{'uri':'a'},'entrypoint':[''],'resourceLimits':{}}",
            "DOCKER::INVALID_ENTRYPOINT", "entrypoint[0]: expected the name of a program");
    REFUSES("{'image':{'uri':'a'},'resourceLimits':{}}", BAD,
            "entrypoint: required with image, but missing");
    REFUSES("{'image':{'uri':'a'},'entrypoint':['sh']}", BAD,
            "resourceLimits: required, but missing");
    REFUSES("{'resourceLimits':{'cpu':1}}", BAD,
            "resourceLimits.cpu: expected a string, got a number");
    REFUSES("{'image':{'uri':'a'},'entrypoint':['sh'],'resourceLimits':{'memory':'1.5Gi'}}", BAD,
            "resourceLimits.memory: expected a whole number of bytes above 0, or one with a unit");
}

TEST(create, refuses_bad_network_policies)
{
    REFUSES("{'networkPolicy':[]," REST, BAD, "networkPolicy: expected an object, got an array");
    REFUSES("{'networkPolicy':{'defaultAction':'maybe'}," REST, BAD,
            "networkPolicy.defaultAction: expected one of allow, deny; got \"maybe\"");
    REFUSES("{'networkPolicy':{'egress':[{'action':'allow'}]}," REST, BAD,
            "networkPolicy.egress[0].target: required, but missing");
    REFUSES("{'networkPolicy':{'egress':[{'action':'allow','target':''}]}," REST, BAD,
            "networkPolicy.egress[0].target: expected at least 1 bytes, got 0");
    REFUSES("{'networkPolicy':{'egress':[{'target':'a'}]}," REST, BAD,
            "networkPolicy.egress[0].action: required, but missing");
    REFUSES("{'credentialProxy':{'enabled':'maybe'}," REST, BAD,
            "credentialProxy.enabled: expected a boolean, got a string");
    REFUSES("{'credentialProxy':{'enabled':'yes'}," REST, BAD,
            "credentialProxy: needs a networkPolicy");
    REFUSES("{'credentialProxy':{'enabled':true}," REST, BAD,
            "credentialProxy: needs a networkPolicy");
    REFUSES("{'lifecycle':'x'," REST, BAD, "lifecycle: expected an object, got a string");
    REFUSES("{'secureAccess':2," REST, BAD, "secureAccess: expected a boolean, got a number");
    REFUSES("{'credentialProxy':{'enabled':true},'extensions':{'poolRef':'p'}}", BAD,
            "credentialProxy: a sandbox of a pool");
}

TEST(create, refuses_bad_extensions)
{
    REFUSES("{'extensions':{'a':1}," REST, BAD, "extensions.a: expected a string, got a number");
    REFUSES("{'extensions':{'access.renew.extend.seconds':'299'}," REST, BAD,
            "extensions.access.renew.extend.seconds: expected a whole number of seconds from 300 "
            "to 86400");
    REFUSES("{'extensions':{'access.renew.extend.seconds':'86401'}," REST, BAD,
            "extensions.access.renew.extend.seconds: expected");
    REFUSES("{'extensions':{'access.renew.extend.seconds':''}," REST, BAD,
            "extensions.access.renew.extend.seconds: expected");
    REFUSES("{'extensions':{'access.renew.extend.seconds':'5m'}," REST, BAD,
            "extensions.access.renew.extend.seconds: expected");
}

TEST(create, never_repeats_a_secret)
{
    static const char *const bodies[] = {
        "{'image':{'uri':'a','auth':{'username':1,'password':'hunter2'}}}",
        "{'image':{'uri':'a','auth':{'username':'u','password':['hunter2']}}}",
        "{'image':{'uri':'a','auth':'hunter2'}}",
        "{'env':{'A':['hunter2']}," REST,
        "{'env':{'=':'hunter2'}," REST,
        "{'env':'hunter2'," REST,
        "{'volumes':[{'name':'v','mountPath':'/m','ossfs':{'bucket':'abc',"
        "'endpoint':'e','accessKeyId':'hunter2'}}]," REST,
        "{'volumes':[{'name':'v','mountPath':'/m','ossfs':{'bucket':'abc',"
        "'endpoint':'e','accessKeySecret':{'hunter2':1}}}]," REST,
        "{'image':{'uri':'a','auth':{'username':'u','password':'hunter2",
        "{'image':{'uri':'a','auth':{'username':'u','password':'hunter2\\x'}}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        AUTO_ARENA(a, ROOM);
        struct api_create c;
        struct api_fail f;

        CHECK_EQ(create(&a, bodies[i], &c, &f), -EBADMSG);
        if (strstr(f.message, "hunter2"))
            test_fail(__FILE__, __LINE__, "%s", f.message);
    }
}

/* {"env":{"K0":"","K1":"",...},REST with so many variables. */
static void env_of(struct buf *b, int count)
{
    buf_clear(b);
    CHECK_EQ(buf_add(b, STR("{'env':{")), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(buf_addf(b, "%s'K%d':''", i ? "," : "", i), 0);
    CHECK_EQ(buf_add(b, STR("}," REST)), 0);
}

TEST(create, has_a_ceiling_for_variables)
{
    AUTO_ARENA(a, ROOM);
    AUTO_BUF(b, 1 << 20);
    struct api_create c;
    struct api_fail f;

    env_of(&b, API_ENV_MAX);
    check_taken(&a, b.p, &c);
    CHECK_EQ(c.env_count, API_ENV_MAX);
    env_of(&b, API_ENV_MAX + 1);
    CHECK_EQ(create(&a, b.p, &c, &f), -EBADMSG);
    CHECK_STR(f.message, "env: expected at most 4096 members, got 4097");
}

TEST(create, answers_every_lack_of_memory)
{
    AUTO_ARENA(texts, ROOM);
    struct str body = json_quoted(&texts, "{'env':{'A':'1'},'networkPolicy':{},'volumes':[]," REST);
    int taken = 0;

    for (size_t room = 0; room < 64 << 10; room += 256) {
        AUTO_ARENA(a, room);
        struct api_create c;
        struct api_fail f;
        int r = api_create_parse(&a, JSON, body, &any, &c, &f);

        taken += r == 0;
        CHECK(r == 0 || f.status == 413);
    }
    CHECK(taken > 0 && taken < 256);
}

TEST(create, asks_for_json)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;
    struct api_fail f = {0};

    CHECK_EQ(api_create_parse(&a, STR("text/plain"), json_quoted(&a, "{" REST), &any, &c, &f),
             -EBADMSG);
    CHECK_STR(f.message, "body: send JSON with Content-Type: application/json");
    CHECK_EQ(api_create_parse(&a, JSON, STR_NONE, &any, &c, &f), -EBADMSG);
    CHECK_EQ(api_create_parse(&a, JSON, json_quoted(&a, "{'timeout':99999," REST), &any, &c, &f),
             0);
    CHECK_EQ(c.timeout_s, 99999); /* 0 is no limit */
}

static int no_source(void *user UNUSED, const struct api_create *spec, struct api_fail *f)
{
    if (spec->pool_ref.n || spec->snapshot_id.n)
        return api_fail_set(f, 400, "SOURCE", "none");
    return 0;
}

static int no_ability(void *user UNUSED, const struct api_create *spec UNUSED, struct api_fail *f)
{
    return api_fail_set(f, 400, "ABILITY", "none");
}

/* Each has one mistake less than the one before: the first in the order of the contract. */
TEST(create, reports_mistakes_in_the_contracts_order)
{
    static const struct api_create_host strict = {3600, no_source, no_ability, NULL};

#define TWICE                                                                                      \
    "'volumes':[{'name':'v','mountPath':'/a','pvc':{'claimName':'c'}},"                            \
    "{'name':'v','mountPath':'/b','pvc':{'claimName':'c'}}],"
#define LATE    TWICE "'timeout':9999,"
#define SYSTEM  LATE "'platform':{'os':'plan9','arch':'amd64'},"
#define LABEL   SYSTEM "'metadata':{'a b':''},"
#define RENEWAL "'extensions':{'access.renew.extend.seconds':'x','poolRef':'p'}"
    REFUSES_AT(&strict, "{" LABEL "'env':{'':''}," RENEWAL "}", BAD, "env: ");
    REFUSES_AT(&strict, "{'volumes':[{'name':'V','mountPath':'/a'}],'metadata':{'a b':''}," REST,
               "VOLUME::INVALID_NAME", "volumes[0].name: ");
    REFUSES_AT(&strict, "{" LABEL RENEWAL "}", BAD, "extensions.access.renew");
    REFUSES_AT(&strict, "{" LABEL "'extensions':{'poolRef':'p'}}", "SOURCE", "none");
    REFUSES_AT(&strict, "{" LABEL "'snapshotId':'s','entrypoint':[''],'resourceLimits':{}}",
               "SOURCE", "none");
    REFUSES_AT(&strict, "{" LABEL "'image':{'uri':'a'},'entrypoint':[''],'resourceLimits':{}}",
               "DOCKER::INVALID_ENTRYPOINT", "entrypoint[0]: ");
    REFUSES_AT(&strict, "{" LABEL REST, "SANDBOX::INVALID_METADATA_LABEL", "metadata key");
    REFUSES_AT(&strict, "{" SYSTEM REST, BAD, "platform.os: ");
    REFUSES_AT(&strict, "{" LATE REST, BAD, "timeout: ");
    REFUSES_AT(&strict, "{" TWICE REST, "ABILITY", "none");
    REFUSES("{" TWICE REST, "VOLUME::DUPLICATE_NAME", "volumes[1].name: ");
}

/* --- the writer, which must say what the parser understands --- */

TEST(create, writes_what_it_reads)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 1 << 16);
    struct json_pair env[] = {
        {STR("A"), STR("1")},
        {STR("B"), STR("") }
    };
    struct json_pair labels[] = {
        {STR("team"), STR("x")}
    };
    struct json_pair limits[] = {
        {STR("cpu"),    STR("500m") },
        {STR("memory"), STR("512Mi")}
    };
    struct json_pair extensions[] = {
        {STR("access.renew.extend.seconds"), STR("600")}
    };
    struct str entry[] = {STR("sleep"), STR("1")};
    struct api_volume volumes[] = {
        {.name = STR("data"),
         .mount_path = STR("/data"),
         .read_only = true,
         .kind = API_VOLUME_HOST,
         .host_path = STR("/srv")},
        {.name = STR("c"),
         .mount_path = STR("/c"),
         .kind = API_VOLUME_PVC,
         .claim_name = STR("claim"),
         .sub_path = STR("x")    },
    };
    struct api_create spec = {
        .image = STR("python:3"),
        .auth_user = STR("u"),
        .auth_password = STR("p"),
        .os = STR("linux"),
        .arch = STR("amd64"),
        .timeout_s = 90,
        .env = env,
        .env_count = 2,
        .metadata = labels,
        .metadata_count = 1,
        .entrypoint = entry,
        .entrypoint_count = 2,
        .network_policy_json =
            STR("{\"defaultAction\":\"deny\",\"egress\":[{\"action\":\"allow\",\"target\":\"a.b\"}]"
                "}"),
        .credential_proxy = true,
        .secure_access = true,
        .volumes = volumes,
        .volumes_count = 2,
    };
    struct api_create_maps maps = {limits, extensions, 2, 1};
    struct api_create got;
    struct api_fail f = {0};

    CHECK_EQ(api_create_write(&a, &spec, &maps, &out, NULL), 0);
    CHECK_EQ(api_create_parse(&a, STR("application/json"), buf_str(&out), &host, &got, &f), 0);
    CHECK(str_eq(got.image, spec.image));
    CHECK(str_eq(got.auth_password, spec.auth_password));
    CHECK(str_eq(got.os, spec.os) && str_eq(got.arch, spec.arch));
    CHECK_EQ(got.timeout_s, 90);
    CHECK_EQ(got.limits.cpu_millicores, 500);
    CHECK_EQ(got.limits.memory_bytes, 512 << 20);
    CHECK_EQ(got.env_count, 2);
    CHECK(str_eq(got.env[0].value, STR("1")) && got.env[1].value.n == 0);
    CHECK(str_eq(got.metadata[0].key, STR("team")));
    CHECK_EQ(got.entrypoint_count, 2);
    CHECK(str_eq(got.network_policy_json, spec.network_policy_json));
    CHECK(got.credential_proxy && got.secure_access);
    CHECK_EQ(got.renew_extend_s, 600);
    CHECK_EQ(got.volumes_count, 2);
    CHECK(got.volumes[0].read_only && str_eq(got.volumes[0].host_path, STR("/srv")));
    CHECK_EQ(got.volumes[1].kind, API_VOLUME_PVC);
    CHECK(!got.volumes[1].create_if_missing && str_eq(got.volumes[1].sub_path, STR("x")));
}

TEST(create, writes_only_what_was_given)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 1 << 16);
    struct api_create spec = {.snapshot_id = STR("s")};
    struct api_create_maps none = {0};
    struct err e = {0};

    CHECK_EQ(api_create_write(&a, &spec, &none, &out, NULL), 0);
    CHECK_STR(out.p, "{\"snapshotId\":\"s\"}");
    spec.network_policy_json = STR("{\"egress\":[{\"action\":\"maybe\",\"target\":\"x\"}]}");
    CHECK_EQ(api_create_write(&a, &spec, &none, &out, &e), -EBADMSG);
    CHECK_STR(e.msg, "networkPolicy: egress[0].action: expected one of allow, deny; got \"maybe\"");
}
