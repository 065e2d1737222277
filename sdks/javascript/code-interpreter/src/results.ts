// results.ts - the forms of a result. An extension.
import type { Execution, ExecutionResult } from "@alibaba-group/opensandbox";

const RICHEST_FIRST = ["application/vnd.plotly.v1+json", "text/html", "image/svg+xml", "image/png",
    "image/jpeg", "application/json", "text/markdown", "text/latex", "text/plain", "text"];

/** The richest form of a result: its MIME type and its value. */
export function richestOf(result: ExecutionResult): { type: string; value: string } | undefined {
    const raw = result.raw ?? {};
    const type = RICHEST_FIRST.find((name) => raw[name] !== undefined) ?? Object.keys(raw)[0];
    if (type === undefined)
        return undefined;
    const value = raw[type];
    return { type: type === "text" ? "text/plain" : type,
        value: typeof value === "string" ? value : JSON.stringify(value) };
}

/** The PNG of a result. */
export function pngOf(result: ExecutionResult): Uint8Array | undefined {
    const text = result.raw?.["image/png"];
    if (typeof text !== "string")
        return undefined;
    return Uint8Array.from(atob(text.replace(/\s/g, "")), (char) => char.charCodeAt(0));
}

const IMAGES = ["image/png", "image/jpeg", "image/svg+xml"];

/** The results that are pictures or charts. */
export function chartsOf(execution: Execution): ExecutionResult[] {
    return execution.result.filter(({ raw = {} }) => Object.keys(raw).some((type) =>
        IMAGES.includes(type) || /^application\/vnd\.(plotly|vega|vegalite|bokeh)/.test(type)));
}
