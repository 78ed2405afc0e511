#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "image/vq_decoder.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace talon {

/// What a picture is asked by: the tokens of its prompt and those of its guide, and what the
/// prompt's rows are instead of the embeddings of its tokens, if anything.
struct PicturePrompt {
  std::vector<TokenId> own, guide;
  std::shared_ptr<const std::vector<float>> vectors;
};
/// Throw UsageError for a model that writes text, for a class or words that it does not know, and
/// for a prompt of another kind than the model's.
PicturePrompt class_prompt(const Model& model, int number);
/// Words of a list, a text in the form of the model's family, or a class by its number or by its
/// name in classes.json beside the model. tokenizer: the model's; null: it has none. Throws Error
/// for one that lacks what the form needs.
PicturePrompt text_prompt(const Model& model, const Tokenizer* tokenizer, std::string_view text);

/// What a text encoder made of a caption, [rows, width].
struct CaptionFeatures {
  int rows = 0;
  std::vector<float> values;
};
/// Of safetensors with "features". Throw Error naming the file and what is wrong with it.
CaptionFeatures read_caption(const Model& model, const std::filesystem::path& file);
/// name: what messages call the bytes.
CaptionFeatures read_caption(const Model& model, std::span<const std::byte> bytes,
                             const std::string& name);
/// By which files of pictures know them (SHA-256 of the values in float32).
std::string hash_of(const CaptionFeatures& features);
/// Uses the model's backend, as an engine does: not beside one that runs.
PicturePrompt caption_prompt(const Model& model, const CaptionFeatures& features);
PicturePrompt caption_prompt(const Model& model, const std::filesystem::path& file);
/// The tokens alone.
PicturePrompt caption_tokens(const Model& model, const CaptionFeatures& features);

/// What may be asked of a model, for those who show it.
struct PromptChoices {
  std::string kind;                        // "words", "class", "caption", "text"
  std::vector<std::string> words, styles;  // of words
  int classes = 0;
  std::vector<std::string> class_names;  // empty: they have none
};
/// Throws Error naming a file that is not as it should be.
PromptChoices prompt_choices(const Model& model);

/// Throws UsageError unless the context holds the prompt and the whole picture.
void require_room(const Model& model, const PicturePrompt& prompt);

/// Fills in what of a request is about pictures: the prompt, its guide, how long the answer is and
/// what it must look like. Throws UsageError as require_room does.
void ask_for(const Model& model, const PicturePrompt& prompt, float guidance, Request& request);

/// The codes of the cells of an answer, or of its beginning.
std::vector<TokenId> codes_of(const ImagePlan& plan, std::span<const TokenId> answer);

/// "words", "class", "caption" or "text": PromptChoices::kind.
std::string_view kind_of(ImagePlan::Prompt prompt);

/// Where the tokenizer of a model's codes lies: vq.safetensors beside the model at `source`, or the
/// model itself, as of Janus and of folders of Chameleon's family that hold the decoder. Throws
/// Error naming a file that is missing.
std::filesystem::path usual_picture_tokenizer(const ImagePlan& plan,
                                              const std::filesystem::path& source);

/// Finds the tokenizer of a model's codes for rules that compare them (DecodeSettings::codebook),
/// when the model may lie elsewhere. file: of the tokenizer; empty: the usual one. What it gives
/// throws Error naming a file that is missing.
std::function<std::filesystem::path()> codebook_of(const Model& model, std::filesystem::path file);

/// The decoder of the model's codes. file: of the tokenizer; empty: the usual one. Throws Error
/// naming what is missing or does not fit, UsageError for a model that writes text.
VqDecoder open_picture_decoder(const Model& model, const std::filesystem::path& file = {});

}  // namespace talon
