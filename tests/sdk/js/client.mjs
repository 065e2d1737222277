// client.mjs - our packages as tools/build-js built them, and TAP. With OPENSANDBOX_JS_PUBLISHED, the path
// of its index.js, it is the published package, which has no code interpreter beside it.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const built = process.env.OPENSANDBOX_JS;
export const published = process.env.OPENSANDBOX_JS_PUBLISHED;
export const require = createRequire(published ?? join(built, "package.json"));
const load = (path) => import(pathToFileURL(join(built, path)));

export const sdk = published ? await import(pathToFileURL(published))
    : await load("sandbox/dist/index.js");
export const { CodeInterpreter, ...interpreter } = published ? {}
    : await load("code-interpreter/dist/index.js");

let count = 0;
let failed = 0;

/** One line of TAP. */
export function result(passed, name, problem = "") {
    count++;
    failed += passed ? 0 : 1;
    console.log(`${passed ? "ok" : "not ok"} ${count} - ${name}`);
    if (!passed && problem)
        console.log(`# ${String(problem).replaceAll("\n", "\n# ")}`);
}

export function skip(name, reason) {
    count++;
    console.log(`ok ${count} - ${name} # SKIP ${reason}`);
}

export async function check(name, test, seconds = 60) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000);
    });
    try {
        await Promise.race([test(), late]);
        result(true, name);
    } catch (error) {
        result(false, name, error?.stack ?? error);
    } finally {
        clearTimeout(timer);
    }
}

export function end() {
    console.log(`1..${count}`);
    process.exit(failed ? 1 : 0);
}
