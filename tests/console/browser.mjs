// What console.mjs and shots.mjs share: TAP, the server, the browser. Started by test_console.py.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

export const {BASE, KEY, MODULES, SHOTS, CHROMIUM, ISSUER, IMAGE} = process.env;
const require = createRequire(path.join(MODULES, 'x.js'));
const {chromium} = require('playwright-core');
const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
export const MS = Number(process.env.WAIT_MS ?? 60000); // for what takes a second, on a machine that may do much else

// --- TAP, and the program that has the server ---

let count = 0;
let failed = 0;
export async function test(name, run) {
  count++;
  try {
    const skipped = await run();
    console.log(`ok ${count} - ${name}${skipped ? ` # SKIP ${skipped}` : ''}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${count} - ${name}\n# ${String(error.stack ?? error).replaceAll('\n', '\n# ')}`);
  }
}

const lines = readline.createInterface({input: process.stdin})[Symbol.asyncIterator]();
export async function server(command) {
  console.log(`@ ${command}`);
  const {value} = await lines.next();
  assert.equal(value, `${command} done`);
}

export async function api(method, where, body) {
  const answer = await fetch(BASE + where, {
    method,
    headers: {'OPEN-SANDBOX-API-KEY': KEY, 'Content-Type': 'application/json'},
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${where}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

export const create = async (fields = {}) => {
  const made = await api('POST', '/v1/sandboxes', {image: {uri: 'host'}, entrypoint: ['tail', '-f', '/dev/null'], resourceLimits: {cpu: '1', memory: '512Mi'}, timeout: 3600, ...fields});
  for (let i = 0; ; i++) {
    const s = await api('GET', `/v1/sandboxes/${made.id}`);
    if (s.status.state === 'Running') return made.id;
    assert.ok(i < 600 && s.status.state === 'Pending', JSON.stringify(s));
    await new Promise((done) => setTimeout(done, 100));
  }
};

// --- the browser ---

export const browser = await chromium.launch({executablePath: CHROMIUM, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']});
export const complaints = []; // of the browser: policy, scripts, foreign hosts

export async function open({theme = 'light', width = 1360, height = 900, hosts = []} = {}) {
  const context = await browser.newContext({viewport: {width, height}, colorScheme: theme, acceptDownloads: true});
  const page = await context.newPage();
  page.setDefaultTimeout(MS);
  page.on('console', (m) => {
    if (/content security policy|refused to/i.test(m.text())) complaints.push(m.text());
  });
  page.on('pageerror', (e) => complaints.push(`script: ${e.message}`));
  page.on('request', (r) => {
    const url = new URL(r.url());
    if (/^(https?|wss?):$/.test(url.protocol) && url.host !== new URL(BASE).host && !hosts.includes(url.host)) complaints.push(`foreign host: ${r.url()}`);
    if (r.url().includes(KEY)) complaints.push(`the key is in an address: ${r.url()}`);
  });
  return page;
}

export async function login(page, key = KEY) {
  await page.goto(`${BASE}/console`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', {name: 'Log in'}).click();
}

export async function inside(options) {
  const page = await open(options);
  await login(page);
  await page.getByRole('heading', {name: 'Overview'}).waitFor();
  return page;
}

export const go = async (page, where) => {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${where}`);
};

export async function accessible(page, where, rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']) {
  // By the protocol of the browser: the page's own policy lets no script in.
  const found = await page.evaluate(`(() => {${AXE}; return axe.run(document, {resultTypes: ['violations'], runOnly: ${JSON.stringify(rules)}});})()`);
  const bad = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
  assert.deepEqual(bad.map((v) => `${where}: ${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).slice(0, 3).join(' | ')}`), []);
}

export const shellReady = (page) => page.locator('.terminal-tab [role=status]', {hasText: /^Connected$/}).waitFor();

export const terminalText = (page) => page.evaluate(() => [...document.querySelectorAll('.xterm-rows > div')].map((r) => r.textContent).join('\n'));

export async function until(what, check, ms = MS) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

export async function finish() {
  await browser.close();
  console.log(`1..${count}`);
  process.exit(failed ? 1 : 0);
}
