// Written by build.mjs from the version in ../../package.json.
export const VERSION = "0.2.0";
