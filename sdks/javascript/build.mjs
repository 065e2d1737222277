// build.mjs [--check] - compiles both packages to ES modules (dist) and CommonJS (dist/cjs).
//
// The version stands in package.json beside this file; with --check it is only compared.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const readJson = (path) => JSON.parse(readFileSync(join(here, path), "utf-8"));
const { version } = readJson("package.json");
const onlyCheck = process.argv.includes("--check");

function stamp(path, change) {
    const old = readFileSync(join(here, path), "utf-8");
    const text = change(old);
    if (text === old)
        return;
    if (onlyCheck) {
        console.error(`${path} has another version than ${version}: run node build.mjs`);
        process.exitCode = 1;
    } else {
        writeFileSync(join(here, path), text);
    }
}

const setVersion = (text) => text.replace(/("version": )"[^"]*"/, `$1"${version}"`);
stamp("sandbox/package.json", setVersion);
stamp("code-interpreter/package.json", (text) => setVersion(text).replace(
    /("@alibaba-group\/opensandbox": )"[^"]*"/, `$1"^${version}"`));
stamp("sandbox/src/version.ts", (text) => text.replace(/VERSION = "[^"]*"/, `VERSION = "${version}"`));
if (onlyCheck)
    process.exit();

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

function compile(name, kind, paths) {
    const out = kind === "esm" ? `${name}/dist` : `${name}/dist/cjs`;
    const config = {
        extends: "./tsconfig.json",
        compilerOptions: {
            ...(kind === "esm" ? { module: "ESNext", moduleResolution: "bundler" }
                : { module: "CommonJS", moduleResolution: "node10" }),
            rootDir: `./${name}/src`, outDir: `./${out}`,
            baseUrl: ".", paths,
        },
        include: [`./${name}/src/**/*.ts`],
    };
    const file = join(here, `tsconfig.${name}.${kind}.json`);
    writeFileSync(file, JSON.stringify(config, null, 2));
    try {
        execFileSync(process.execPath, [tsc, "-p", file], { cwd: here, stdio: "inherit" });
    } finally {
        rmSync(file);
    }
}

const platform = { "#platform": ["./sandbox/src/platform_node.ts"] };
for (const kind of ["esm", "cjs"]) {
    if (kind === "esm")
        for (const name of ["sandbox", "code-interpreter"])
            rmSync(join(here, name, "dist"), { recursive: true, force: true });
    compile("sandbox", kind, platform);
    const dist = kind === "esm" ? "dist" : "dist/cjs";
    compile("code-interpreter", kind, {
        "@alibaba-group/opensandbox": [`./sandbox/${dist}/index.d.ts`],
        "@alibaba-group/opensandbox/internal": [`./sandbox/${dist}/internal.d.ts`],
    });
}
// CommonJS has a scope of its own below dist/cjs.
const inside = (path) => path.replace("./dist/", "./");
const { imports } = readJson("sandbox/package.json");
writeFileSync(join(here, "sandbox/dist/cjs/package.json"), JSON.stringify({ type: "commonjs",
    imports: { "#platform": Object.fromEntries(Object.entries(imports["#platform"]).map(
        ([condition, path]) => [condition, inside(path)])) } }));
writeFileSync(join(here, "code-interpreter/dist/cjs/package.json"), '{"type":"commonjs"}');
// npm packs no file from outside of a package.
for (const license of ["LICENSE", "../../LICENSE"].map((path) => join(here, path)))
    if (existsSync(license))
        for (const name of ["sandbox", "code-interpreter"])
            copyFileSync(license, join(here, name, "LICENSE"));
