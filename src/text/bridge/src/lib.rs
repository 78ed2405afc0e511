//! The crates `tokenizers`, `minijinja` and `llguidance` behind the C interface of `bridge.h`.

// The hook that turns a refused allocation into a panic; Rust has no stable way to go on after one.
#![feature(alloc_error_hook)]

mod border;
mod chat_template;
mod gbnf;
mod grammar;
mod limits;
mod pattern;
mod python;
mod scanner;
mod source;
mod splitter;
mod steps;
mod token_text;
mod tokenizer;
mod worker;
