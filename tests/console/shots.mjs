// Pictures of every page, light and dark, into the directory SHOTS.
import path from 'node:path';
import {api, BASE, create, finish, go, IMAGE, inside, ISSUER, KEY, open, SHOTS, shellReady, terminalText, test, until} from './browser.mjs';

const call = (where, body) => fetch(BASE + where, {method: 'POST', headers: {'OPEN-SANDBOX-API-KEY': KEY}, body: JSON.stringify(body)}).then((r) => r.text());

const IMAGES = ['host'];
const boxes = [];
for (let i = 0; i < 9; i++)
  boxes.push(await create({image: {uri: IMAGES[i % IMAGES.length]}, metadata: {name: ['crawler', 'trainer', 'review', 'docs', 'search', 'billing', 'nightly', 'agent', 'demo'][i], team: ['search', 'data', 'web'][i % 3]},
    networkPolicy: {defaultAction: 'deny', egress: [{action: 'allow', target: 'example.org'}, {action: 'allow', target: '*.example.com', ports: [443]}]},
    ...(i === 8 ? {entrypoint: ['sh', '-c', 'i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo "worker $i: indexed $((i * 137)) documents"; done; exec sleep 3600'], env: {MODE: 'demo'}} : {})}));
const box = boxes[8];
await api('POST', `/v1/sandboxes/${boxes[2]}/pause`);
await api('POST', `/v1/sandboxes/${box}/snapshots`, {name: 'before-upgrade'});
await api('POST', `/v1/sandboxes/${box}/fork`, {count: 2, metadata: {name: 'demo-fork', 'fork-of': box}});
await api('POST', '/v1/images/pull', {image: {uri: IMAGE}});
await api('POST', '/v1/volumes', {name: 'datasets'});
await api('POST', '/v1/volumes', {name: 'models', size: '64Mi'}).catch(() => undefined);
await api('POST', '/v1/pools', {name: 'python', template: {image: {uri: 'host'}, entrypoint: ['tail', '-f', '/dev/null'], resourceLimits: {memory: '256Mi'}}, capacitySpec: {bufferMin: 1, bufferMax: 3, poolMin: 0, poolMax: 10}});
await call(`/v1/sandboxes/${box}/proxy/44772/command`, {background: true, command: `mkdir -p /root/project/src && cd /root/project && echo '# Project' > README.md && echo 'print("hello")' > src/main.py && echo '<!doctype html><body style="font:20px sans-serif;padding:2em"><h1>Hello from the sandbox</h1><p>Port 8000 of a program inside.</p>' > index.html && exec python3 -m http.server 8000 --bind 127.0.0.1`});
await call(`/v1/sandboxes/${box}/proxy/44772/command`, {command: `python3 -c "
import socket
for n in ('telemetry.example.net', 'pypi.example.edu', 'tracker.example.io'):
    try: socket.getaddrinfo(n, 443)
    except OSError: pass"`});
await call(`/v1/sandboxes/${box}/proxy/44772/command`, {background: true, command: 'while :; do i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 1; done'});

await api('POST', '/v1/tenants', {name: 'search', quota: {sandboxes: 20, cpu: '16', memory: '64Gi', createsPerMinute: 60}});
await api('POST', '/v1/tenants', {name: 'data', quota: {sandboxes: 100}});
for (const [name, role, tenant] of [['search-ci', 'operator', 'search'], ['search-lead', 'admin', 'search'], ['dashboards', 'read_only', 'data']])
  await api('POST', '/v1/keys', {name, role, tenant, expiresAt: new Date(Date.now() + 90 * 86400000).toISOString()});

const CELL = `values = [3, 7, 4, 11, 8, 13, 9, 6]
class Chart:
    def __repr__(self): return 'requests per hour'
    def _repr_svg_(self):
        bars = ''.join('<rect x="%d" y="%d" width="36" height="%d" fill="#2456d6"/>' % (20 + i * 48, 150 - v * 10, v * 10) for i, v in enumerate(values))
        return '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="170"><path d="M10 150H410" stroke="#888"/>%s</svg>' % bars
print('total', sum(values))
Chart()`;

