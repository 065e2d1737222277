export { CodeInterpreter } from "./interpreter.js";
export type { CodeInterpreterCreateOptions } from "./interpreter.js";
export { createDefaultAdapterFactory, DefaultAdapterFactory } from "./factory.js";
export type { AdapterFactory, CreateCodesStackOptions } from "./factory.js";
export { SupportedLanguages } from "./models.js";
export type {
    CodeContext, Codes, CreateContextOptions, RunCodeOptions, RunCodeRequest, SupportedLanguage,
} from "./models.js";
export { chartsOf, pngOf, richestOf } from "./results.js";
