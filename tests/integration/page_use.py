"""page_use.py - a page with relative addresses, a request and a WebSocket, served in a sandbox and
used by Chromium through the gateway, below a path and at a host of its own. Started by
test_examples.py with the environment of an example. Prints what came back.
"""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples/shared"))
from opensandbox_example import connection, until_ready  # noqa: E402
from page import browser_page, host_address  # noqa: E402

from opensandbox import Sandbox  # noqa: E402

PORT = 8000
APP = r'''
import base64, hashlib, http.server
FILES = {"/": b"<title>app</title><input autofocus><p id=said></p><script src='app.js'></script>",
         "/app.js": b"""
const said = document.querySelector('#said'), field = document.querySelector('input');
const socket = new WebSocket(new URL('echo', location.href.replace('http', 'ws')));
const data = fetch('data.txt').then(answer => answer.text());
socket.onmessage = async (event) => {
    said.textContent = await data + ': ' + await event.data.text();
};
field.onkeydown = (event) => { if (event.key === 'Enter') socket.send(field.value); };
socket.onopen = () => { document.title = 'connected'; };""",
         "/data.txt": b"from the sandbox"}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/echo": return self.echo()
        body = FILES.get(path, b"")
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/javascript" if path.endswith("js") else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for row in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept",
                     base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(*row)
        self.end_headers()
        head = self.rfile.read(6)  # a short message, masked
        text = bytes(b ^ head[2 + i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
        self.wfile.write(bytes([0x82, len(text)]) + text)
        self.close_connection = True
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
'''


async def use(how, url, endpoint=None):
    async with browser_page(640, 480) as page:
        if endpoint:
            await page.admit(endpoint)
        await page.load(url, "document.title === 'connected'", "WebSocket")
        await page.click_at("input")
        await page.type("word7")
        await page.key("Enter")
        print(f"by {how}:", await page.until("document.querySelector('#said').textContent", "echo"))
        picture = await page.screenshot()
        print(f"by {how}: a PNG of its size:", picture[:8] == b"\x89PNG\r\n\x1a\n" and
              int.from_bytes(picture[16:20], "big") == 640)


async def main():
    sandbox = await Sandbox.create("host", entrypoint=["python3", "-c", APP],
                                   connection_config=connection())
    try:
        await until_ready(sandbox, f"curl -fsS -o /dev/null http://127.0.0.1:{PORT}/")
        endpoint = await sandbox.get_endpoint(PORT)
        await use("path", f"http://{endpoint.endpoint}/", endpoint)
        base, token = await host_address(sandbox, PORT)
        await use("host", f"{base}/?opensandbox_access={token}")
    finally:
        await sandbox.destroy()


asyncio.run(main())
