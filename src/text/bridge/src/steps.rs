//! Normalizers and pre-tokenizers whose patterns have an end (pattern.rs); the rest of a tokenizer is the crate's.

use crate::limits::Ended;
use crate::pattern::Bounded;
use serde::{de::Error, Deserialize, Deserializer};
use tokenizers::normalizers::{NormalizerWrapper, Replace};
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::tokenizer::pattern::Invert;
use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizedString, Normalizer, PostProcessorWrapper, PreTokenizedString,
    PreTokenizer, Result, SplitDelimiterBehavior, TokenizerImpl,
};

pub type Tokenizer =
    TokenizerImpl<ModelWrapper, Normalization, PreTokenization, PostProcessorWrapper, DecoderWrapper>;

pub enum Normalization {
    Replace { pattern: Bounded, content: String },
    Sequence(Vec<Normalization>),
    Other(NormalizerWrapper),
}

impl Normalization {
    fn new(step: NormalizerWrapper) -> Result<Self> {
        Ok(match step {
            NormalizerWrapper::Replace(replace) => {
                Self::Replace { pattern: pattern_of(&replace)?, content: replace.content }
            }
            NormalizerWrapper::Sequence(steps) => {
                Self::Sequence(steps.into_iter().map(Self::new).collect::<Result<_>>()?)
            }
            other => Self::Other(other),
        })
    }
}

/// Read off its JSON: the field is the crate's own.
fn pattern_of(replace: &Replace) -> Result<Bounded> {
    let json = serde_json::to_value(replace)?;
    let text = |kind: &str| json["pattern"][kind].as_str();
    match (text("Regex"), text("String")) {
        (Some(regex), _) => Bounded::new(regex),
        (_, Some(literal)) => Ok(Bounded::Literal(literal.to_owned())),
        _ => Err("normalizer Replace: expected a pattern".into()),
    }
}

impl Normalizer for Normalization {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        match self {
            // The crate goes on with a text as it was where a normalizer fails, so this one unwinds to the border.
            Self::Replace { pattern, content } => text
                .replace(pattern, content)
                .map_err(|e| std::panic::resume_unwind(Box::new(Ended(format!("normalizer Replace: {e}"))))),
            Self::Sequence(steps) => steps.iter().try_for_each(|step| step.normalize(text)),
            Self::Other(step) => step.normalize(text),
        }
    }
}

pub enum PreTokenization {
    Split { pattern: Bounded, behavior: SplitDelimiterBehavior, invert: bool },
    Sequence(Vec<PreTokenization>),
    Other(PreTokenizerWrapper),
}

impl PreTokenization {
    fn new(step: PreTokenizerWrapper) -> Result<Self> {
        Ok(match step {
            PreTokenizerWrapper::Split(split) => Self::Split {
                pattern: match split.pattern {
                    SplitPattern::String(literal) => Bounded::Literal(literal),
                    SplitPattern::Regex(regex) => Bounded::new(&regex)?,
                },
                behavior: split.behavior,
                invert: split.invert,
            },
            PreTokenizerWrapper::Sequence(steps) => {
                Self::Sequence(steps.into_iter().map(Self::new).collect::<Result<_>>()?)
            }
            other => Self::Other(other),
        })
    }
}

impl PreTokenizer for PreTokenization {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> Result<()> {
        match self {
            Self::Split { pattern, behavior, invert: true } => {
                text.split(|_, piece| piece.split(Invert(pattern), *behavior))
            }
            Self::Split { pattern, behavior, invert: false } => {
                text.split(|_, piece| piece.split(pattern, *behavior))
            }
            Self::Sequence(steps) => steps.iter().try_for_each(|step| step.pre_tokenize(text)),
            Self::Other(step) => step.pre_tokenize(text),
        }
    }
}

impl<'de> Deserialize<'de> for Normalization {
    fn deserialize<D: Deserializer<'de>>(json: D) -> std::result::Result<Self, D::Error> {
        Self::new(NormalizerWrapper::deserialize(json)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for PreTokenization {
    fn deserialize<D: Deserializer<'de>>(json: D) -> std::result::Result<Self, D::Error> {
        Self::new(PreTokenizerWrapper::deserialize(json)?).map_err(D::Error::custom)
    }
}
