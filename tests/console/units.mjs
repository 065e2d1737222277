// units.mjs CONSOLE MODULES - functions of the console that need no page. TAP on standard output.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const [CONSOLE, MODULES] = process.argv.slice(2).map((p) => path.resolve(p));
const require = createRequire(path.join(fs.realpathSync(MODULES), 'x.js'));
const esbuild = require('esbuild');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'console-units-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));
globalThis.sessionStorage = {getItem: () => null, setItem() {}, removeItem() {}};

async function load(file) {
  const outfile = path.join(folder, file.replace(/\W/g, '_') + '.mjs');
  await esbuild.build({entryPoints: [path.join(CONSOLE, 'src', file)], outfile, bundle: true, format: 'esm', platform: 'node', jsx: 'automatic', jsxImportSource: 'preact', nodePaths: [fs.realpathSync(MODULES)], logLevel: 'error'});
  return import(pathToFileURL(outfile).href);
}

const format = await load('format.ts');
const prom = await load('prom.ts');
const stream = await load('stream.ts');
const inside = await load('sandbox/inside.tsx');
const egress = await load('sandbox/egress.tsx');
const notebook = await load('sandbox/notebook.tsx');
const snapshots = await load('sandbox/snapshots.tsx');
const sandboxes = await load('pages/sandboxes.tsx');
const create = await load('pages/create.tsx');

const live = await load('live.ts');

let count = 0;
let failed = 0;
async function test(name, run) {
  count++;
  try {
    await run();
    console.log(`ok ${count} - ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${count} - ${name}\n# ${String(error.stack).replaceAll('\n', '\n# ')}`);
  }
}

await test('sizes, durations and times read well', () => {
  assert.deepEqual([0, 1023, 1024, 1536, 5 << 20, null].map(format.bytes), ['0 B', '1023 B', '1.0 KiB', '1.5 KiB', '5.0 MiB', '–']);
  assert.deepEqual([5, 60, 61, 3600, 90000].map(format.duration), ['5 s', '1 min', '1 min 1 s', '1 h 0 min', '1 d 1 h']);
  const now = Date.parse('2026-07-01T10:00:00Z');
  assert.equal(format.ago('2026-07-01T09:59:00Z', now), '1 min ago');
  assert.equal(format.until(undefined, now), 'never');
  assert.equal(format.until('2026-07-01T09:00:00Z', now), 'due');
  assert.equal(format.ago('nonsense', now), '–');
  assert.equal(format.modeText(644), 'rw-r--r--');
});

await test('what a tenant has is told beside its quota', () => {
  const of = (quota) => format.amounts({quota, usage: {sandboxes: 2, cpuMillicores: 1500, memoryBytes: 256 << 20, diskBytes: 0}});
  assert.deepEqual(of({sandboxes: 5, cpu: '2500m', memory: String(1 << 30)}).map((a) => [a.used, a.limit, a.text]), [
    [2, 5, '2 of 5'], [1.5, 2.5, '1.5 of 2.5'], [256 << 20, 1 << 30, '256 MiB of 1.0 GiB'], [0, null, '0 B, no limit']]);
});

await test('command lines are split as a shell does', () => {
  assert.deepEqual(format.words(`sh -c 'a b' "c \\" d" e\\ f ''`), ['sh', '-c', 'a b', 'c " d', 'e f', '']);
  assert.throws(() => format.words(`sh -c 'open`), /not closed/);
});

await test('pairs are read, and a bad one is named', () => {
  assert.deepEqual(format.pairs('A=1\n\n B=x=y\n'), {A: '1', B: 'x=y'});
  assert.throws(() => format.pairs('A=1\nnonsense'), /"nonsense"/);
});

await test('paths are joined and taken apart', () => {
  assert.deepEqual([format.joinPath('/', 'a'), format.joinPath('/a/', 'b'), format.parentPath('/a/b'), format.parentPath('/a'), format.baseName('/a/b/')], ['/a', '/a/b', '/a', '/', 'b']);
});

await test('metrics are read, and quantiles taken', () => {
  const text = '# HELP x y\nx_bucket{le="0.1"} 5\nx_bucket{le="1"} 9\nx_bucket{le="+Inf"} 10\nx_sum 3\ny{a="q\\"\\\\",b="2"} 7\n';
  const found = prom.parseMetrics(text);
  assert.equal(found.length, 5);
  assert.deepEqual(found[4].labels, {a: 'q"\\', b: '2'});
  const rows = prom.buckets(found, 'x');
  assert.equal(prom.quantile(rows, 0.5), 0.1);
  assert.ok(Math.abs(prom.quantile(rows, 0.9) - 1) < 1e-9);
  assert.equal(prom.quantile(rows, 0.99), 1);
  assert.equal(prom.quantile([], 0.5), null);
  assert.deepEqual(prom.minus(rows, rows).map((b) => b.count), [0, 0, 0]);
});

