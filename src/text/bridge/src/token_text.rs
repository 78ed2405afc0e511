//! The bytes that one token adds to a text, read off the decoder of a tokenizer.json.

use crate::border::Result;
use serde_json::Value;
use std::borrow::Cow;

/// One step of a decoder, as it acts on a single token.
enum Step {
    ByteLevel,
    ByteFallback,
    Replace { from: String, to: String },
    WordPiece { prefix: String },
    WordEnd { suffix: String },
}

/// How tokens become text.
pub struct TokenText {
    steps: Vec<Step>,
    /// The decoder removes a space at the very beginning of a text.
    pub drops_first_space: bool,
    byte_of_char: Vec<Option<u8>>,
}

impl TokenText {
    /// `decoder`: the field of that name in a tokenizer.json; null for none.
    pub fn new(decoder: &Value) -> Result<Self> {
        let mut text =
            TokenText { steps: Vec::new(), drops_first_space: false, byte_of_char: byte_level_alphabet() };
        text.read(decoder)?;
        Ok(text)
    }

    pub fn is_byte_level(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::ByteLevel))
    }

    pub fn has_byte_fallback(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::ByteFallback))
    }

    fn read(&mut self, decoder: &Value) -> Result<()> {
        let field = |name: &str| decoder[name].as_str().unwrap_or_default().to_owned();
        match decoder["type"].as_str() {
            None if decoder.is_null() => {}
            Some("Sequence") => {
                for part in decoder["decoders"].as_array().into_iter().flatten() {
                    self.read(part)?;
                }
            }
            Some("ByteLevel") => self.steps.push(Step::ByteLevel),
            Some("ByteFallback") => self.steps.push(Step::ByteFallback),
            Some("Fuse") => {}
            Some("Strip") => {
                let first = decoder["start"].as_u64().unwrap_or(0) > 0;
                self.drops_first_space |= first && decoder["content"] == " ";
            }
            Some("Replace") => {
                let from = decoder["pattern"]["String"]
                    .as_str()
                    .ok_or("decoder Replace: expected a pattern of kind String")?;
                self.replace(from, &field("content"));
            }
            Some("Metaspace") => {
                self.replace(decoder["replacement"].as_str().unwrap_or("\u{2581}"), " ");
                self.drops_first_space |= decoder["prepend_scheme"] != "never";
            }
            Some("WordPiece") => {
                self.steps.push(Step::WordPiece { prefix: field("prefix") });
                self.drops_first_space = true;
            }
            Some("BPEDecoder") => self.steps.push(Step::WordEnd { suffix: field("suffix") }),
            other => {
                return Err(format!("decoder: expected a known type, found {}", other.unwrap_or("none")))
            }
        }
        Ok(())
    }

    fn replace(&mut self, from: &str, to: &str) {
        self.steps.push(Step::Replace { from: from.to_owned(), to: to.to_owned() });
    }

    /// The bytes of an ordinary token.
    pub fn bytes(&self, piece: &str) -> Vec<u8> {
        let mut text = Cow::Borrowed(piece);
        for step in &self.steps {
            match step {
                Step::ByteLevel => {
                    if let Some(bytes) = self.byte_level(&text) {
                        return bytes;
                    }
                }
                Step::ByteFallback => {
                    if let Some(byte) = fallback_byte(&text) {
                        return vec![byte];
                    }
                }
                Step::Replace { from, to } if !from.is_empty() => {
                    if text.contains(from.as_str()) {
                        text = text.replace(from.as_str(), to).into();
                    }
                }
                Step::Replace { .. } => {}
                Step::WordPiece { prefix } => {
                    text = match text.strip_prefix(prefix.as_str()) {
                        Some(rest) if !prefix.is_empty() => rest.to_owned().into(),
                        _ => format!(" {text}").into(),
                    };
                }
                Step::WordEnd { suffix } => {
                    if let Some(word) = text.strip_suffix(suffix.as_str()) {
                        text = format!("{word} ").into();
                    }
                }
            }
        }
        text.into_owned().into_bytes()
    }

    /// The bytes of an added token that is not special: its text, but for characters that stand for others.
    pub fn added_bytes(&self, content: &str) -> Vec<u8> {
        let replaced = |text: String, step: &Step| match step {
            Step::Replace { from, to } if !from.is_empty() => text.replace(from.as_str(), to),
            _ => text,
        };
        self.steps.iter().fold(content.to_owned(), replaced).into_bytes()
    }

    fn byte_level(&self, piece: &str) -> Option<Vec<u8>> {
        piece.chars().map(|c| self.byte_of_char.get(c as usize).copied().flatten()).collect()
    }
}

/// `<0x0A>` is the byte 10.
fn fallback_byte(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// GPT-2's spelling of bytes: printable Latin-1 characters stand for themselves, the other bytes for U+0100 onwards.
fn byte_level_alphabet() -> Vec<Option<u8>> {
    let mut table = vec![None; 0x200];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let spelling = if printable { byte as usize } else { next };
        next += usize::from(!printable);
        table[spelling] = Some(byte);
    }
    table
}
