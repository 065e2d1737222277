/* table.c - every command of osb. The rows are all there is to say about parsing, help, completion
 * and the manual. */
#include "osb/commands.h"

#define OPTIONS(...)                                                                               \
    (const struct option[])                                                                        \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

const struct option help_options[] = {
    {"help",       'h', OPTION_FLAG, 0, NULL, "Show this message and exit."},
    {0}
};
const struct option output_options[] = {
    {"output",     'o', OPTION_TEXT, 0, "FORMAT", "Output format."},
    {0}
};

const struct option root_options[] = {
    {"api-key",                                       0, OPTION_TEXT, 0, "KEY", "API key [OPEN_SANDBOX_API_KEY]."},
    {"domain",                                    0, OPTION_TEXT, 0, "HOST:PORT", "Address of the server [OPEN_SANDBOX_DOMAIN]."},
    {"protocol",                                          0, OPTION_CHOICE, 0, "http|https", "Protocol [OPEN_SANDBOX_PROTOCOL]."},
    {"request-timeout",                                               0, OPTION_INT, 0, "SECONDS",
     "Time limit of a request [OPEN_SANDBOX_REQUEST_TIMEOUT].", 0, 2000000},
    {"use-server-proxy",           0, OPTION_FLAG, 0, NULL,
     "Reach sandboxes through the server [OPEN_SANDBOX_USE_SERVER_PROXY]."},
    {"config",                                              0, OPTION_TEXT, 0, "PATH", "Config file instead of ~/.opensandbox/config.toml."},
    {"output", 'o', OPTION_TEXT, 0, "FORMAT", "Output format of commands that have it."},
    {"verbose",                                      'v', OPTION_FLAG, 0, NULL, "Say more."},
    {"no-color",                                  0, OPTION_FLAG, 0, NULL, "Plain output."},
    {"version",                                   0, OPTION_FLAG, 0, NULL, "Show the version and exit."},
    {"help",                                               'h', OPTION_FLAG, 0, NULL, "Show this message and exit."},
    {0}
};

const struct group group_table[] = {
    {"sandbox",                     "Make, show and end sandboxes."                },
    {"command",                     "Run commands in a sandbox."                   },
    {"command session",             "Shells that keep their state from run to run."},
    {"file",                        "Files and directories of a sandbox."          },
    {"egress",                      "What a sandbox may reach."                    },
    {"credential-vault",            "Secrets that a sandbox uses and never sees."  },
    {"credential-vault credential", "The credentials of a vault."                  },
    {"credential-vault binding",    "Which requests get which credential."         },
    {"diagnostics",                 "Logs and events of a sandbox, by scope."      },
    {"pool",                        "Sandboxes made ahead."                        },
    {"devops",                      "Diagnostics as plain text, as it was before." },
    {"snapshot",                    "States of sandboxes, to start others from."   },
    {"template",                    "Golden images that a server builds."          },
    {"image",                       "Images that the server keeps."                },
    {"volume",                      "Directories that outlive sandboxes."          },
    {"tenant",                      "Teams that share a server, and their quotas." },
    {"key",                         "API keys: who may do what."                   },
    {"audit",                       "The record of what was asked of the server."  },
    {"config",                      "Settings of this tool."                       },
    {"skills",                      "Instructions for coding assistants."          },
};
const size_t group_count = ARRAY_LEN(group_table);

#define TABLE_JSON_YAML "table json yaml"

/* What makes a sandbox, the same for `sandbox create` and `run`. */
#define CREATE_OPTIONS(image_letter, timeout_letter)                                               \
    {"image", image_letter, OPTION_TEXT,                                                           \
     0,       "IMAGE",      "Image, such as python:3.12 [defaults.image]."},                       \
        {"image-auth-username", 0, OPTION_TEXT, 0, "TEXT", "User for a private image."},           \
        {"image-auth-password", 0, OPTION_TEXT, 0, "TEXT", "Password or token for it."},           \
        {"snapshot-id", 0, OPTION_TEXT, 0, "ID", "Start from a snapshot instead of an image."},    \
        {"pool", 0, OPTION_TEXT, 0, "NAME", "Take one that a pool made ahead."},                   \
        {"timeout", timeout_letter, OPTION_LIFETIME, 0, "DURATION", "Lifetime: 10m, 1h, none."},   \
        {"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},           \
        {"metadata", 'm', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Label."},                     \
        {"extension", 0, OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Extension parameter."},        \
        {"resource", 0, OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Limit: cpu=1, memory=2Gi."},    \
        {"entrypoint", 0, OPTION_TEXT, OPTION_REPEATS, "WORD", "A word of the entrypoint."},       \
        {"network-policy-file", 0, OPTION_FILE, 0, "FILE", "Egress policy, as JSON."},             \
        {"credential-proxy", 0, OPTION_FLAG, 0, NULL, "Allow the credential vault."},              \
        {"secret", 0, OPTION_TEXT, OPTION_REPEATS, "NAME[=FILE]@HOST", "Secret for hosts only."},  \
        {"volumes-file", 0, OPTION_FILE, 0, "FILE", "Volumes, as a JSON array."},                  \
        {"volume",       'v',                                                                      \
         OPTION_TEXT,    OPTION_REPEATS,                                                           \
         "FROM:TO[:ro]", "Mount a host path or a named volume."},                                  \
        {"persistent", 0, OPTION_FLAG, 0, NULL, "Keep its files when it is stopped."},             \
        {"pull", 0, OPTION_CHOICE, 0, "IfNotPresent|Always|Never", "When to pull the image."},     \
        {"secure-access", 0, OPTION_FLAG, 0, NULL, "Endpoints want a token of their own."},        \
        {"skip-health-check", 0, OPTION_FLAG, 0, NULL, "Do not wait until it is ready."},          \
    {                                                                                              \
        "ready-timeout", 0, OPTION_DURATION, 0, "DURATION", "How long to wait until it is ready."  \
    }

