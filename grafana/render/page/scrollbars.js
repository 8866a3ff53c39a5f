// The library's modules are .mjs, for which a bundler takes the whole of a CommonJS module as its
// default; this one is meant to be asked for its own default.
export { Scrollbars as default } from '../node_modules/react-custom-scrollbars-2';
