// The console in Chromium, step by step.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import {accessible, api, BASE, complaints, create, finish, go, IMAGE, inside, ISSUER, KEY, login, open, server, shellReady, terminalText, test, until} from './browser.mjs';

// --- files and headers ---

await test('the files come with a strict policy, and packed within 400 KiB', async () => {
  const page = await fetch(`${BASE}/console`);
  assert.equal(page.status, 200);
  const policy = page.headers.get('content-security-policy');
  for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) assert.ok(policy.includes(part), policy);
  assert.ok(!/unsafe|https?:|\*/.test(policy), policy);
  assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(page.headers.get('referrer-policy'), 'no-referrer');
  const html = await page.text();
  assert.ok(!/<script(?![^>]*src=)|<style|style=|https?:\/\//.test(html), html);
  let packed = Buffer.byteLength(html);
  for (const [, file] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
    const answer = await fetch(BASE + file, {headers: {'Accept-Encoding': 'gzip'}});
    assert.equal(answer.status, 200, file);
    if (file.startsWith('/console/assets/')) assert.match(answer.headers.get('cache-control'), /immutable/);
    packed += Number(answer.headers.get('content-length'));
  }
  console.log(`# the first load has ${(packed / 1024).toFixed(1)} KiB`);
  assert.ok(packed <= 400 * 1024, String(packed));
});

await test('the first view keeps its budget: few requests, few elements, nothing jumps', async () => {
  const page = await open();
  const files = [];
  page.on('request', (r) => { if (new URL(r.url()).pathname.startsWith('/console')) files.push(r.url()); });
  await page.addInitScript(() => {
    globalThis.shifted = 0;
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) if (!e.hadRecentInput) globalThis.shifted += e.value;
    }).observe({type: 'layout-shift', buffered: true});
  });
  await login(page);
  await page.getByRole('heading', {name: 'Overview'}).waitFor();
  await page.locator('.plot').nth(3).waitFor();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const {shifted, elements} = await page.evaluate(() => ({shifted: globalThis.shifted, elements: document.querySelectorAll('*').length}));
  console.log(`# ${files.length} files, ${elements} elements, layout shift ${shifted.toFixed(3)}`);
  assert.ok(files.length <= 8, String(files));
  assert.ok(elements <= 800, String(elements));
  assert.ok(shifted <= 0.1, String(shifted)); // what browsers call good
  await page.context().close();
});

await test('files have a tag, come unpacked when asked, and others are 404', async () => {
  const first = await fetch(`${BASE}/console/`);
  const again = await fetch(`${BASE}/console/`, {headers: {'If-None-Match': first.headers.get('etag')}});
  assert.equal(again.status, 304);
  const plain = await fetch(`${BASE}/console/icon.svg`, {headers: {'Accept-Encoding': 'identity'}});
  assert.equal(plain.headers.get('content-encoding'), null);
  assert.match(await plain.text(), /^<svg/);
  for (const bad of ['nothing.js', '..%2f..%2fetc%2fpasswd', 'assets/', 'index.html%00'])
    assert.equal((await fetch(`${BASE}/console/${bad}`)).status, 404, bad);
});

// --- login ---

await test('a wrong key is refused with a reason, and nothing is kept', async () => {
  const page = await open();
  await login(page, 'wrong-key');
  await page.getByRole('alert').filter({hasText: 'not one of this server'}).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await accessible(page, 'login');
  await page.context().close();
});

await test('the key is kept in the tab only, and logging out removes it', async () => {
  const page = await inside();
  const stored = await page.evaluate(() => ({session: {...sessionStorage}, local: {...localStorage}, cookie: document.cookie, at: location.href}));
  assert.ok(JSON.stringify(stored.session).includes(KEY));
  assert.ok(!JSON.stringify([stored.local, stored.cookie, stored.at]).includes(KEY));
  await page.getByRole('button', {name: 'Log out'}).click();
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem('opensandbox.key')), null);
  await page.context().close();
});

// --- the whole way: create, terminal, file, chart, snapshot, fork, delete ---

const main = await inside();
let box = '';

