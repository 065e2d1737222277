"""desktop_use.py - what the published desktop example does, in our image: a sandbox with the usual
entrypoint, and the parts of the desktop as four commands in the background. Started by
tests/drill/examples with the environment of an example. Prints what VNC and noVNC answer."""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples/shared"))
import httpx  # noqa: E402
from opensandbox_example import connection, image, run, until_ready  # noqa: E402

from opensandbox import Sandbox  # noqa: E402
from opensandbox.models.execd import RunCommandOpts  # noqa: E402

COMMANDS = (
    "Xvfb :0 -screen 0 1280x800x24",
    "DISPLAY=:0 dbus-launch startxfce4",
    'x11vnc -display :0 -passwd "$VNC_PASSWORD" -forever -shared -rfbport 5900',
    "/usr/bin/websockify --web=/usr/share/novnc 6080 localhost:5900",
)
# The greeting, and what the server says to a client that offers no authentication.
GREETING = """python3 -c '
import socket
s = socket.create_connection(("127.0.0.1", 5900), 10)
print("VNC:", s.recv(12).decode().strip())
s.sendall(b"RFB 003.008\\n")
kinds = s.recv(s.recv(1)[0])
print("refused:", 1 not in kinds and 2 in kinds)'"""


async def main():
    sandbox = await Sandbox.create(
        image("opensandbox/desktop:latest"), env={"VNC_PASSWORD": "secret12"},
        resource={"cpu": "2", "memory": "2Gi"}, connection_config=connection())
    try:
        for i, command in enumerate(COMMANDS):
            await sandbox.commands.run(command, opts=RunCommandOpts(background=True))
            if i == 0:
                await until_ready(sandbox, "xdpyinfo", 60)
        await until_ready(sandbox)
        endpoint = await sandbox.get_endpoint(6080)
        async with httpx.AsyncClient(timeout=60, headers=endpoint.headers) as client:
            answer = await client.get(f"http://{endpoint.endpoint}/vnc.html")
        print("noVNC:", answer.status_code)
        print(await run(sandbox, GREETING))
        print("desktop:", "xfce4-session" in await run(sandbox, "ps -eo comm"))
    finally:
        await sandbox.destroy()


asyncio.run(main())
