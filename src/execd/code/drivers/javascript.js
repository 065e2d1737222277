/* javascript.js - cells of javascript and typescript, for Node.js 18 and later.
 *
 * The inspector of our own process evaluates them: V8 then lets `const`, `let` and `class` be
 * declared again, awaits at top level, and tells the value of the last expression. The protocol is
 * in docs/internals/execd.md. The value of this script is what driver.c's boot line calls. */
(function driver(require, importModule) {
'use strict';

const fs = require('fs');
const inspector = require('inspector');
const nodeModule = require('module');
const net = require('net');
const path = require('path');
const util = require('util');
const { promiseHooks } = require('v8');
const vm = require('vm');
const { Worker } = require('worker_threads');

const REQUESTS = 3, EVENTS = 4, SOURCE = 5;
const IMPORT = '__execd_import'; // stands for import() in cells, which the inspector cannot

/* --- events --- */

const nap = new Int32Array(new SharedArrayBuffer(4));

/* Written at once: standard output is too, when it is a pipe, so both keep their order. */
function send(event) {
  const bytes = Buffer.from(JSON.stringify(event) + '\n');
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(EVENTS, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(nap, 0, 0, 1);
    }
  }
}

/* --- what values look like --- */

const SIGNATURES = [
  ['image/png', Buffer.from([0x89, 0x50, 0x4e, 0x47])],
  ['image/jpeg', Buffer.from([0xff, 0xd8, 0xff])],
  ['image/gif', Buffer.from('GIF8')],
];
const METHODS = [
  ['text/html', '_toHtml'], ['image/svg+xml', '_toSvg'], ['image/png', '_toPng'],
  ['image/jpeg', '_toJpeg'],
];

function isBundle(value) {
  if (value === null || typeof value !== 'object') return false;
  const types = Object.keys(value);
  return types.length > 0 && types.every((type) => /^[a-z]+\/[\w.+-]+$/.test(type));
}

function isJson(type) {
  return type === 'application/json' || type.endsWith('+json');
}

/* Values as the protocol wants them: text, binary in base64, or JSON. */
function settle(bundle, value) {
  const data = {};
  for (const [type, part] of Object.entries(bundle)) {
    if (isJson(type)) data[type] = part;
    else if (ArrayBuffer.isView(part)) data[type] = Buffer.from(part.buffer, part.byteOffset,
      part.byteLength).toString('base64');
    else data[type] = String(part);
  }
  if (data['text/plain'] === undefined) data['text/plain'] = util.inspect(value);
  return data;
}

/* What an object says of itself: as Deno's notebooks have it, or by methods. */
async function richBundle(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return {};
  const own = value[Symbol.for('Jupyter.display')];
  if (typeof own === 'function') return await own.call(value);
  if (typeof value._toMime === 'function') return await value._toMime();
  const bundle = {};
  for (const [type, method] of METHODS) {
    if (typeof value[method] === 'function') bundle[type] = await value[method]();
  }
  if (Buffer.isBuffer(value)) {
    const found = SIGNATURES.find(([, head]) => value.subarray(0, head.length).equals(head));
    if (found) bundle[found[0]] = value;
  }
  return bundle;
}

async function describe(value) {
  return settle(await richBundle(value), value);
}

/* For cells: display(value), display({'text/html': '...'}); with an id, to be shown anew. */
async function display(value, { id = '', update = false } = {}) {
  const data = isBundle(value) ? settle(value, value) : await describe(value);
  send({ type: 'display', id: String(id), update: Boolean(update), data });
}

/* --- what went wrong --- */

/* The stack without what called the cell: the inspector, and us above it. */
function ownFrames(lines) {
  let skipping = false;
  return lines.filter((line) => {
    if (!/^\s+at /.test(line)) return true;
    if (/node:inspector|node:internal\/process\/task_queues/.test(line)) skipping = true;
    return !skipping && !/execd:driver|\[eval\d*\]|node:internal\/modules\/esm/.test(line);
  });
}

function describeError(error, where) {
  if (!util.types.isNativeError(error) && !(error instanceof Error)) {
    const text = util.inspect(error);
    return { type: 'error', ename: 'Uncaught', evalue: text, traceback: [`Uncaught ${text}`] };
  }
  const evalue = String(error.message);
  const lines = ownFrames(util.inspect(error).split('\n'));
  return { type: 'error', ename: String(error.name), evalue, traceback: [...where, ...lines] };
}

const INTERRUPTED = {
  type: 'error', ename: 'Interrupted', evalue: 'the cell was interrupted',
  traceback: ['Interrupted: the cell was interrupted'],
};

/* A syntax error has no frame; V8 says elsewhere where it is. */
function errorPlace(error, details, code, count) {
  if (!(error instanceof SyntaxError) || /cell-\d+:/.test(error.stack)) return [];
  const line = code.split('\n')[details.lineNumber] ?? '';
  const mark = ' '.repeat(Math.min(details.columnNumber, line.length)) + '^';
  return [`cell-${count}:${details.lineNumber + 1}`, line, mark, ''];
}

/* --- modules --- */

/* Each finds a token where it stands. A regular expression is told from a division by what came
 * before it. */
const TOKEN = {
  space: /\s+/y, line: /\/\/[^\n]*/y, block: /\/\*[^]*?(?:\*\/|$)/y,
  string: /'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"/y,
  word: /[\p{L}\p{N}_$]+/uy,
  regexp: /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/\w*/y,
  quasi: /(?:\\[^]|\$(?!\{)|[^`\\$])*(?:`|\$\{|$)/y,
};
const STATIC = new RegExp(String.raw`import\s*(?:([\w$*{}\s,]+?)\s*\bfrom\s*)?` +
  String.raw`('[^'\n]*'|"[^"\n]*")(?:\s*(?:with|assert)\s*(\{[^}]*\}))?[ \t]*;?`, 'y');
const EXPORT = /export\s+(?:default\s+|(?=(?:const|let|var|class|function|async)\b))/y;
const BEFORE_REGEXP = /^(?:return|typeof|case|in|of|do|else|void|delete|await|yield|throw|new)$/;

function match(regexp, code, at) {
  regexp.lastIndex = at;
  return regexp.exec(code);
}

/* `import a, {b as c} from "m"` as an await of import(), on as many lines. */
function importStatement([text, clause, specifier, attributes]) {
  const call = `await ${IMPORT}(${specifier}${attributes ? `, {with: ${attributes}}` : ''});`;
  const lines = '\n'.repeat(text.split('\n').length - 1);
  if (clause === undefined) return call + lines;
  const [, first, space, names] = clause.replace(/\s+/g, ' ').trim()
    .match(/^(?:([\w$]+) ?,? ?)?(?:\* ?as ([\w$]+)|\{(.*)\})?$/) ?? [];
  const parts = (names ?? '').split(',').map((name) => name.trim())
    .filter((name) => name && !name.startsWith('type '))
    .map((name) => name.replace(/ as /, ': '));
  if (first) parts.unshift(`default: ${first}`);
  const all = space ? `${space} = ${call.slice(0, -1)}` : '';
  if (space && !first) return `const ${all};${lines}`;
  if (space) return `const ${all}, {default: ${first}} = ${space};${lines}`;
  return `const {${parts.join(', ')}} = ${call}${lines}`;
}

/* The code with its imports made calls, and its declarations no longer exported. */
function withoutModules(code) {
  if (!/\b(?:import|export)\b/.test(code)) return code;
  const open = []; // '{', '(', '[', and '`' for the ${ of a template
  let out = '', before = '', fresh = true; // the last token; a statement may begin
  for (let at = 0; at < code.length;) {
    let text = code[at], made;
    const blank = match(TOKEN.space, code, at) ?? match(TOKEN.line, code, at) ??
      match(TOKEN.block, code, at);
    const word = blank ? null : match(TOKEN.word, code, at);
    if (blank) {
      text = blank[0];
      fresh ||= open.length === 0 && text.includes('\n');
    } else if (word) {
      text = word[0];
      const statement = open.length === 0 && fresh &&
        (text === 'import' ? match(STATIC, code, at) :
          text === 'export' ? match(EXPORT, code, at) : null);
      if (statement) {
        text = statement[0];
        made = word[0] === 'import' ? importStatement(statement) : text.replace(/[^\n]/g, '');
      } else if (text === 'import' && before !== '.' && /^\s*\(/.test(code.slice(at + 6))) {
        made = IMPORT;
      }
    } else if (text === '`' || (text === '}' && open[open.length - 1] === '`')) {
      if (text === '}') open.pop();
      text += match(TOKEN.quasi, code, at + 1)[0];
      if (text.endsWith('${')) open.push('`');
    } else if (text === '"' || text === "'") {
      text = match(TOKEN.string, code, at)?.[0] ?? text;
    } else if (text === '/') {
      const operand = /[\p{L}\p{N}_$)\]}'"`]$/u.test(before) && !BEFORE_REGEXP.test(before);
      text = (operand ? null : match(TOKEN.regexp, code, at)?.[0]) ?? text;
    } else if ('{(['.includes(text)) {
      open.push(text);
    } else if ('})]'.includes(text)) {
      open.pop();
    }
    if (!blank) {
      fresh = text.endsWith(';') || text === '}' || made === '';
      before = text;
    }
    out += made ?? text;
    at += text.length;
  }
  return out;
}

/* import() as cells have it: files are relative to the working directory of now. */
function importForCell(specifier, options) {
  const text = String(specifier);
  if (!/^(?:\.{0,2}\/|\.\.?$)/.test(text)) return importModule(text, options);
  return importModule(require('url').pathToFileURL(path.resolve(text)).href, options);
}

/* --- typescript --- */

/* Where npm puts global packages, besides NODE_PATH: by our own place, and as Debian has it. */
function modulePlaces() {
  const prefix = path.dirname(path.dirname(process.execPath));
  const shared = ['/usr/local/lib', '/usr/lib', '/usr/share/nodejs'];
  return [process.cwd(), path.join(prefix, 'lib'), ...shared].flatMap(
    (place) => [place, path.join(place, 'node_modules')]);
}

/* The package, before its version 7, which has no such function any more. */
function findTypescript() {
  try {
    const ts = require(require.resolve('typescript', { paths: modulePlaces() }));
    return ts.transpileModule ? ts : null;
  } catch {
    return null;
  }
}

/* (code) => javascript, or null when nothing could do it. Types are removed, not checked. */
function findTranspiler() {
  const ts = findTypescript();
  if (ts) return (code) => transpile(ts, code);
  const strip = nodeModule.stripTypeScriptTypes;
  return strip ? (code) => quietly(() => strip(code, { mode: 'transform' })) : null;
}

function transpile(ts, code) {
  const { outputText, diagnostics } = ts.transpileModule(code, {
    fileName: 'cell.ts', reportDiagnostics: true,
    compilerOptions: {
      target: ts.ScriptTarget.ES2022 ?? ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext,
      isolatedModules: true, removeComments: false, alwaysStrict: false,
      // An import that this cell does not use is for the next one. The second is the older name.
      ...(ts.versionMajorMinor >= '5' ? { verbatimModuleSyntax: true } :
        { preserveValueImports: true, importsNotUsedAsValues: 1, ignoreDeprecations: '5.0' }),
    },
  });
  const found = diagnostics.find((one) => one.file && one.code < 2000);
  if (!found) return outputText;
  const { line } = found.file.getLineAndCharacterOfPosition(found.start);
  const text = ts.flattenDiagnosticMessageText(found.messageText, '\n');
  throw new SyntaxError(`${text} (line ${line + 1})`);
}

/* Node warns that its own way is experimental; nobody here can choose another. */
function quietly(run) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return run();
  } finally {
    process.emitWarning = emitWarning;
  }
}

/* --- interrupts ---
 *
 * Only a thread of its own notices SIGINT while a cell spins, also after an `await`: there a script
 * that ends at SIGINT sleeps. It tells us, and when we do not hear it, it ends what runs. */

const CELL = 0, HEARD = 1;
const shared = new Int32Array(new SharedArrayBuffer(8));

function watch({ parentPort, workerData: state }) {
  const { Session } = require('inspector');
  const { Script } = require('vm');
  const sleep = new Script('__execd_sleep()'), guard = new Script('__execd_guard()');
  const never = new Int32Array(new SharedArrayBuffer(4));
  const CELL = 0, HEARD = 1, PATIENCE_MS = 30;

  function interrupt(cell, heard) {
    parentPort.postMessage(cell);
    if (Atomics.wait(state, HEARD, heard, PATIENCE_MS) !== 'timed-out') return;
    if (Atomics.load(state, CELL) !== cell) return;
    const session = new Session();
    session.connectToMainThread();
    session.post('Runtime.terminateExecution');
    Atomics.wait(state, HEARD, heard, 1000);
    session.disconnect();
  }
  globalThis.__execd_sleep = () => Atomics.wait(never, 0, 0);
  // SIGINT is ours as long as one of the two is under way: the outer one never ends.
  globalThis.__execd_guard = () => {
    for (;;) {
      try {
        sleep.runInThisContext({ breakOnSigint: true });
      } catch {
        const heard = Atomics.load(state, HEARD), cell = Atomics.load(state, CELL);
        if (cell !== 0) interrupt(cell, heard);
      }
    }
  };
  parentPort.postMessage(0);
  for (;;) {
    try {
      guard.runInThisContext({ breakOnSigint: true });
    } catch { /* a second SIGINT, while we dealt with the first */ }
  }
}

/* --- cells --- */

const session = new inspector.Session();
let current = null; // {number, finish}: the cell under way
let cells = 0;
let caught; // what the inspector holds, handed over by hand()

function post(method, params) {
  return new Promise((resolve) => {
    session.post(method, params, (error, reply) => resolve(error ? { error } : reply));
  });
}

let handId;

/* The value itself, of which the inspector told the id. */
async function valueOf(remote) {
  const { objectId, unserializableValue, value } = remote;
  const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } :
    remote.type === 'undefined' ? {} : { value };
  await post('Runtime.callFunctionOn',
    { functionDeclaration: 'function (v) { this(v); }', objectId: handId, arguments: [argument] });
  const found = caught;
  caught = undefined;
  return found;
}