const READY = {
  overview: (p) => p.waitForTimeout(8000),
  terminal: async (p) => {
    await shellReady(p);
    await p.locator('.xterm-helper-textarea').focus();
    await p.keyboard.type('cd /root/project && ls -l && uname -sr && python3 src/main.py\n');
    await until('output', async () => (await terminalText(p)).includes('hello'));
  },
  files: async (p) => {
    await p.getByRole('button', {name: 'root', exact: true}).click();
    await p.getByRole('button', {name: 'project', exact: true}).click();
    await p.getByRole('button', {name: 'README.md', exact: true}).waitFor();
  },
  notebook: async (p) => {
    await p.getByLabel('Code of cell 1').fill(CELL);
    await p.getByLabel('Code of cell 1').press('Control+Enter');
    await p.locator('img.rich').waitFor();
  },
  summary: (p) => p.waitForTimeout(6000),
  ports: async (p) => {
    await p.getByRole('row').filter({hasText: '8000'}).getByRole('button', {name: 'Preview'}).click();
    await p.frameLocator('iframe.preview').locator('h1').waitFor();
  },
  egress: (p) => p.getByText('telemetry.example.net').first().waitFor(),
};

const PAGES = ['overview', 'sandboxes', 'snapshots', 'images', 'volumes', 'pools', 'keys', 'tenants', 'audit', 'health'];
const TABS = ['summary', 'terminal', 'files', 'notebook', 'logs', 'processes', 'ports', 'desktop', 'egress', 'snapshots', 'audit'];

for (const theme of ['light', 'dark'])
  await test(`pictures, ${theme}`, async () => {
    const shot = (p, name) => p.screenshot({path: path.join(SHOTS, `${name}-${theme}.png`)});
    const first = await open({theme, width: 1280, height: 800});
    await first.goto(`${BASE}/console`);
    await first.getByLabel('API key').waitFor();
    if (ISSUER) await first.getByRole('button', {name: 'Sign in with Example'}).waitFor();
    await shot(first, 'login');
    await first.context().close();
    const page = await inside({theme, width: 1280, height: 800});
    for (const where of [...PAGES, ...TABS.map((t) => `sandboxes/${box}/${t}`)]) {
      const name = where.split('/').pop();
      const inBox = where.includes('/');
      if (!inBox && ['keys', 'tenants', 'audit'].includes(name) && !(await page.getByRole('navigation', {name: 'Pages'}).getByRole('link', {name: new RegExp(name, 'i')}).count())) continue;
      if (inBox && name === 'audit' && !(await page.locator('.tabs').getByText('Audit').count())) continue;
      await go(page, where);
      await page.locator('h1').first().waitFor();
      await page.locator('.loading').first().waitFor({state: 'detached'});
      await READY[name]?.(page);
      await page.waitForTimeout(400);
      await shot(page, inBox ? `sandbox-${name}` : name);
    }
    await go(page, 'sandboxes');
    await page.getByRole('button', {name: 'Create', exact: true}).click();
    await page.getByRole('dialog').waitFor();
    await shot(page, 'create');
    await page.context().close();
  });

await test('a picture of a telephone', async () => {
  const page = await inside({width: 390, height: 800});
  await page.waitForTimeout(3000);
  const wide = await page.evaluate(() => [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => `${e.tagName}.${e.getAttribute('class')} ${e.getBoundingClientRect().right}`).slice(0, 12));
  console.log(`# too wide: ${JSON.stringify(wide)}`);
  await page.screenshot({path: path.join(SHOTS, 'phone-overview.png')});
  await go(page, 'sandboxes');
  await page.waitForTimeout(1000);
  await page.screenshot({path: path.join(SHOTS, 'phone-sandboxes.png')});
  await page.context().close();
});
await finish();