#define LIST_OPTIONS                                                                               \
    OPTIONS({"state", 's', OPTION_TEXT, OPTION_REPEATS, "STATE", "Only those in this state."},     \
            {"metadata", 'm', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Only with this label."},  \
            {"page", 0, OPTION_INT, 0, "N", "Which page.", 1},                                     \
            {"page-size", 0, OPTION_INT, 0, "N", "Sandboxes per page.", 1},                        \
            {"quiet", 'q', OPTION_FLAG, 0, NULL, "Print the ids only, of all pages."})

#define OWNER_OPTIONS                                                                              \
    {"owner", 0, OPTION_TEXT, 0, "USER", "Owner."},                                                \
    {                                                                                              \
        "group", 0, OPTION_TEXT, 0, "GROUP", "Group."                                              \
    }

#define SCOPE_OPTIONS                                                                              \
    OPTIONS({"scope", 's', OPTION_TEXT, OPTION_REQUIRED, "SCOPE",                                  \
             "container, lifecycle, runtime, all."})

#define INSIDE_OPTIONS                                                                             \
    {"interactive", 'i', OPTION_FLAG, 0, NULL, "Pass standard input on."},                         \
        {"tty", 't', OPTION_FLAG, 0, NULL, "A terminal. Ctrl-P Ctrl-Q detaches."},                 \
        {"workdir", 'w', OPTION_TEXT, 0, "DIR", "Working directory."},                             \
        {"uid", 'u', OPTION_INT, 0, "UID", "User of the command."},                                \
    {                                                                                              \
        "command-timeout", 0, OPTION_DURATION, 0, "DURATION", "Time limit of the command."         \
    }

#define SKILL_OPTIONS                                                                              \
    {"target",                                                                                     \
     't',                                                                                          \
     OPTION_CHOICE,                                                                                \
     0,                                                                                            \
     "claude|cursor|codex|copilot|windsurf|cline|opencode|all",                                    \
     "Assistant that reads it."},                                                                  \
    {                                                                                              \
        "scope", 0, OPTION_CHOICE, 0, "project|global", "This directory, or the home directory."   \
    }

#define QUOTA_OPTIONS                                                                              \
    OPTIONS({"sandboxes", 0, OPTION_INT, 0, "N", "At most so many sandboxes."},                    \
            {"cpu", 0, OPTION_TEXT, 0, "CPUS", "CPUs of all together: 16, 500m."},                 \
            {"memory", 0, OPTION_TEXT, 0, "SIZE", "Memory of all together: 64Gi."},                \
            {"disk", 0, OPTION_TEXT, 0, "SIZE", "Disk of all together: 1Ti."},                     \
            {"creates-per-minute", 0, OPTION_INT, 0, "N", "Sandboxes made in a minute."},          \
            {"requests-per-second", 0, OPTION_INT, 0, "N", "Requests in a second."})

#define AUDIT_OPTIONS                                                                              \
    OPTIONS({"principal", 0, OPTION_TEXT, 0, "TEXT", "Only of this principal: key:0123456789ab."}, \
            {"tenant", 0, OPTION_TEXT, 0, "NAME", "Only of this tenant."},                         \
            {"method", 0, OPTION_TEXT, 0, "METHOD", "Only with this method."},                     \
            {"route", 0, OPTION_TEXT, 0, "ROUTE", "Only of this route: /v1/sandboxes."},           \
            {"target", 0, OPTION_TEXT, 0, "ID", "Only about this id or name."},                    \
            {"outcome", 0, OPTION_CHOICE, 0, "success|refused|failed", "Only with this end."},     \
            {"since", 0, OPTION_TEXT, 0, "TIME", "Only from this time on."},                       \
            {"until", 0, OPTION_TEXT, 0, "TIME", "Only up to this time."},                         \
            {"limit", 'n', OPTION_INT, 0, "N", "At most so many.", 1, 1000})

#define PAGE_OPTIONS(what)                                                                         \
    OPTIONS({"page", 0, OPTION_INT, 0, "N", "Which page.", 1},                                     \
            {"page-size", 0, OPTION_INT, 0, "N", what " per page.", 1})
#define CAPACITY_OPTIONS                                                                           \
    {"file", 'f', OPTION_FILE, 0, "FILE", "The request as JSON instead; - is standard input."},    \
        {"buffer-min", 0, OPTION_INT, 0, "N", "At least so many wait: 1."},                        \
        {"buffer-max", 0, OPTION_INT, 0, "N", "At most so many wait: 2."},                         \
        {"pool-min", 0, OPTION_INT, 0, "N", "At least so many with those in use: 0."},             \
    {                                                                                              \
        "pool-max", 0, OPTION_INT, 0, "N", "At most so many with those in use: 10."                \
    }
#define MEMORY_OPTION                                                                              \
    {                                                                                              \
        "memory", 0, OPTION_FLAG, 0, NULL, "With its processes, as they run; on gVisor only."      \
    }
#define VAULT_FILE_OPTION                                                                          \
    OPTIONS({"file", 0, OPTION_TEXT, OPTION_REQUIRED, "FILE",                                      \
             "A JSON or YAML object; - is standard input."})

/* clang-format would align columns that are pages wide. */
/* clang-format off */
const struct command command_table[] = {
    {"run", "[COMMAND...]", NULL, "Run a command in a new sandbox.", run_new,
     OPTIONS(CREATE_OPTIONS(0, 0), {"rm", 0, OPTION_FLAG, 0, NULL, "End the sandbox afterwards."},
     INSIDE_OPTIONS),
     COMMAND_TAIL,
     "osb run --rm --image python:3.12 -- python -c 'print(6 * 7)'\n"
     "osb run --rm -it -v data:/data\n"
     "osb run -e TOKEN=x --timeout 1h -- make test\n"},
    {"exec", "ID COMMAND...", NULL, "Run a command in a sandbox.", run_exec,
     OPTIONS({"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},
     INSIDE_OPTIONS),
     COMMAND_TAIL,
     "osb exec ID ls -l /tmp\n"
     "osb exec -it ID bash\n"
     "tar c . | osb exec -i ID tar x -C /work\n"},
    {"shell", "ID", NULL, "A terminal in a sandbox. Ctrl-P Ctrl-Q detaches.", run_shell,
     OPTIONS({"attach", 'a', OPTION_TEXT, 0, "TERMINAL", "Come back to one that was left."},
     {"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},
     {"workdir", 'w', OPTION_TEXT, 0, "DIR", "Working directory."}),
     0,
     "osb shell ID\n"
     "osb shell ID --attach TERMINAL\n"},
    {"ps", "", TABLE_JSON_YAML, "List sandboxes.", sandbox_list, LIST_OPTIONS, 0,
     "osb ps -m team=a\n"
     "osb sandbox kill $(osb ps -q)\n"},
    {"cp", "FROM TO", TABLE_JSON_YAML, "Copy files or directories: one of both is ID:/path.", copy,
     NULL, 0,
     "osb cp ./src ID:/work/src\n"
     "osb cp ID:/work/report.pdf .\n"},
    {"logs", "ID [EXECUTION]", NULL, "Logs of a sandbox, or of a background command in it.", logs,
     OPTIONS({"follow", 'f', OPTION_FLAG, 0, NULL, "Go on until the end, or Ctrl-C."},
             {"scope", 's', OPTION_TEXT, 0, "SCOPE", "Scope of a sandbox's logs: container."}),
     0,
     "osb logs -f ID\n"
     "osb logs -f ID EXECUTION\n"},
    {"top", "", NULL, "What running sandboxes use, every second.", top,
     OPTIONS({"once", 0, OPTION_FLAG, 0, NULL, "Only once."}), 0,
     "osb top\n"},
    {"code", "ID", NULL, "Run code in a sandbox; without -c and -f, what is typed.", code,
     OPTIONS({"language", 'l', OPTION_TEXT, 0, "NAME", "python, javascript, bash and so on."},
             {"code", 'c', OPTION_TEXT, 0, "CODE", "This code."},
             {"file", 'f', OPTION_FILE, 0, "FILE", "The code of this file."},
             {"timeout", 't', OPTION_DURATION, 0, "DURATION", "Time limit of a cell."},
             {"workdir", 'w', OPTION_TEXT, 0, "DIR", "Working directory."}),
     0,
     "osb code ID\n"
     "osb code ID -l javascript -c '[1, 2].map(x => x * 2)'\n"},
    {"port-forward", "ID PORT", NULL, "A local port, or LOCAL:REMOTE, that leads into a sandbox.",
     port_forward, NULL, 0,
     "osb port-forward ID 8000\n"
     "osb port-forward ID 9000:80\n"},
    {"open", "ID PORT", TABLE_JSON_YAML,
     "Print the address of a port of a sandbox, and open it in the browser.", open_port,
     OPTIONS({"print", 0, OPTION_FLAG, 0, NULL, "Only print it."},
             {"signed", 0, OPTION_DURATION, 0, "DURATION",
              "One that carries its permission, valid so long."}),
     0,
     "osb open ID 8000\n"
     "osb open ID 8000 --print --signed 1h\n"},
    {"sync", "LOCAL REMOTE", NULL,
     "Keep a local directory and ID:/path alike while both change, until Ctrl-C.", sync_command,
     OPTIONS({"once", 0, OPTION_FLAG, 0, NULL, "Make them alike, and end."},
             {"exclude", 'x', OPTION_TEXT, OPTION_REPEATS, "PATTERN",
              "Leave out names or paths: .git, *.o, build/cache."},
             {"delete", 0, OPTION_FLAG, 0, NULL,
              "At first, delete what is only in the sandbox instead of copying it here."}),
     0,
     "osb sync . ID:/work -x .git -x '*.o'\n"},
    {"fork", "ID", TABLE_JSON_YAML, "Make copies of a running sandbox.", rest_command,
     OPTIONS({"count", 'n', OPTION_INT, 0, "N", "How many.", 1, 100},
             {"timeout", 't', OPTION_DURATION, 0, "DURATION", "Lifetime of the copies."},
             MEMORY_OPTION,
             {"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},
             {"metadata", 'm', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Label."}),
     0,
     "osb fork ID -n 10 -t 30m\n"},
    {"rollback", "ID SNAPSHOT", TABLE_JSON_YAML, "Put a sandbox back to a snapshot, in place.",
     rest_command, NULL, 0,
     "osb rollback ID SNAPSHOT\n"},
    {"watch", "ID PATH", NULL, "Print what changes below a directory.", file_watch, NULL, 0,
     "osb watch ID /work\n"},
    {"doctor", "", TABLE_JSON_YAML, "What is wrong, and how to mend it.", doctor, NULL,
     COMMAND_OFFLINE},
    {"up", "", TABLE_JSON_YAML, "Start a server on this machine if none answers.", up,
     OPTIONS({"program", 0, OPTION_TEXT, 0, "PATH", "Program instead of opensandbox-server."},
     {"server-config", 0, OPTION_FILE, 0, "FILE", "Config file of the server."},
     {"log", 0, OPTION_TEXT, 0, "FILE", "Log instead of /var/log/opensandbox-server.log."}),
     0,
     "sudo osb up\n"},
    {"completion", "SHELL", NULL, "A completion script: bash, zsh, fish; or man, the manual.",
     completion, NULL, COMMAND_OFFLINE,
     "source <(osb completion bash)\n"
     "osb completion fish > ~/.config/fish/completions/osb.fish\n"},

    {"sandbox create", "", TABLE_JSON_YAML, "Create a sandbox.", sandbox_create,
     OPTIONS(CREATE_OPTIONS('i', 't'),
             {"template", 0, OPTION_TEXT, 0, "ID", "Start from a template instead of an image."},
             {"file", 'f', OPTION_FILE, 0, "FILE", "The request as JSON instead of options."},
             {"idempotency-key", 0, OPTION_TEXT, 0, "KEY",
             "Repeated with the same key, it makes no second one."},
            {"quiet", 'q', OPTION_FLAG, 0, NULL, "Print the id only."}),
     0,
     "osb sandbox create --image python:3.12 -t 1h -q\n"
     "osb sandbox create --snapshot-id SNAPSHOT -e A=1\n"
     "osb sandbox create --pool NAME -o json\n"},
    {"sandbox list", "", TABLE_JSON_YAML, "List sandboxes.", sandbox_list, LIST_OPTIONS, 0,
     "osb sandbox list -s Running -m team=a -o json\n"},
    {"sandbox get", "ID", TABLE_JSON_YAML, "Show a sandbox.", sandbox_get, NULL, 0},
    {"sandbox kill", "ID...", TABLE_JSON_YAML, "End sandboxes.", sandbox_kill, NULL, 0,
     "osb sandbox kill $(osb ps -q -m team=a)\n"},
    {"sandbox pause", "ID", TABLE_JSON_YAML, "Freeze a sandbox.", sandbox_pause, NULL, 0},
    {"sandbox resume", "ID", TABLE_JSON_YAML, "Let a paused sandbox go on.", sandbox_resume,
     OPTIONS({"skip-health-check", 0, OPTION_FLAG, 0, NULL, "Do not wait until it is ready."},
     {"resume-timeout", 0, OPTION_DURATION, 0, "DURATION", "How long to wait."}),
     0},
    {"sandbox stop", "ID", TABLE_JSON_YAML, "Stop a persistent sandbox; its files stay.",
     rest_command, NULL, 0},
    {"sandbox start", "ID", TABLE_JSON_YAML, "Start a stopped sandbox again.", rest_command, NULL,
     0},
    {"sandbox renew", "ID", TABLE_JSON_YAML, "Set when a sandbox expires, from now.", sandbox_renew,
     OPTIONS({"timeout", 't', OPTION_DURATION, OPTION_REQUIRED, "DURATION", "New lifetime."}), 0,
     "osb sandbox renew ID -t 2h\n"},
    {"sandbox metadata", "ID [LABEL...]", TABLE_JSON_YAML,
     "Show labels, or set KEY=VALUE and remove KEY.", sandbox_metadata, NULL, 0,
     "osb sandbox metadata ID team=a old-label\n"},
    {"sandbox endpoint", "ID", TABLE_JSON_YAML, "The address of a port of a sandbox.",
     sandbox_endpoint, OPTIONS({"port", 'p', OPTION_INT, OPTION_REQUIRED, "PORT", "Port inside.", 1, 65535},
     {"signed", 0, OPTION_DURATION, 0, "DURATION",
              "One that carries its permission, valid so long."}),
     0,
     "osb sandbox endpoint ID -p 8000\n"
     "osb sandbox endpoint ID -p 8000 --signed 1h\n"},
    {"sandbox health", "ID", TABLE_JSON_YAML, "Whether a sandbox answers; fails when not.",
     sandbox_health, NULL, 0},
    {"sandbox metrics", "ID", "table json yaml raw", "What a sandbox uses.", sandbox_metrics,
     OPTIONS({"watch", 0, OPTION_FLAG, 0, NULL, "One sample per second, until Ctrl-C."}), 0,
     "osb sandbox metrics ID --watch\n"},

    {"command run", "ID COMMAND...", "table json yaml raw",
     "Run a command in a sandbox; -- comes before the command.", command_run,
     OPTIONS({"background", 'd', OPTION_FLAG, 0, NULL, "Do not wait for its end."},
     {"workdir", 'w', OPTION_TEXT, 0, "DIR", "Working directory."},
     {"timeout", 't', OPTION_DURATION, 0, "DURATION", "Time limit."},
     {"argv", 0, OPTION_FLAG, 0, NULL, "Start the program itself, without a shell."},
     {"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},
     {"uid", 0, OPTION_INT, 0, "UID", "User."}, {"gid", 0, OPTION_INT, 0, "GID", "Group."},
     {"interactive", 'i', OPTION_FLAG, 0, NULL, "Pass standard input on."}),
     0,
     "osb command run ID -w /work -- make -j4\n"
     "osb command run ID -d -- python server.py\n"
     "osb command run ID -- sh -c 'ls | wc -l'\n"},
    {"command status", "ID EXECUTION", TABLE_JSON_YAML, "How a command is doing.", command_status,
     NULL, 0},
    {"command logs", "ID EXECUTION", "table json yaml raw", "What a background command printed.",
     command_logs, OPTIONS({"cursor", 0, OPTION_INT, 0, "N", "From this byte on."},
     {"follow", 'f', OPTION_FLAG, 0, NULL, "Until its end; its status is ours."}),
     0,
     "osb command logs ID EXECUTION -f\n"},
    {"command interrupt", "ID EXECUTION", TABLE_JSON_YAML, "End a command.", command_interrupt,
     NULL, 0},
    {"command session create", "ID", TABLE_JSON_YAML, "Start a shell.", session_create,
     OPTIONS({"workdir", 'w', OPTION_TEXT, 0, "DIR", "Working directory."}), 0},
    {"command session run", "ID SESSION COMMAND...", "raw", "Run a command in such a shell.",
     session_run, OPTIONS({"workdir", 'w', OPTION_TEXT, 0, "DIR", "Working directory."},
     {"timeout", 't', OPTION_DURATION, 0, "DURATION", "Time limit."}),
     0,
     "osb command session run ID SESSION -- cd /work\n"},
    {"command session delete", "ID SESSION", TABLE_JSON_YAML, "End such a shell.", session_delete,
     NULL, 0},

    {"file cat", "ID PATH", "raw", "Print a file.", file_cat,
     OPTIONS({"encoding", 0, OPTION_TEXT, 0, "NAME", "Accepted; bytes stay as they are."},
     {"range", 0, OPTION_TEXT, 0, "bytes=A-B", "Some bytes."},
     {"line", 0, OPTION_INT, 0, "N", "From this line on.", 1},
     {"lines", 0, OPTION_INT, 0, "N", "So many lines.", 1}),
     0,
     "osb file cat ID /etc/hosts --line 2 --lines 3\n"},
    {"file write", "ID PATH", TABLE_JSON_YAML, "Write a file.", file_write,
     OPTIONS({"content", 'c', OPTION_TEXT, 0, "TEXT", "Content; otherwise standard input."},
     {"encoding", 0, OPTION_TEXT, 0, "NAME", "Accepted; bytes stay as they are."},
     {"mode", 0, OPTION_MODE, 0, "MODE", "Permissions: 644."}, OWNER_OPTIONS),
     0,
     "osb file write ID /tmp/a -c text --mode 644\n"
     "osb file write ID /work/data.csv < data.csv\n"},
    {"file upload", "ID LOCAL REMOTE", TABLE_JSON_YAML, "A local file or directory into a sandbox.",
     file_upload, NULL, 0},
    {"file download", "ID REMOTE LOCAL", TABLE_JSON_YAML, "A file out of a sandbox.", file_download,
     NULL, 0},
    {"file rm", "ID PATH...", TABLE_JSON_YAML, "Delete files.", file_rm, NULL, 0},
    {"file mv", "ID FROM TO", TABLE_JSON_YAML, "Move or rename.", file_mv, NULL, 0},
    {"file mkdir", "ID PATH...", TABLE_JSON_YAML, "Make directories.", file_mkdir,
     OPTIONS({"mode", 0, OPTION_MODE, 0, "MODE", "Permissions: 755."}, OWNER_OPTIONS), 0},
    {"file rmdir", "ID PATH...", TABLE_JSON_YAML, "Delete directories and what is in them.",
     file_rmdir, NULL, 0},
    {"file search", "ID PATH", TABLE_JSON_YAML, "Find files by pattern.", file_search,
     OPTIONS({"pattern", 'p', OPTION_TEXT, OPTION_REQUIRED, "PATTERN", "*.py and the like."}), 0,
     "osb file search ID /work -p '*.py'\n"},
    {"file info", "ID PATH...", TABLE_JSON_YAML, "Size, owner and so on.", file_info, NULL, 0},
    {"file ls", "ID [PATH]", TABLE_JSON_YAML, "List a directory.", file_ls,
     OPTIONS({"depth", 0, OPTION_INT, 0, "N", "How many levels.", 1, 1000}), 0,
     "osb file ls ID /work --depth 2\n"},
    {"file chmod", "ID PATH", TABLE_JSON_YAML, "Set permissions and owner.", file_chmod,
     OPTIONS({"mode", 0, OPTION_MODE, OPTION_REQUIRED, "MODE", "Permissions: 644."}, OWNER_OPTIONS),
     0,
     "osb file chmod ID /work/run.sh --mode 755\n"},
    {"file replace", "ID PATH", TABLE_JSON_YAML, "Replace text in a file.", file_replace,
     OPTIONS({"old", 0, OPTION_TEXT, OPTION_REQUIRED, "TEXT", "What to look for."},
     {"new", 0, OPTION_TEXT, OPTION_REQUIRED, "TEXT", "What to put there."}),
     0,
     "osb file replace ID /work/a.py --old foo --new bar\n"},

    {"egress get", "ID", TABLE_JSON_YAML, "Show the policy.", egress_get, NULL, 0},
    {"egress patch", "ID", TABLE_JSON_YAML, "Add or replace rules.", egress_patch,
     OPTIONS({"rule", 0, OPTION_TEXT, OPTION_REPEATS | OPTION_REQUIRED, "ACTION=TARGET",
              "allow=pypi.org, deny=*.example.com."}),
     0,
     "osb egress patch ID --rule allow=pypi.org --rule 'deny=*.example.com'\n"},

    {"egress delete", "ID TARGET...", TABLE_JSON_YAML, "Remove rules by their targets.",
     rest_command, NULL, 0,
     "osb egress delete ID pypi.org\n"},

    {"credential-vault create", "ID", TABLE_JSON_YAML, "Fill the vault.", rest_command,
     VAULT_FILE_OPTION, 0,
     "osb credential-vault create ID --file vault.yaml\n"
     "osb credential-vault create ID --file - < vault.json\n"},
    {"credential-vault get", "ID", TABLE_JSON_YAML, "What is in the vault, without secrets.",
     rest_command, NULL, 0},
    {"credential-vault patch", "ID", TABLE_JSON_YAML, "Change the vault.", rest_command,
     VAULT_FILE_OPTION, 0,
     "osb credential-vault patch ID --file change.yaml\n"},
    {"credential-vault delete", "ID", TABLE_JSON_YAML, "Delete the vault.", rest_command, NULL, 0},
    {"credential-vault credential list", "ID", TABLE_JSON_YAML, "List credentials.", rest_command,
     NULL, 0},
    {"credential-vault credential get", "ID NAME", TABLE_JSON_YAML, "Show a credential.",
     rest_command, NULL, 0},
    {"credential-vault binding list", "ID", TABLE_JSON_YAML, "List bindings.", rest_command, NULL,
     0},
    {"credential-vault binding get", "ID NAME", TABLE_JSON_YAML, "Show a binding.", rest_command,
     NULL, 0},

    {"pool list", "", TABLE_JSON_YAML, "List pools.", rest_command, NULL, 0},
    {"pool get", "NAME", TABLE_JSON_YAML, "Show a pool.", rest_command, NULL, 0},
    {"pool create", "[NAME]", TABLE_JSON_YAML, "Make a pool of sandboxes that wait.", pool_create,
     OPTIONS({"image", 'i', OPTION_TEXT, 0, "IMAGE", "Image of its sandboxes [defaults.image]."},
     {"snapshot-id", 0, OPTION_TEXT, 0, "ID", "Start from a snapshot instead of an image."},
     {"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},
     {"resource", 0, OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Limit: cpu=1, memory=2Gi."},
     {"entrypoint", 0, OPTION_TEXT, OPTION_REPEATS, "WORD", "A word of the entrypoint."},
     {"warm-up", 0, OPTION_TEXT, 0, "COMMAND", "Runs in each before it can be claimed."},
     CAPACITY_OPTIONS),
     0,
     "osb pool create NAME -i python:3.12 --buffer-min 2 --pool-max 20\n"},
    {"pool update", "NAME", TABLE_JSON_YAML, "Change how many sandboxes a pool has.", pool_update,
     OPTIONS(CAPACITY_OPTIONS), 0,
     "osb pool update NAME --buffer-min 5\n"},
    {"pool delete", "NAME", TABLE_JSON_YAML, "Delete a pool.", rest_command, NULL, 0},

    {"image ls", "", TABLE_JSON_YAML, "List images.", image_list, PAGE_OPTIONS("Images"), 0},
    {"image get", "IMAGE", TABLE_JSON_YAML, "Show an image, by name or id.", image_get, NULL, 0},
    {"image pull", "IMAGE", TABLE_JSON_YAML, "Pull an image from its registry.", image_pull,
     OPTIONS({"username", 'u', OPTION_TEXT, 0, "USER", "User for a private registry."},
     {"password", 'p', OPTION_TEXT, 0, "TEXT", "Password or token for it."},
     {"platform", 0, OPTION_TEXT, 0, "OS/ARCH", "Platform: linux/amd64."},
     {"policy", 0, OPTION_CHOICE, 0, "IfNotPresent|Always|Never", "When to pull."}),
     0,
     "osb image pull python:3.12\n"
     "osb image pull registry.example.com/app:1 -u me -p SECRET\n"},
    {"image import", "FILE", TABLE_JSON_YAML,
     "Import an archive of docker save, OCI or a root directory; - is standard input.",
     image_import, OPTIONS({"name", 'n', OPTION_TEXT, 0, "NAME", "Its name here."}), 0,
     "docker save app:1 | osb image import -\n"},
    {"image export", "IMAGE [FILE]", TABLE_JSON_YAML,
     "Write an image as an OCI archive, to a file or standard output.", image_export, NULL, 0,
     "osb image export python:3.12 python.tar\n"},
    {"image rm", "IMAGE...", TABLE_JSON_YAML, "Remove names of images; an id removes all of them.",
     image_remove, NULL, 0},
    {"image prune", "", TABLE_JSON_YAML, "Remove what no image has, and images that nothing uses.",
     image_prune, OPTIONS({"all", 'a', OPTION_FLAG, 0, NULL, "All images that nothing uses."},
     {"max-bytes", 0, OPTION_INT, 0, "N", "Those used longest ago, until so much is left.", 0,
      INT64_MAX}),
     0,
     "osb image prune --max-bytes 20000000000\n"},

    {"volume ls", "", TABLE_JSON_YAML, "List volumes.", volume_list, PAGE_OPTIONS("Volumes"), 0},
    {"volume get", "NAME", TABLE_JSON_YAML, "Show a volume.", volume_get, NULL, 0},
    {"volume create", "NAME", TABLE_JSON_YAML, "Make a volume.", volume_create,
     OPTIONS({"size", 0, OPTION_TEXT, 0, "SIZE", "At most so much: 10Gi."}), 0,
     "osb volume create data --size 10Gi\n"},
    {"volume rm", "NAME...", TABLE_JSON_YAML, "Delete volumes and what is in them.", volume_remove,
     NULL, 0},

    {"login", "[DOMAIN]", TABLE_JSON_YAML,
     "Store an API key, read from standard input, once the server knows it.", login,
     OPTIONS({"browser", 'b', OPTION_FLAG, 0, NULL,
              "Get a key by signing in at the server's OpenID provider, in a browser."}),
     COMMAND_OFFLINE,
     "osb login HOST:8080 < key-file\n"
     "osb login https://osb.example.com --browser\n"},
    {"whoami", "", TABLE_JSON_YAML, "Who the API key is: role, tenant.", rest_command, NULL, 0},
    {"tenant list", "", TABLE_JSON_YAML, "List tenants.", rest_command, NULL, 0},
    {"tenant get", "NAME", TABLE_JSON_YAML, "Show a tenant, its quota and what it uses.",
     rest_command, NULL, 0},
    {"tenant create", "NAME", TABLE_JSON_YAML, "Make a tenant.", rest_command, QUOTA_OPTIONS, 0,
     "osb tenant create team-a --sandboxes 20 --memory 64Gi\n"},
    {"tenant update", "NAME", TABLE_JSON_YAML, "Change the quota of a tenant.", rest_command,
     QUOTA_OPTIONS, 0},
    {"tenant delete", "NAME", TABLE_JSON_YAML, "Delete a tenant that has nothing.", rest_command,
     NULL, 0},
    {"key list", "", TABLE_JSON_YAML, "List API keys.", rest_command, NULL, 0},
    {"key get", "KEY", TABLE_JSON_YAML, "Show an API key, without its secret.", rest_command, NULL,
     0},
    {"key create", "NAME", TABLE_JSON_YAML, "Make an API key; its secret is shown once.",
     rest_command,
     OPTIONS({"role", 'r', OPTION_CHOICE, OPTION_REQUIRED, "read_only|operator|admin|sandbox",
              "What it may do."},
     {"tenant", 0, OPTION_TEXT, 0, "NAME", "Limit it to this tenant."},
     {"sandbox", 0, OPTION_TEXT, 0, "ID", "For the role sandbox: the one that it opens."},
     {"expires", 0, OPTION_TEXT, 0, "TIME", "When it ends: 2030-01-31T00:00:00Z."}),
     0,
     "osb key create ci --role operator --tenant team-a\n"},
    {"key rotate", "KEY", TABLE_JSON_YAML, "Give an API key a new secret.", rest_command,
     OPTIONS({"grace", 0, OPTION_INT, 0, "SECONDS", "How long the old one goes on to work."}), 0,
     "osb key rotate KEY --grace 3600\n"},
    {"key revoke", "KEY", TABLE_JSON_YAML, "Revoke an API key.", rest_command, NULL, 0},
    {"audit list", "", TABLE_JSON_YAML, "What was asked of the server, the newest first.",
     audit_list_command, AUDIT_OPTIONS, 0,
     "osb audit list --outcome refused --since 2026-01-01T00:00:00Z\n"},
    {"audit export", "", "raw", "The same as lines of JSON.", audit_export, AUDIT_OPTIONS, 0},
    {"audit verify", "[PATH]", TABLE_JSON_YAML,
     "Prove that the record, or files of it, was not changed.", audit_verify,
     OPTIONS({"head", 0, OPTION_TEXT, 0, "HASH", "The hash that its last entry must have."}),
     COMMAND_OFFLINE},
    {"events", "[ID]", "raw", "Watch what happens to sandboxes: a line of JSON each.", events,
     OPTIONS({"follow", 'f', OPTION_FLAG, 0, NULL, "Go on until Ctrl-C, which is what it does."},
     {"since", 0, OPTION_TEXT, 0, "EVENT", "Begin after the event with this id."}),
     0,
     "osb events ID\n"},

    {"diagnostics logs", "ID", "raw table json yaml", "Logs of a sandbox.", diagnostics_logs,
     SCOPE_OPTIONS, 0,
     "osb diagnostics logs ID -s container\n"},
    {"diagnostics events", "ID", "raw table json yaml", "Events of a sandbox.", diagnostics_events,
     SCOPE_OPTIONS, 0,
     "osb diagnostics events ID -s lifecycle\n"},
    {"devops logs", "ID", "raw", "Deprecated: diagnostics logs.", devops_text,
     OPTIONS({"tail", 'n', OPTION_INT, 0, "N", "The last lines."},
     {"since", 's', OPTION_TEXT, 0, "DURATION", "Not older than this."}),
     0},
    {"devops inspect", "ID", "raw", "All about a sandbox.", devops_text, NULL, 0},
    {"devops events", "ID", "raw", "Deprecated: diagnostics events.", devops_text,
     OPTIONS({"limit", 'l', OPTION_INT, 0, "N", "At most so many."}), 0},
    {"devops summary", "ID", "raw", "Inspect, events and logs in one.", devops_text,
     OPTIONS({"tail", 'n', OPTION_INT, 0, "N", "The last lines."},
     {"event-limit", 0, OPTION_INT, 0, "N", "At most so many events."}),
     0},

    {"snapshot create", "ID", TABLE_JSON_YAML, "Make a snapshot of a sandbox.", snapshot_create,
     OPTIONS({"name", 'n', OPTION_TEXT, 0, "NAME", "Name of the snapshot."}, MEMORY_OPTION), 0,
     "osb snapshot create ID -n before-upgrade\n"},
    {"snapshot get", "SNAPSHOT", TABLE_JSON_YAML, "Show a snapshot.", snapshot_get, NULL, 0},
    {"snapshot list", "", TABLE_JSON_YAML, "List snapshots.", snapshot_list,
     OPTIONS({"sandbox-id", 0, OPTION_TEXT, 0, "ID", "Only those of this sandbox."},
     {"state", 0, OPTION_TEXT, OPTION_REPEATS, "STATE", "Only those in this state."},
     {"page", 0, OPTION_INT, 0, "N", "Which page.", 1},
     {"page-size", 0, OPTION_INT, 0, "N", "Snapshots per page.", 1}),
     0,
     "osb snapshot list --sandbox-id ID\n"},
    {"snapshot delete", "SNAPSHOT", TABLE_JSON_YAML, "Delete a snapshot.", snapshot_delete, NULL,
     0},

    {"template create", "", TABLE_JSON_YAML, "Make a template; its build goes on by itself.",
     template_create,
     OPTIONS({"image", 'i', OPTION_TEXT, 0, "IMAGE", "Image that it is built from."},
             {"publish", 'p', OPTION_TEXT, 0, "URL", "Where it is put: s3://bucket/path."},
             {"file", 'f', OPTION_FILE, 0, "FILE", "The request as JSON instead of options."},
             {"resource", 0, OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Size: cpu=1, disk=2Gi."},
             {"entrypoint", 0, OPTION_TEXT, OPTION_REPEATS, "WORD", "A word of the entrypoint."},
             {"env", 'e', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Environment variable."},
             {"metadata", 'm', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Label."},
             {"format", 0, OPTION_CHOICE, 0, "native|overlaybd", "How its layers are stored."},
             {"readiness-probe", 0, OPTION_TEXT, 0, "PROBE", "tcp://127.0.0.1:44772, cmd://test."},
             {"warmup-seconds", 0, OPTION_INT, 0, "SECONDS", "How long to wait without a probe."}),
     0,
     "osb template create -i python:3.12 -p s3://bucket/python\n"},
    {"template get", "ID", TABLE_JSON_YAML, "Show a template and its build.", template_get, NULL,
     0},
    {"template list", "", TABLE_JSON_YAML, "List templates.", template_list,
     OPTIONS({"metadata", 'm', OPTION_PAIR, OPTION_REPEATS, "KEY=VALUE", "Only with this label."},
             {"page", 0, OPTION_INT, 0, "N", "Which page.", 1},
             {"page-size", 0, OPTION_INT, 0, "N", "Templates per page.", 1}),
     0},
    {"template delete", "ID", TABLE_JSON_YAML, "Delete a template; its sandboxes go on.",
     rest_command, NULL, 0},

    {"config init", "", TABLE_JSON_YAML, "Write a config file.", config_init,
     OPTIONS({"force", 0, OPTION_FLAG, 0, NULL, "Overwrite one that exists."}), COMMAND_OFFLINE},
    {"config show", "", TABLE_JSON_YAML, "The settings that count.", config_show, NULL,
     COMMAND_OFFLINE},
    {"config set", "KEY VALUE", TABLE_JSON_YAML, "Set section.field in the config file.",
     config_set, NULL, COMMAND_OFFLINE,
     "osb config set defaults.image python:3.12\n"},

    {"skills list", "", TABLE_JSON_YAML, "List skills, assistants, and what is installed.",
     skills_list, NULL, COMMAND_OFFLINE},
    {"skills show", "SKILL", TABLE_JSON_YAML, "What a skill says.", skills_show, NULL,
     COMMAND_OFFLINE},
    {"skills install", "[SKILL]", TABLE_JSON_YAML, "Write skills to where an assistant looks.",
     skills_install,
     OPTIONS({"all-builtins", 0, OPTION_FLAG, 0, NULL, "All skills."}, SKILL_OPTIONS,
             {"force", 'f', OPTION_FLAG, 0, NULL, "Accepted; files are brought up to date anyway."}),
     COMMAND_OFFLINE,
     "osb skills install --all-builtins --target claude --scope project\n"},
    {"skills uninstall", "[SKILL]", TABLE_JSON_YAML,
     "Remove a skill; without a name sandbox-troubleshooting.", skills_uninstall,
     OPTIONS(SKILL_OPTIONS), COMMAND_OFFLINE},
};
/* clang-format on */
const size_t command_count = ARRAY_LEN(command_table);