await test('streams are cut into events, whatever the pieces', () => {
  const text = '{"type":"init"}\n\ndata: {"a":1}\n\n: comment\n\nid: 4\nevent: x\ndata: {"b":"é"}\n\nbroken\n\n{"c":3}\n\n';
  for (const size of [1, 3, 7, 1000]) {
    const cutter = new stream.EventCutter();
    const found = [];
    for (let i = 0; i < text.length; i += size) found.push(...cutter.push(text.slice(i, i + size)));
    assert.deepEqual(found, [{type: 'init'}, {a: 1}, {b: 'é'}, {c: 3}]);
  }
});

await test('processes and listeners are read from /proc', () => {
  const stat = '42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 12345 1000000 256 18446744073709551615';
  assert.deepEqual(inside.parseProcesses(`${stat}\tprog --x \nnonsense\n`), [{pid: 42, state: 'S', parent: 1, ticks: 200, rss: 256 * 4096, command: 'prog --x'}]);
  const tcp = '  sl  local_address rem_address   st\n   0: 0100007F:1F40 00000000:0000 0A 0:0\n   1: 00000000:0050 00000000:0000 0A 0:0\n   2: 0100007F:1F41 0100007F:0050 01 0:0\n';
  assert.deepEqual(inside.parseListeners(tcp), [{port: 80, address: 'every address'}, {port: 8000, address: 'loopback'}]);
});

await test('denied names are found among events', () => {
  const text = '2026-07-01T09:30:00Z  Running  CONTAINER_RUNNING  it runs\n2026-07-01T09:30:01Z  egress.deny    a.example.net  name is not allowed\n';
  assert.deepEqual(egress.parseDenied(text), [{time: '2026-07-01T09:30:01Z', target: 'a.example.net', why: 'name is not allowed'}]);
});

await test('outputs of a cell are joined and replaced', () => {
  let out = [];
  for (const e of [{type: 'stdout', text: 'a'}, {type: 'stdout', text: 'b'}, {type: 'result', results: {text: '1'}, display: {id: 'd', update: false}}, {type: 'result', results: {text: '2'}, display: {id: 'd', update: true}}, {type: 'error', error: {ename: 'E', evalue: 'v', traceback: []}}, {type: 'ping'}])
    out = notebook.addOutput(out, e);
  assert.deepEqual(out.map((o) => [o.kind, o.text ?? o.results.text]), [['stdout', 'ab'], ['result', '2'], ['error', 'E: v']]);
});

await test('the tree has snapshots, what was made of them, and forks, without circles', () => {
  const box = (id, more = {}) => ({id, status: {state: 'Running'}, entrypoint: [], createdAt: '', ...more});
  const boxes = [box('a', {metadata: {'fork-of': 'b'}}), box('b', {metadata: {'fork-of': 'a'}}), box('c', {snapshotId: 's'})];
  const shots = [{id: 's', sandboxId: 'a', status: {state: 'Ready'}, createdAt: ''}];
  const found = snapshots.tree(boxes[0], boxes, shots);
  assert.deepEqual(found.children.map((n) => [n.kind, n.id, n.children.map((c) => c.id)]), [['snapshot', 's', ['c']], ['sandbox', 'b', []]]);
});

await test('sandboxes are searched by words', () => {
  const s = {id: 'abc', image: {uri: 'python:3.12'}, status: {state: 'Running'}, metadata: {team: 'Search'}, entrypoint: ['tail'], createdAt: ''};
  for (const [query, yes] of [['', true], ['PYTHON', true], ['team=search', true], ['abc tail', true], ['abc head', false]]) assert.equal(sandboxes.fits(s, query), yes, query);
});

await test('rules of the form are read', () => {
  assert.deepEqual(create.parseRules('example.org\ndeny 10.0.0.0/8\n\n'), [{action: 'allow', target: 'example.org'}, {action: 'deny', target: '10.0.0.0/8'}]);
});

await test('a change that comes while the list is asked for is not missed', async () => {
  const asked = []; // answers of the list that are due
  const json = (body) => new Response(JSON.stringify(body), {headers: {'Content-Type': 'application/json'}});
  globalThis.fetch = async (where) => {
    if (where.startsWith('/v1/events')) return new Response(new ReadableStream(), {headers: {'Content-Type': 'text/event-stream'}});
    if (where.startsWith('/v1/sandboxes?')) return new Promise((done) => asked.push(() => done(json({items: [], pagination: {totalPages: 1}}))));
    return new Response('{"code":"NOT_FOUND","message":"no"}', {status: 404});
  };
  const asks = async (n) => {
    for (const end = Date.now() + 20000; asked.length < n; await new Promise((done) => setTimeout(done, 20)))
      assert.ok(Date.now() < end, `the list is not asked for a time number ${n}`); // by itself it is after 30 s
  };
  live.start();
  await asks(1);
  while (live.mode.get() !== 'events') await new Promise((done) => setTimeout(done, 5));
  live.refresh();
  asked[0]();
  await asks(2);
  asked[1]();
  for (let n = 3; n < 6; n++) { // several at once ask once more, and leave the next one heard
    await new Promise((done) => setTimeout(done, 50));
    for (let i = 0; i < 3; i++) live.refresh();
    await asks(n);
    asked[n - 1]();
  }
  live.end();
});

console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