/* {a: 1} is a block to the language, but the user means an object. */
function asExpression(code) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return code;
  try {
    new vm.Script(`(${code}\n)`);
    return `(${code}\n)`;
  } catch {
    return code;
  }
}

const waiting = new Set(); // promises of cells that did not end yet

/* The inspector waits for the promise of the cell, without holding it. One that can never settle
 * would be collected, and Node.js dies of telling us so; it is the first that evaluation makes. */
async function postHeld(method, params) {
  let held = null;
  const reply = await new Promise((resolve) => {
    const stop = promiseHooks.onInit((promise) => {
      held = promise;
      waiting.add(promise);
      stop();
    });
    session.post(method, params, (error, found) => resolve(error ? { error } : found));
    if (!held) stop();
  });
  waiting.delete(held);
  return reply;
}

async function evaluate(code, count) {
  const expression = `${code}\n//# sourceURL=cell-${count}`;
  const reply = await postHeld('Runtime.evaluate',
    { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' });
  if (reply.error) return INTERRUPTED; // nothing else ends an evaluation from outside
  const { result, exceptionDetails: details } = reply;
  if (details) {
    const error = await valueOf(details.exception ?? result);
    return describeError(error, errorPlace(error, details, code, count));
  }
  const value = await valueOf(result);
  return value === undefined ? null : { type: 'result', data: await describe(value) };
}

function prepare(code, translate) {
  try {
    return asExpression(withoutModules(translate(code)));
  } catch (error) {
    // Of the compiler, not of the cell: no frames but one of ours, which is not shown.
    throw Object.assign(new SyntaxError(error.message),
      { stack: `SyntaxError: ${error.message}\n    at execd:driver` });
  }
}

async function run({ id, code, count }, translate) {
  let outcome;
  const number = ++cells;
  const interrupted = new Promise((resolve) => {
    current = { number, finish: () => resolve(INTERRUPTED) };
  });
  refreshRequire();
  Atomics.store(shared, CELL, number);
  send({ type: 'begin', id });
  try {
    const ready = prepare(String(code), translate);
    outcome = await Promise.race([evaluate(ready, count), interrupted]);
  } catch (error) {
    outcome = describeError(error, []);
  }
  Atomics.store(shared, CELL, 0);
  current = null;
  if (outcome) send(outcome);
  send({ type: 'done', id });
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
}

/* --- what cells find --- */

let requiredFrom;

/* require() is relative to the working directory of now. */
function refreshRequire() {
  if (requiredFrom === process.cwd()) return;
  requiredFrom = process.cwd();
  define('require', nodeModule.createRequire(path.join(requiredFrom, 'cell.js')));
}

function define(name, value) {
  Object.defineProperty(globalThis, name,
    { value, writable: true, configurable: true, enumerable: false });
}

function prepareGlobals() {
  for (const name of ['__filename', '__dirname', 'module', 'exports']) delete globalThis[name];
  define(IMPORT, importForCell);
  define('display', display);
  Object.defineProperty(process, 'stdin', {
    get() { throw new Error('a cell has no standard input: pass what it needs as code or files'); },
    configurable: true, enumerable: false,
  });
  process.argv = [process.execPath];
  process.execArgv = [];
  process.on('uncaughtException', (error) => complain('Uncaught', error));
  process.on('unhandledRejection', (error) => complain('Uncaught (in promise)', error));
}

/* What fails outside of every cell, in a timer say, ends nothing. */
function complain(how, error) {
  process.stderr.write(`${how} ${ownFrames(util.inspect(error).split('\n')).join('\n')}\n`);
}

/* --- start --- */

async function findHand() {
  define('__execd_hand', (value) => { caught = value; });
  const { result } = await post('Runtime.evaluate', { expression: '__execd_hand' });
  delete globalThis.__execd_hand;
  handId = result.objectId;
}

function serve(translate) {
  const requests = new net.Socket({ fd: REQUESTS, readable: true, writable: false });
  const pieces = [];
  requests.on('data', (piece) => {
    for (let end; (end = piece.indexOf(10)) >= 0; piece = piece.subarray(end + 1)) {
      pieces.push(piece.subarray(0, end));
      run(JSON.parse(Buffer.concat(pieces.splice(0)).toString()), translate);
    }
    pieces.push(piece);
  });
  requests.on('end', () => process.exit(0));
  requests.on('error', () => process.exit(1));
}

function startWatcher(onReady) {
  const source = `(${watch})(require('worker_threads'))`;
  const watcher = new Worker(source, { eval: true, workerData: shared, execArgv: [] });
  watcher.unref();
  watcher.on('message', (cell) => {
    if (cell === 0) return onReady();
    if (current?.number === cell) current.finish();
    Atomics.add(shared, HEARD, 1);
    Atomics.notify(shared, HEARD);
  });
}

function main() {
  const typescript = process.argv[1] === 'typescript';
  fs.closeSync(SOURCE);
  const translate = typescript ? findTranspiler() : (code) => code;
  if (!translate) {
    send({ type: 'failed', message: 'typescript is not in this image: npm install -g ' +
      'typescript@5, or install Node.js 22.13 or newer, which needs no package' });
    process.exit(1);
  }
  process.on('SIGUSR1', () => {}); // would begin a debugger, and end our session with that
  session.connect();
  prepareGlobals();
  startWatcher(async () => {
    await findHand();
    serve(translate);
    send({ type: 'ready' });
  });
}

main();
})
