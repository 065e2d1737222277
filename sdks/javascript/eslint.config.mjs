import tseslint from "typescript-eslint";

export default tseslint.config(
    { ignores: ["**/dist/**", "node_modules/**"] },
    ...tseslint.configs.strict,
    {
        languageOptions: { parserOptions: { project: "./tsconfig.eslint.json" } },
        files: ["**/src/**/*.ts"],
        rules: {
            "@typescript-eslint/no-floating-promises": "error",
            "@typescript-eslint/no-misused-promises": "error",
            "@typescript-eslint/await-thenable": "error",
            "@typescript-eslint/require-await": "error",
            "@typescript-eslint/no-non-null-assertion": "off",
            "@typescript-eslint/no-empty-object-type": "off",
            "@typescript-eslint/no-empty-function": "off",
            "@typescript-eslint/no-dynamic-delete": "off",
            "@typescript-eslint/no-this-alias": "off",
            "@typescript-eslint/unified-signatures": "off",
            "@typescript-eslint/only-throw-error": "off",
            "no-restricted-imports": ["error", { patterns: ["node:*"] }],
            "eqeqeq": "error",
            "max-len": ["error", { code: 110, ignorePattern: "^/\\*\\*" }],
        },
    },
    { files: ["**/*.cjs"], rules: { "@typescript-eslint/no-require-imports": "off" } },
    // The one place where Node is known.
    { files: ["**/platform_node.ts"], rules: { "no-restricted-imports": "off" } },
    // Its lines are as long as the descriptions in specs/.
    { files: ["**/models_gen.ts"], rules: { "max-len": "off",
        "@typescript-eslint/no-redundant-type-constituents": "off" } },
);
