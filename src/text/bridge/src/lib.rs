//! The crates `tokenizers` and `minijinja` behind the C interface of `bridge.h`.

mod border;
mod chat_template;
mod python;
mod source;
mod token_text;
mod tokenizer;
