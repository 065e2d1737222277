// test_docs_page.mjs PAGE SPEC.json... - the page at /docs shows every operation of a document.
//
// Runs the page's own script without a browser: its functions turn a document into text.
import assert from "node:assert/strict";
import fs from "node:fs";
import vm from "node:vm";

const [pagePath, ...specPaths] = process.argv.slice(2);
const page = fs.readFileSync(pagePath, "utf8");
const scripts = [...page.matchAll(/<script>([^]*?)<\/script>/g)].map(m => m[1]);
const specs = specPaths.map(path => JSON.parse(fs.readFileSync(path, "utf8")));

// What the script calls its own, handed out.
const own = vm.runInNewContext(`${scripts[0]}\n;({render, operations, curl, prose, escape})`, {});

let count = 0, failed = 0;
function test(sentence, run) {
  count++;
  try {
    run();
    console.log(`ok ${count} - ${sentence}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${count} - ${sentence}\n# ${error.stack.replace(/\n/g, "\n# ")}`);
  }
}

const VOID = new Set(["br", "input", "link", "meta"]);

// Whether every element is closed, in order.
function unbalanced(html) {
  const open = [];
  for (const [, close, name] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)(?:\s[^<>]*)?>/g)) {
    if (close && open.pop() !== name) return `</${name}>`;
    if (!close && !VOID.has(name)) open.push(name);
  }
  return open.pop();
}

test("the page has one script and loads nothing from elsewhere", () => {
  assert.equal(scripts.length, 1);
  assert.doesNotMatch(page, /(?:https?:)?\/\/[a-z0-9.-]+\.[a-z]{2,}|<script[^>]+src|@import|\burl\(/i);
});

for (const spec of specs) {
  const {index, content} = own.render(spec);
  const operations = own.operations(spec);

  test(`${spec.info.title}: every operation is there, once`, () => {
    assert.ok(operations.length > 10);
    for (const {method, path, op} of operations) {
      assert.equal(content.split(`id="${op.operationId}"`).length, 2, op.operationId);
      assert.ok(index.includes(`href="#${op.operationId}"`), op.operationId);
      assert.ok(content.includes(`${method.toUpperCase()}</span> <code>${own.escape(path)}</code>`));
    }
  });
  test(`${spec.info.title}: each has its answers and an example`, () => {
    for (const {op} of operations) {
      const part = content.split(`id="${op.operationId}"`)[1].split("</details>")[0];
      for (const status of Object.keys(op.responses))
        assert.ok(part.includes(`<b>${status}</b>`), `${op.operationId} ${status}`);
      assert.match(part, /<pre>curl /, op.operationId);
    }
  });
  test(`${spec.info.title}: what it refers to is resolved`, () => {
    assert.doesNotMatch(content, /\$ref|undefined|\[object Object\]|NaN/);
  });
  test(`${spec.info.title}: its HTML is balanced`, () => {
    assert.equal(unbalanced(content), undefined);
    assert.equal(unbalanced(index), undefined);
  });
}

test("a body is described member by member, through references", () => {
  const part = own.render(specs[0]).content.split('id="createSandbox"')[1].split("</details>")[0];
  for (const name of ["resourceLimits", "mountPath", "claimName", "lastTransitionAt"])
    assert.ok(part.includes(`<code>${name}</code>`), name);
});

test("an example of curl is one for a shell", () => {
  const {item, op} = own.operations(specs[0]).find(o => o.op.operationId === "createSandbox");
  assert.match(own.curl(specs[0], "post", "/v1/sandboxes", [], op),
    /^curl -X POST -H "OPEN-SANDBOX-API-KEY: \$KEY" -H .* -d '\{.*\}' "\$SERVER\/v1\/sandboxes"$/s);
  assert.ok(item);
  const quoted = {requestBody: {content: {"application/json": {examples: {a: {value: "it's"}}}}}};
  assert.ok(own.curl({}, "post", "/x", [], quoted).includes(`'"it'\\''s"'`));
});

test("texts of a document cannot become elements", () => {
  const evil = '<img src=x onerror=alert(1)> "\'&';
  const spec = {
    info: {title: evil, version: evil, description: evil},
    tags: [{name: "t", description: evil}],
    paths: {[`/${evil}`]: {get: {
      tags: ["t"], operationId: evil, summary: evil, description: evil,
      parameters: [{name: evil, in: evil, schema: {type: evil, enum: [evil], pattern: evil}}],
      responses: {200: {description: evil, "x-codes": [evil],
        content: {[evil]: {schema: {properties: {[evil]: {default: evil}}},
          examples: {a: {summary: evil, value: evil}}}}}},
    }}},
  };
  const {index, content} = own.render(spec);
  assert.doesNotMatch(index + content, /<img/);
  assert.equal(unbalanced(content), undefined);
});

console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
