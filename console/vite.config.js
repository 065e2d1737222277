import {defineConfig} from 'vite';

// The server answers below /console. Nothing is inlined: the policy of the page allows files only.
export default defineConfig({
  base: '/console/',
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none'},
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: {polyfill: false},
    cssCodeSplit: true,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
});