await test('a sandbox is created by the form', async () => {
  await go(main, 'sandboxes');
  await main.getByRole('button', {name: 'Create', exact: true}).click();
  const form = main.getByRole('dialog');
  await form.getByLabel('Metadata').fill('name=first\nteam=search');
  await form.getByLabel('Environment').fill('GREETING=good day');
  await form.getByLabel('Network').selectOption('rules');
  await form.getByLabel('Rules').fill('allow example.org');
  await accessible(main, 'create');
  await form.getByRole('button', {name: 'Create'}).click();
  await main.waitForURL(/#\/sandboxes\/[0-9a-f-]{36}/);
  box = main.url().split('/').pop();
  await main.locator('h1 .state', {hasText: 'Running'}).waitFor();
  const made = await api('GET', `/v1/sandboxes/${box}`);
  assert.deepEqual(made.metadata, {name: 'first', team: 'search'});
});

await test('a terminal runs a shell, and goes on after a reload', async () => {
  await go(main, `sandboxes/${box}/terminal`);
  await shellReady(main);
  await main.locator('.xterm-helper-textarea').focus();
  await main.keyboard.type('echo "$GREETING, $((6*7))"; kept=yes\n');
  await until('the output', async () => (await terminalText(main)).includes('good day, 42'));
  await main.reload();
  await shellReady(main);
  await until('the replay', async () => (await terminalText(main)).includes('good day, 42'));
  await main.locator('.xterm-helper-textarea').focus();
  await main.keyboard.type('echo "still $kept"\n');
  await until('the same shell', async () => (await terminalText(main)).includes('still yes'));
});

await test('files are uploaded by dropping, edited, downloaded and removed', async () => {
  await go(main, `sandboxes/${box}/files`);
  await main.getByRole('button', {name: 'root', exact: true}).click();
  await main.getByText('This folder is empty').or(main.getByRole('region', {name: 'Files of /root'})).first().waitFor();
  const data = await main.evaluateHandle(() => {
    const t = new DataTransfer();
    t.items.add(new File(['first line\n'], 'note.txt', {type: 'text/plain'}));
    return t;
  });
  await main.locator('.drop').dispatchEvent('drop', {dataTransfer: data});
  await main.getByRole('button', {name: 'note.txt', exact: true}).click();
  const editor = main.getByLabel('Text of /root/note.txt');
  await until('the text', async () => (await editor.inputValue()) === 'first line\n');
  await editor.fill('first line\nsecond line\n');
  await editor.press('Control+s');
  await main.getByText('note.txt is saved.').waitFor();
  await main.getByRole('dialog').getByRole('button', {name: 'Close'}).click();
  const [got] = await Promise.all([main.waitForEvent('download'), main.getByRole('button', {name: 'Download note.txt'}).click()]);
  assert.equal(fs.readFileSync(await got.path(), 'utf8'), 'first line\nsecond line\n');
  await main.getByRole('button', {name: 'File', exact: true}).click();
  await main.getByRole('dialog').getByLabel('Name').fill('other.txt');
  await main.getByRole('dialog').getByRole('button', {name: 'Save'}).click();
  await main.getByRole('button', {name: 'Delete other.txt'}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Delete'}).click();
  await main.getByRole('button', {name: 'other.txt', exact: true}).waitFor({state: 'detached'});
});

await test('a cell of the notebook draws a chart', async () => {
  await go(main, `sandboxes/${box}/notebook`);
  const code = main.getByLabel('Code of cell 1');
  await code.fill(`print(open('/root/note.txt').read())
class Chart:
    def __init__(self, values): self.values = values
    def __repr__(self): return 'a chart of %d values' % len(self.values)
    def _repr_svg_(self):
        bars = ''.join('<rect x="%d" y="%d" width="36" height="%d" fill="#2456d6"/>' % (20 + i * 48, 150 - v * 10, v * 10) for i, v in enumerate(self.values))
        return '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="170"><path d="M10 150H410" stroke="#888"/>%s</svg>' % bars
Chart([3, 7, 4, 11, 8, 13, 9, 6])`);
  await code.press('Control+Enter');
  await main.locator('.out.stdout', {hasText: 'second line'}).waitFor();
  const chart = main.locator('img.rich');
  await chart.waitFor();
  await until('the drawing', () => chart.evaluate((i) => i.complete && i.naturalWidth === 420));
  assert.equal(await chart.getAttribute('alt'), 'a chart of 8 values');
  await main.getByLabel('Code of cell 2').fill('1/0');
  await main.getByLabel('Code of cell 2').press('Control+Enter');
  await main.locator('.out.error', {hasText: 'ZeroDivisionError'}).waitFor();
});

await test('code of a sandbox cannot run in the console', async () => {
  await main.getByLabel('Code of cell 3').fill(`class Evil:
    def _repr_html_(self): return '<b id="x">table</b><script>parent.document.title="owned"</script><img src=x onerror="parent.document.title=1">'
Evil()`);
  await main.getByLabel('Code of cell 3').press('Control+Enter');
  await main.frameLocator('iframe.rich').locator('#x').waitFor();
  assert.equal(await main.title(), 'Sandboxes · OpenSandbox');
  complaints.length = 0; // the policy spoke up, as it should
});

await test('processes are listed and ended', async () => {
  await api('POST', `/v1/sandboxes/${box}/proxy/44772/command`, {command: 'sleep 4321', background: true}).catch(() => undefined);
  await go(main, `sandboxes/${box}/processes`);
  const row = main.getByRole('row').filter({hasText: 'sleep 4321'}).last();
  await row.waitFor();
  await row.getByRole('button', {name: /^Kill/}).click();
  await until('its end', async () => (await main.getByRole('row').filter({hasText: /^\d+.*sleep 4321/}).count()) === 0);
});

await test('a port is previewed, in an origin of its own', async () => {
  await fetch(`${BASE}/v1/sandboxes/${box}/proxy/44772/command`, {method: 'POST', headers: {'OPEN-SANDBOX-API-KEY': KEY}, body: JSON.stringify({background: true, command: `mkdir -p /tmp/web && cd /tmp/web && cat > index.html <<'X'
<!doctype html><h1 id=hello>hello from inside</h1><p id=seen></p><script src="app.js"></script>
X
cat > app.js <<'X'
let seen = 'nothing';
try { seen = sessionStorage.length + ''; } catch (e) { seen = e.name; }
fetch('data.json').then(r => r.json()).then(d => { document.getElementById('seen').textContent = seen + ' ' + location.origin + ' ' + d.ok + ' ' + self.origin; });
X
echo '{"ok":"data"}' > data.json; exec python3 -m http.server 8000 --bind 127.0.0.1`})}).then((r) => r.text());
  await go(main, `sandboxes/${box}/ports`);
  await main.getByRole('row').filter({hasText: '8000'}).getByRole('button', {name: 'Preview'}).click();
  const frame = main.frameLocator('iframe.preview');
  await frame.locator('#hello').waitFor();
  const seen = await until('its script', async () => (await frame.locator('#seen').textContent()) || null);
  assert.match(seen, /^SecurityError .* data null$/);
  const src = await main.locator('iframe.preview').getAttribute('src');
  assert.match(src, /^\/preview\/[\w-]{32}\/$/);
  const direct = await fetch(BASE + src);
  assert.match(direct.headers.get('content-security-policy'), /^sandbox /);
  assert.equal((await fetch(`${BASE}/preview/${'x'.repeat(32)}/`)).status, 404);
  complaints.length = 0; // of the page inside: the browser tells what it may not
});

await test('the policy is edited, and what is denied is shown', async () => {
  await go(main, `sandboxes/${box}/egress`);
  await main.getByLabel('Target of rule 1').waitFor();
  assert.equal(await main.getByLabel('Target of rule 1').inputValue(), 'example.org');
  await main.getByRole('button', {name: 'Rule', exact: true}).click();
  await main.getByLabel('Target of rule 2').fill('*.example.com');
  await main.getByLabel('Ports of rule 2').fill('443');
  await main.getByLabel('Ports of rule 2').blur();
  await main.getByRole('button', {name: 'Put in force'}).click();
  await main.getByText('The policy is in force.').waitFor();
  const {policy} = await api('GET', `/v1/sandboxes/${box}/proxy/18080/policy`);
  assert.deepEqual(policy.egress.map((r) => [r.action, r.target]), [['allow', 'example.org'], ['allow', '*.example.com']]);
  await fetch(`${BASE}/v1/sandboxes/${box}/proxy/44772/command`, {method: 'POST', headers: {'OPEN-SANDBOX-API-KEY': KEY}, body: JSON.stringify({command: 'python3 -c "import socket; socket.getaddrinfo(\'denied.example.net\', 80)"'})}).then((r) => r.text());
  await main.getByText('denied.example.net').first().waitFor();
});

await test('what its command prints is followed and searched', async () => {
  const talks = await create({entrypoint: ['sh', '-c', 'echo first line; echo second line; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo third line; exec sleep 3600']});
  await go(main, `sandboxes/${talks}/logs`);
  const log = main.getByLabel('Log', {exact: true});
  await log.filter({hasText: 'second line'}).waitFor();
  await fetch(`${BASE}/v1/sandboxes/${talks}/proxy/44772/command`, {method: 'POST', headers: {'OPEN-SANDBOX-API-KEY': KEY}, body: JSON.stringify({command: 'touch /tmp/go'})}).then((r) => r.text());
  await log.filter({hasText: 'third line'}).waitFor();
  await main.getByLabel('Find in the log').fill('SECOND');
  await log.filter({hasNotText: 'first line'}).waitFor();
  assert.match(await log.textContent(), /second line$/);
  await api('DELETE', `/v1/sandboxes/${talks}`);
});

await test('a snapshot is taken, and the sandbox forked', async () => {
  await go(main, `sandboxes/${box}/snapshots`);
  await main.getByLabel('Snapshot name').fill('before');
  await main.getByRole('button', {name: 'Take'}).click();
  await main.getByRole('row').filter({hasText: 'before'}).filter({hasText: 'Ready'}).waitFor();
  await main.getByRole('button', {name: 'Fork', exact: true}).click();
  await main.getByText('A fork runs.').waitFor();
  await main.locator('.tree ul a').first().waitFor();
  const {items} = await api('GET', '/v1/sandboxes?metadata=' + encodeURIComponent(`fork-of=${box}`));
  assert.equal(items.length, 1);
  const read = await fetch(`${BASE}/v1/sandboxes/${items[0].id}/proxy/44772/files/download?path=/root/note.txt`, {headers: {'OPEN-SANDBOX-API-KEY': KEY}});
  assert.equal(await read.text(), 'first line\nsecond line\n');
});

await test('a sandbox is rolled back to its snapshot', async () => {
  await fetch(`${BASE}/v1/sandboxes/${box}/proxy/44772/command`, {method: 'POST', headers: {'OPEN-SANDBOX-API-KEY': KEY}, body: JSON.stringify({command: 'rm /root/note.txt'})}).then((r) => r.text());
  await main.getByRole('row').filter({hasText: 'before'}).getByRole('button', {name: 'Roll back'}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Roll back'}).click();
  await main.getByText('The sandbox is rolled back.').waitFor();
  await main.locator('h1 .state', {hasText: 'Running'}).waitFor();
  const read = await fetch(`${BASE}/v1/sandboxes/${box}/proxy/44772/files/download?path=/root/note.txt`, {headers: {'OPEN-SANDBOX-API-KEY': KEY}});
  assert.equal(await read.text(), 'first line\nsecond line\n');
});

await test('a sandbox is made of the snapshot', async () => {
  await go(main, 'snapshots');
  await main.getByRole('row').filter({hasText: 'before'}).getByRole('button', {name: 'Restore'}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Create'}).click();
  await main.waitForURL(/#\/sandboxes\/[0-9a-f-]{36}/);
  await main.locator('h1 .state', {hasText: 'Running'}).waitFor();
});

await test('pausing and resuming shows in the state', async () => {
  await go(main, `sandboxes/${box}`);
  await main.getByRole('button', {name: 'Pause'}).click();
  await main.locator('h1 .state', {hasText: 'Paused'}).waitFor();
  await main.getByRole('button', {name: 'Resume'}).click();
  await main.locator('h1 .state', {hasText: 'Running'}).waitFor();
  await main.locator('.timeline li').nth(2).waitFor();
});

await test('its end is moved, and its own record shows who did what', async () => {
  const before = (await api('GET', `/v1/sandboxes/${box}`)).expiresAt;
  await main.getByRole('button', {name: 'Renew'}).click();
  await main.getByLabel('Minutes from now').fill('600');
  await main.getByRole('dialog').getByRole('button', {name: 'Renew'}).click();
  await main.getByText('Its end is moved.').waitFor();
  assert.ok((await api('GET', `/v1/sandboxes/${box}`)).expiresAt > before);
  await go(main, `sandboxes/${box}/audit`);
  for (const what of ['renew-expiration', 'pause', 'rollback']) await main.getByRole('row').filter({hasText: `/${what}`}).filter({hasText: 'success'}).first().waitFor();
  await go(main, `sandboxes/${box}`);
});

await test('metrics are drawn', async () => {
  await until('points', () => main.locator('.plot .line').first().evaluate((p) => (p.getAttribute('d').match(/L/g) ?? []).length >= 2));
});

await test('the screen of a VNC server is shown', async () => {
  const run = (command, background = false) => fetch(`${BASE}/v1/sandboxes/${box}/proxy/44772/command`, {method: 'POST', headers: {'OPEN-SANDBOX-API-KEY': KEY}, body: JSON.stringify({command, background})}).then((r) => r.text());
  if (!(await run('command -v qemu-system-x86_64')).includes('/qemu')) return 'there is no qemu-system-x86_64, which has a VNC server';
  await run('exec qemu-system-x86_64 -S -m 16 -nodefaults -vga std -display vnc=127.0.0.1:1 >/tmp/qemu.log 2>&1', true);
  await go(main, `sandboxes/${box}/desktop`);
  await main.getByRole('button', {name: 'Connect to port 5901'}).click();
  const screen = main.locator('.desktop canvas');
  await main.getByText('Connected', {exact: true}).last().waitFor();
  await until('the screen', () => screen.evaluate((c) => c.width > 200 && [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].some((v, i) => i % 4 !== 3 && v > 0)));
  await main.getByRole('button', {name: 'Disconnect'}).click();
  await main.getByText('The connection has ended').waitFor();
});

// --- other pages ---

await test('volumes are made and removed', async () => {
  await go(main, 'volumes');
  await main.getByLabel('Name').fill('console-data');
  await main.getByRole('button', {name: 'Make', exact: true}).click();
  const row = main.getByRole('row').filter({hasText: 'console-data'});
  await row.waitFor();
  await main.getByRole('button', {name: 'Delete volume console-data'}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Delete'}).click();
  await row.waitFor({state: 'detached'});
  assert.deepEqual((await api('GET', '/v1/volumes')).items, []);
});

await test('a pool is made, and its capacity changed', async () => {
  await go(main, 'pools');
  await main.getByRole('button', {name: 'Make a pool'}).click();
  const form = main.getByRole('dialog');
  await form.getByLabel('Name').fill('ready');
  await form.getByLabel('Waiting, at most').fill('1');
  await form.getByRole('button', {name: 'Save'}).click();
  const row = main.getByRole('row').filter({hasText: 'ready'});
  await row.getByRole('button', {name: 'Capacity'}).click();
  await form.getByLabel('In all, at most').fill('7');
  await form.getByRole('button', {name: 'Save'}).click();
  await row.filter({hasText: '0 to 7'}).waitFor();
});

await test('an image is pulled, with its progress, listed and deleted', async () => {
  await go(main, 'images');
  await main.getByText('No image is kept here yet').waitFor();
  await main.evaluate(() => {
    globalThis.meters = [];
    const note = () => document.querySelectorAll('main .meter').forEach((m) => globalThis.meters.push(m.textContent));
    new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
  });
  await main.getByLabel('Name').fill(IMAGE);
  await main.getByRole('button', {name: 'Pull'}).click();
  const row = main.getByRole('row').filter({hasText: IMAGE});
  await row.filter({hasText: /linux\/\w+/}).filter({hasText: 'MiB'}).waitFor();
  const meters = await main.evaluate(() => globalThis.meters);
  assert.ok(meters.some((m) => m.includes(IMAGE) && / MiB of .* MiB/.test(m)), meters.join('|'));
  const used = await create({image: {uri: IMAGE}, entrypoint: ['/bin/busybox', 'sleep', '3600']});
  await row.filter({hasText: 'in use'}).waitFor();
  assert.ok(await row.getByRole('button', {name: `Delete image ${IMAGE}`}).isDisabled());
  await api('DELETE', `/v1/sandboxes/${used}`);
  await row.filter({hasNotText: 'in use'}).waitFor();
  await row.getByRole('button', {name: `Delete image ${IMAGE}`}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Delete'}).click();
  await main.getByText('No image is kept here yet').waitFor();
});

await test('an image that cannot be had is told of', async () => {
  await go(main, 'images');
  await main.getByLabel('Name').fill('127.0.0.1:9/none:1');
  await main.getByRole('button', {name: 'Pull'}).click();
  await main.getByRole('alert').first().waitFor();
});

const PAGES = ['overview', 'sandboxes', 'snapshots', 'images', 'volumes', 'pools', 'keys', 'tenants', 'audit', 'health'];
const TABS = ['summary', 'terminal', 'files', 'notebook', 'logs', 'processes', 'ports', 'desktop', 'egress', 'snapshots', 'audit'];

for (const theme of ['light', 'dark'])
  await test(`axe finds nothing serious on any page, ${theme}`, async () => {
    const page = await inside({theme});
    for (const where of [...PAGES, ...TABS.map((t) => `sandboxes/${box}/${t}`)]) {
      await go(page, where);
      await page.locator('h1').first().waitFor();
      await page.locator('.loading').first().waitFor({state: 'detached'});
      if (where.endsWith('terminal')) await shellReady(page);
      // In the dark only the colours differ.
      await accessible(page, `${theme} ${where}`, theme === 'dark' ? ['color-contrast'] : undefined);
    }
    await page.context().close();
  });

await test('pages fit a telephone', async () => {
  const page = await inside({width: 390, height: 800});
  for (const where of [...PAGES, `sandboxes/${box}/files`, `sandboxes/${box}/egress`]) {
    await go(page, where);
    await page.locator('.loading').first().waitFor({state: 'detached'});
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), `${where} is too wide`);
  }
  await page.getByRole('button', {name: 'Menu'}).click();
  await page.getByRole('navigation', {name: 'Pages'}).getByRole('link', {name: 'Sandboxes'}).click();
  await page.getByRole('heading', {name: 'Sandboxes'}).waitFor();
  await page.context().close();
});

await test('everything is reached by the keyboard', async () => {
  const page = await inside();
  await go(page, 'sandboxes');
  await page.getByRole('heading', {name: 'Sandboxes'}).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('first');
  await until('the filter', async () => (await page.getByText(/ shown$/).textContent()).includes('shown'));
  assert.equal(await page.getByRole('searchbox').inputValue(), 'first');
  await page.getByRole('searchbox').blur();
  await page.keyboard.press('n');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({state: 'detached'});
  await page.reload();
  await page.getByRole('heading', {name: 'Sandboxes'}).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  await page.context().close();
});

await test('keys, tenants and audit have pages, and a key that may only read sees no buttons', async () => {
  const who = await fetch(`${BASE}/v1/whoami`, {headers: {'OPEN-SANDBOX-API-KEY': KEY}});
  if (who.status === 404) return 'this server has no roles';
  const form = main.getByRole('dialog');
  await go(main, 'tenants');
  await main.getByRole('button', {name: 'Create a tenant'}).click();
  await form.getByLabel('Name').fill('search');
  await form.getByLabel('Sandboxes').fill('20');
  await form.getByRole('button', {name: 'Save'}).click();
  const tenant = main.getByRole('row').filter({hasText: 'search'});
  await tenant.filter({hasText: '0 of 20'}).waitFor();
  await tenant.getByRole('button', {name: 'Quota'}).click();
  await form.getByLabel('Sandboxes').fill('7');
  await form.getByRole('button', {name: 'Save'}).click();
  await tenant.filter({hasText: '0 of 7'}).waitFor();
  await accessible(main, 'tenants');
  await go(main, 'keys');
  await main.getByRole('button', {name: 'Make a key'}).click();
  await form.getByLabel('Name').fill('looks');
  await form.getByLabel('Role').selectOption('read_only');
  await form.getByRole('button', {name: 'Make'}).click();
  const secret = await main.locator('.secret').textContent();
  await form.getByRole('button', {name: 'Done'}).click();
  await main.getByRole('row').filter({hasText: 'looks'}).waitFor();
  await accessible(main, 'keys');
  await go(main, 'audit');
  await main.getByRole('row').nth(3).waitFor();
  await main.getByLabel('Method').selectOption('POST');
  await main.getByRole('row').filter({hasText: 'GET'}).first().waitFor({state: 'detached'});
  await main.getByRole('row').filter({hasText: 'POST'}).first().waitFor();
  assert.equal(await main.locator('.table-frame').evaluate((f) => f.scrollWidth <= f.clientWidth + 1), true);
  await accessible(main, 'audit');
  const reader = await open();
  await login(reader, secret);
  await reader.getByRole('heading', {name: 'Overview'}).waitFor();
  await go(reader, `sandboxes/${box}`);
  await reader.locator('h1 .state', {hasText: 'Running'}).waitFor();
  await until('the role', async () => (await reader.getByRole('button', {name: 'Delete'}).count()) === 0);
  assert.equal(await reader.locator('.tabs').getByText('Terminal').count(), 0);
  assert.equal(await reader.locator('.side').getByText('Keys').count(), 0);
  const refused = await reader.evaluate(async ([id, key]) => (await fetch(`/v1/sandboxes/${id}`, {method: 'DELETE', headers: {'OPEN-SANDBOX-API-KEY': key}})).status, [box, secret]);
  assert.equal(refused, 403);
  await go(main, 'keys');
  const row = main.getByRole('row').filter({hasText: 'looks'});
  await row.getByRole('button', {name: 'Rotate'}).click();
  const turned = await main.locator('.secret').textContent();
  assert.notEqual(turned, secret);
  await form.getByRole('button', {name: 'Done'}).click();
  const knows = async (key) => (await fetch(`${BASE}/v1/whoami`, {headers: {'OPEN-SANDBOX-API-KEY': key}})).status;
  assert.deepEqual([await knows(secret), await knows(turned)], [200, 200]); // the old one, for an hour
  await row.getByRole('button', {name: 'Revoke looks'}).click();
  await form.getByRole('button', {name: 'Revoke'}).click();
  await row.waitFor({state: 'detached'});
  assert.deepEqual([await knows(secret), await knows(turned)], [401, 401]);
  await reader.getByLabel('API key').waitFor(); // who had it is asked for another
  await reader.context().close();
});

await test('a restart of the server is seen, and the terminal goes on', async () => {
  await go(main, `sandboxes/${box}/terminal`);
  await shellReady(main);
  await server('stop');
  await main.locator('.contact.bad').waitFor();
  await server('start');
  await main.locator('.contact.good').waitFor();
  await shellReady(main);
  await until('input', async () => {
    await main.locator('.xterm-helper-textarea').focus();
    await main.keyboard.type('echo again $((40+2))\n');
    await new Promise((done) => setTimeout(done, 500));
    return (await terminalText(main)).includes('again 42');
  });
});

await test('1,000 sandboxes are listed with few elements, and filtered', async () => {
  const {pagination} = await api('GET', '/v1/sandboxes?pageSize=1');
  const all = pagination.totalItems + 1000;
  await server('fill'); // rows of sandboxes that have ended, every tenth of them Failed
  const page = await inside();
  await go(page, 'sandboxes');
  await page.getByText(`${all} in all, ${all} shown`).waitFor();
  assert.ok((await page.locator('.vlist tbody tr').count()) < 80);
  await page.locator('.vlist').evaluate((v) => { v.scrollTop = v.scrollHeight; });
  const first = await api('GET', `/v1/sandboxes?pageSize=1&page=${all}`);
  await page.locator(`a[href="#/sandboxes/${first.items[0].id}"]`).first().waitFor();
  const frames = await page.locator('.vlist').evaluate(async (v) => {
    const times = [];
    let last = performance.now();
    for (let i = 0; i < 60; i++) {
      v.scrollTop = v.scrollHeight * (1 - i / 60);
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - last);
      last = performance.now();
    }
    return times.sort((a, b) => a - b);
  });
  console.log(`# frames while scrolling: median ${frames[30].toFixed(1)} ms, longest ${frames[59].toFixed(1)} ms`);
  await page.getByRole('searchbox').fill('name=box-77');
  await page.getByText(`${all} in all, 11 shown`).waitFor(); // 77, 770 to 779
  await page.getByLabel('State').selectOption('Failed');
  await page.getByText(`${all} in all, 1 shown`).waitFor();
  const extra = await create({metadata: {name: 'box-77-live'}}); // comes by an event, into a long list
  await page.getByLabel('State').selectOption('Running');
  await page.getByText(`${all + 1} in all, 1 shown`).waitFor();
  await api('DELETE', `/v1/sandboxes/${extra}`);
  await page.getByText(`${all} in all, 0 shown`).waitFor();
  const {deleted} = await api('DELETE', '/v1/sandboxes?metadata=of%3Dfill');
  assert.equal(deleted.length, 1000);
  await page.getByText(`${all - 1000} in all`).waitFor();
  await page.context().close();
});

await test('changes elsewhere appear by themselves, and bulk actions delete', async () => {
  await go(main, 'sandboxes');
  const ids = await Promise.all([1, 2, 3].map((n) => create({metadata: {bulk: `b${n}`}})));
  await main.getByRole('searchbox').fill('bulk=');
  await main.getByText(/, 3 shown/).waitFor();
  for (const [what, state] of [['Pause', 'Paused'], ['Resume', 'Running']]) {
    await main.getByLabel('Choose all').check();
    await main.getByRole('group', {name: 'Chosen sandboxes'}).getByRole('button', {name: what}).click();
    await main.getByText(`${what}: 3 done.`).waitFor();
    await until(`three that are ${state}`, async () => (await main.locator('.vlist .state', {hasText: state}).count()) === 3);
  }
  await main.getByLabel('Choose all').check();
  await main.getByRole('group', {name: 'Chosen sandboxes'}).getByRole('button', {name: 'Delete'}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Delete'}).click();
  await main.getByText('No sandbox fits the filter.').waitFor();
  for (const id of ids) assert.equal((await fetch(`${BASE}/v1/sandboxes/${id}`, {headers: {'OPEN-SANDBOX-API-KEY': KEY}})).status, 404);
});

// --- users of an OpenID provider ---

const NO_PROVIDER = 'oidc-provider is not installed';

/** A page at the console's own, after the way through the provider's. */
async function signIn(user, where = '') {
  const page = await open({hosts: [new URL(ISSUER).host]});
  await page.goto(`${BASE}/console/${where}`);
  await page.getByRole('button', {name: 'Sign in with Example'}).click();
  await page.getByLabel('User').fill(user);
  await page.getByRole('button', {name: 'Enter'}).click();
  await page.waitForURL(/\/console\//);
  return page;
}

const asUser = (page, method, path) => page.evaluate(async ([m, p]) => (await fetch(p, {method: m, headers: {'X-OpenSandbox-Console': '1'}})).status, [method, path]);

let shared = '';

await test('an operator signs in at the provider, works, and signs out', async () => {
  if (!ISSUER) return NO_PROVIDER;
  await api('POST', '/v1/tenants', {name: 'team-a', quota: {sandboxes: 5, memory: '8Gi'}});
  const page = await signIn('otto', '#/sandboxes');
  await page.getByRole('heading', {name: 'Sandboxes'}).waitFor(); // the page of before
  await page.locator('.who', {hasText: 'otto operator'}).waitFor();
  const kept = await page.evaluate(() => JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href]));
  assert.ok(!/osbs_|opensandbox.key/.test(kept), kept);
  const [cookie] = (await page.context().cookies(BASE)).filter((c) => c.name === 'osb_session');
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Lax' && cookie.value.startsWith('osbs_'), JSON.stringify(cookie));
  await page.getByRole('button', {name: 'Create', exact: true}).click();
  await page.getByRole('dialog').getByRole('button', {name: 'Create'}).click();
  await page.waitForURL(/#\/sandboxes\/[0-9a-f-]{36}/);
  await page.locator('h1 .state', {hasText: 'Running'}).waitFor();
  shared = page.url().split('/').pop();
  assert.equal((await api('GET', `/v1/sandboxes/${shared}`)).metadata['access.owner'], 'otto');
  await go(page, `sandboxes/${shared}/terminal`);
  await shellReady(page);
  await go(page, `sandboxes/${shared}/files`);
  await page.getByRole('row').filter({hasText: 'root'}).first().waitFor();
  await page.reload();
  await page.locator('.who', {hasText: 'otto'}).waitFor();
  assert.equal(await page.locator('.side').getByText('Keys').count(), 0);
  assert.equal(await asUser(page, 'GET', '/v1/audit'), 403);
  // What only those see who see all tenants is left out, and nothing is asked for that is refused.
  const refused = [];
  page.on('response', (r) => { if (r.status() === 403) refused.push(r.url()); });
  await go(page, 'overview');
  await page.getByText('Quota of team-a').waitFor();
  await page.locator('.meter', {hasText: 'Sandboxes'}).getByText('1 of 5').waitFor();
  await accessible(page, 'overview of a tenant');
  await go(page, 'health');
  await page.getByText('Store and runtime answer').waitFor();
  await go(page, 'images');
  await page.getByRole('button', {name: 'Pull'}).waitFor();
  assert.equal(await page.getByRole('button', {name: 'Prune'}).count(), 0);
  await go(page, 'tenants');
  await page.getByRole('row').filter({hasText: 'team-a'}).waitFor();
  assert.equal(await page.getByRole('button', {name: 'Quota'}).count(), 0);
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.deepEqual(refused, []);
  await page.getByRole('button', {name: 'Log out'}).click();
  await page.getByLabel('API key').waitFor();
  await accessible(page, 'login with a provider');
  assert.equal(await asUser(page, 'GET', '/v1/whoami'), 401);
  await page.context().addCookies([cookie]); // whoever kept it has nothing
  assert.equal(await asUser(page, 'GET', '/v1/whoami'), 401);
  await page.context().close();
});

await test('a reader signs in and sees no buttons; a stranger is told why not', async () => {
  if (!ISSUER) return NO_PROVIDER;
  const reader = await signIn('vera');
  await reader.getByRole('heading', {name: 'Overview'}).waitFor();
  await reader.locator('.who', {hasText: 'vera read_only'}).waitFor();
  await go(reader, `sandboxes/${shared}`);
  await reader.locator('h1 .state', {hasText: 'Running'}).waitFor();
  assert.equal(await reader.getByRole('button', {name: 'Delete'}).count(), 0);
  assert.equal(await reader.locator('.tabs').getByText('Terminal').count(), 0);
  assert.equal(await asUser(reader, 'DELETE', `/v1/sandboxes/${shared}`), 403);
  assert.equal(await asUser(reader, 'GET', `/v1/sandboxes/${box}`), 404); // another tenant's
  const stranger = await signIn('none');
  await stranger.getByRole('alert').filter({hasText: 'no role'}).waitFor();
  assert.ok(!stranger.url().includes('signin'), stranger.url());
  await stranger.context().close();
  await server('stop');
  await server('start');
  await reader.getByRole('alert').filter({hasText: 'no longer signed in'}).waitFor();
  await reader.context().close();
});

await test('the sandbox is deleted', async () => {
  await go(main, `sandboxes/${box}`);
  await main.getByRole('button', {name: 'Delete'}).click();
  await main.getByRole('dialog').getByRole('button', {name: 'Delete'}).click();
  await main.waitForURL(/#\/sandboxes$/);
  assert.equal((await fetch(`${BASE}/v1/sandboxes/${box}`, {headers: {'OPEN-SANDBOX-API-KEY': KEY}})).status, 404);
});

await test('the browser had nothing to complain of', async () => {
  assert.deepEqual(complaints, []);
});

await finish();
