#include "draw/picture_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "draw/row_constraint.h"
#include "image/class_names.h"
#include "image/prompt_words.h"
#include "io/checkpoint.h"
#include "io/parse.h"
#include "io/pictures/vq_names.h"
#include "io/quote.h"
#include "io/sha256.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

using Prompt = ImagePlan::Prompt;

constexpr std::string_view kClassNames = "classes.json";
constexpr std::size_t kMostPromptBytes = 1 << 16;
constexpr int kCellPixels = 16, kSizeCells = 2;  // of Lumina-mGPT

std::string_view name_of(Prompt prompt) {
  switch (prompt) {
    case Prompt::class_number:
      return "the number of a class";
    case Prompt::words:
      return "words";
    case Prompt::caption:
      return "the features of a caption";
    default:
      return "a text";
  }
}

/// given: what the prompt is.
[[noreturn]] void refuse_prompt(const Model& model, std::string_view given) {
  throw UsageError(fmt::format("prompt: expected {} for {}, got {}",
                               name_of(model.config.image->prompt),
                               model.source.filename().string(), given));
}

const ImagePlan& plan_of(const Model& model) {
  if (model.config.image) return *model.config.image;
  throw UsageError(fmt::format("model: expected one that draws pictures, got {}, which writes text",
                               model.source.filename().string()));
}

std::filesystem::path folder_of(const std::filesystem::path& source) {
  std::error_code ignored;
  return std::filesystem::is_directory(source, ignored) ? source : source.parent_path();
}

void require_tokenizer_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return;
  fail("open tokenizer {}: there is no such file; --vq names another", file.string());
}

/// Without that for no class.
int classes_of(const Model& model) {
  return model.config.input_count() - model.config.vocabulary - 1;
}

/// Beside the model. Empty: there is none.
std::filesystem::path class_file(const Model& model) {
  const auto file = folder_of(model.source) / kClassNames;
  std::error_code problem;
  const bool is_there = std::filesystem::exists(file, problem);
  if (problem) fail("read {}: {}", file.string(), problem.message());
  return is_there ? file : std::filesystem::path();
}

std::vector<std::string> class_names(const Model& model) {
  const auto file = class_file(model);
  if (file.empty()) return {};
  return ClassNames::read(file, classes_of(model)).texts();
}

PicturePrompt named_class_prompt(const Model& model, std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return class_prompt(model, number);
  const auto file = class_file(model);
  if (file.empty()) {
    throw UsageError(fmt::format(
        "class: expected a number from 0 to {}, since {} has no {} beside it, got {}",
        classes_of(model) - 1, model.source.filename().string(), kClassNames, quote(text)));
  }
  return class_prompt(model, ClassNames::read(file, classes_of(model)).find(text));
}

PicturePrompt words_prompt(const Model& model, std::string_view text) {
  const ImagePlan& plan = *model.config.image;
  const auto file = model.source / "words.json";
  const PromptWords words = PromptWords::read(file);
  const int rows = model.config.input_count() - model.config.vocabulary;
  if (words.rows() != rows) {
    fail("read {}: expected words and styles for {} rows of the model, found {}", file.string(),
         rows, words.rows());
  }
  PicturePrompt prompt;
  for (const int row : words.rows_of(text, plan.prompt_tokens))
    prompt.own.push_back(model.config.vocabulary + row);
  prompt.guide.assign(prompt.own.size(), model.config.vocabulary + words.null_word());
  return prompt;
}

/// The one token of a special text.
TokenId special_token(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  if (ids.size() == 1) return ids[0];
  fail("tokenizer: expected a token \"{}\", found none", text);
}

/// Chameleon (arXiv:2405.09818) as Anole asks it for pictures: [start, text, end of text, begin of
/// picture], without a text [start, begin of picture].
PicturePrompt chameleon_prompt(const ImagePlan& plan, const Tokenizer& tokenizer,
                               std::string_view text) {
  PicturePrompt prompt{{plan.text_start}, {plan.text_start, plan.picture_start}, {}};
  const std::vector<TokenId> ids = tokenizer.encode(text, {.parse_special = false});
  prompt.own.insert(prompt.own.end(), ids.begin(), ids.end());
  prompt.own.insert(prompt.own.end(), {plan.text_end, plan.picture_start});
  return prompt;
}

/// Lumina-mGPT (arXiv:2408.02657): the sizes are told in the text, and behind the begin of the
/// picture, with which the text without a caption begins.
PicturePrompt lumina_prompt(const ImagePlan& plan, const Tokenizer& tokenizer,
                            std::string_view text) {
  const std::string told =
      fmt::format("Generate an image of {}x{} according to the following prompt:\n{}",
                  plan.columns * kCellPixels, plan.rows * kCellPixels, text);
  PicturePrompt prompt = chameleon_prompt(plan, tokenizer, told);
  prompt.guide = {plan.picture_start};
  for (const int cells : {plan.rows, plan.columns}) {
    for (auto* tokens : {&prompt.own, &prompt.guide})
      tokens->push_back(plan.no_size + cells / kSizeCells);
  }
  return prompt;
}

/// Janus (arXiv:2410.13848, 2501.17811): a chat whose answer is a picture; without a text all
/// tokens between the first and the last are padding.
PicturePrompt janus_prompt(const Tokenizer& tokenizer, std::string_view text) {
  constexpr std::string_view kBegin = "<begin_of_image>", kPad = "<｜▁pad▁｜>";
  const auto special = tokenizer.special_texts();
  const bool pro = std::ranges::find(special, "<|User|>") != special.end();
  std::string chat = pro ? "<|User|>: " : "User: ";
  const TextRange own{chat.size(), chat.size() + text.size()};
  chat += text;
  chat += pro ? "\n\n<|Assistant|>:" : "\n\nAssistant:";
  PicturePrompt prompt;
  prompt.own = tokenizer.encode(chat, {.add_start = true, .own = {&own, 1}});
  prompt.own.push_back(special_token(tokenizer, kBegin));
  prompt.guide.assign(prompt.own.size(), special_token(tokenizer, kPad));
  prompt.guide.front() = prompt.own.front();
  prompt.guide.back() = prompt.own.back();
  return prompt;
}

void require_captions(const Model& model) {
  if (plan_of(model).prompt != Prompt::caption) refuse_prompt(model, "the features of a caption");
}

CaptionFeatures features_of(const Model& model, const Checkpoint& checkpoint) {
  const ImagePlan& plan = *model.config.image;
  const std::string file = checkpoint.path.string();
  const StoredTensor& features = checkpoint.require("features");
  const int width = model.caption_in->cols;
  if (features.shape.size() != 2 || features.shape[0] < 1 ||
      features.shape[0] > plan.prompt_tokens || features.shape[1] != width) {
    fail("read {}: \"features\": expected 1 to {} rows of {}, found [{}]", file, plan.prompt_tokens,
         width, fmt::join(features.shape, ", "));
  }
  if (!holds_reals(features.type)) {
    fail("read {}: \"features\": expected floating-point values, found {}", file,
         name_of(features.type));
  }
  const auto rows = static_cast<int>(features.shape[0]);
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(width));
  dequantize(features.type, features.bytes, values);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    fail("read {}: \"features\": expected finite values, found others", file);
  return {rows, std::move(values)};
}

}  // namespace

PicturePrompt class_prompt(const Model& model, int number) {
  if (plan_of(model).prompt != Prompt::class_number) refuse_prompt(model, "the number of a class");
  const int classes = classes_of(model);
  if (number < 0 || number >= classes) {
    throw UsageError(
        fmt::format("class: expected a number from 0 to {}, got {}", classes - 1, number));
  }
  return {{model.config.vocabulary + number}, {model.config.vocabulary + classes}, {}};
}

PicturePrompt text_prompt(const Model& model, const Tokenizer* tokenizer, std::string_view text) {
  const ImagePlan& plan = plan_of(model);
  if (plan.prompt == Prompt::words) return words_prompt(model, text);
  if (plan.prompt == Prompt::class_number) return named_class_prompt(model, text);
  if (plan.text_tokens == 0) refuse_prompt(model, "words");
  if (!tokenizer) fail("{}: expected a tokenizer, found none", model.source.string());
  if (text.size() > kMostPromptBytes) {
    throw UsageError(
        fmt::format("prompt: expected at most {} bytes, got {}", kMostPromptBytes, text.size()));
  }
  PicturePrompt prompt = plan.prompt == Prompt::janus    ? janus_prompt(*tokenizer, text)
                         : plan.prompt == Prompt::lumina ? lumina_prompt(plan, *tokenizer, text)
                                                         : chameleon_prompt(plan, *tokenizer, text);
  for (auto* tokens : {&prompt.own, &prompt.guide}) {
    for (TokenId& token : *tokens) {
      if (token < 0 || token >= plan.text_tokens) {
        fail("{}: expected tokens below {}, which the model has rows for, found {}",
             model.source.string(), plan.text_tokens, token);
      }
      token += model.config.vocabulary;
    }
  }
  return prompt;
}

CaptionFeatures read_caption(const Model& model, const std::filesystem::path& file) {
  require_captions(model);
  return features_of(model, read_safetensors(file));
}

CaptionFeatures read_caption(const Model& model, std::span<const std::byte> bytes,
                             const std::string& name) {
  require_captions(model);
  return features_of(model, parse_safetensors(bytes, name));
}

std::string hash_of(const CaptionFeatures& features) {
  return sha256_of(std::as_bytes(std::span(features.values)));
}

PicturePrompt caption_tokens(const Model& model, const CaptionFeatures& features) {
  const ImagePlan& plan = plan_of(model);
  PicturePrompt prompt;
  for (int row = plan.prompt_tokens - features.rows; row < plan.prompt_tokens; ++row)
    prompt.own.push_back(model.config.vocabulary + row);
  prompt.guide = prompt.own;
  return prompt;
}

PicturePrompt caption_prompt(const Model& model, const CaptionFeatures& features) {
  PicturePrompt prompt = caption_tokens(model, features);
  prompt.vectors = std::make_shared<const std::vector<float>>(
      project_caption(model, features.values, features.rows));
  return prompt;
}

PicturePrompt caption_prompt(const Model& model, const std::filesystem::path& file) {
  return caption_prompt(model, read_caption(model, file));
}

PromptChoices prompt_choices(const Model& model) {
  switch (plan_of(model).prompt) {
    case Prompt::words: {
      const PromptWords words = PromptWords::read(model.source / "words.json");
      return {"words", words.words(), words.styles(), 0, {}};
    }
    case Prompt::class_number:
      return {"class", {}, {}, classes_of(model), class_names(model)};
    case Prompt::caption:
      return {"caption", {}, {}, 0, {}};
    default:
      return {"text", {}, {}, 0, {}};
  }
}

void require_room(const Model& model, const PicturePrompt& prompt) {
  const int own = static_cast<int>(prompt.own.size()), codes = plan_of(model).answer_tokens();
  if (own + codes <= model.config.context) return;
  throw UsageError(fmt::format(
      "context: expected at least {} tokens for a picture, {} of the prompt and {} of the answer, "
      "found {}",
      own + codes, own, codes, model.config.context));
}

void ask_for(const Model& model, const PicturePrompt& prompt, float guidance, Request& request) {
  require_room(model, prompt);
  request.prompt = prompt.own;
  request.guide_prompt = prompt.guide;
  request.prompt_vectors = prompt.vectors;
  request.guidance = guidance;
  request.max_new = model.config.image->answer_tokens();
  request.constraint = picture_constraint(model.config);
}

std::vector<TokenId> codes_of(const ImagePlan& plan, std::span<const TokenId> answer) {
  std::vector<TokenId> codes;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (plan.forced(static_cast<int>(i)) < 0) codes.push_back(answer[i]);
  }
  return codes;
}

std::string_view kind_of(Prompt prompt) {
  switch (prompt) {
    case Prompt::words:
      return "words";
    case Prompt::class_number:
      return "class";
    case Prompt::caption:
      return "caption";
    default:
      return "text";
  }
}

std::filesystem::path usual_picture_tokenizer(const ImagePlan& plan,
                                              const std::filesystem::path& source) {
  if (plan.prompt == Prompt::janus) return source;
  std::filesystem::path file = folder_of(source) / "vq.safetensors";
  std::error_code ignored;
  const bool may_hold_it = plan.first_code >= 0 && !std::filesystem::exists(file, ignored);
  if (may_hold_it && has_vq_decoder(open_checkpoint(source))) return source;
  require_tokenizer_file(file);
  return file;
}

std::function<std::filesystem::path()> codebook_of(const Model& model, std::filesystem::path file) {
  return [plan = plan_of(model), source = model.source, file = std::move(file)] {
    if (file.empty()) return usual_picture_tokenizer(plan, source);
    require_tokenizer_file(file);
    return file;
  };
}

VqDecoder open_picture_decoder(const Model& model, const std::filesystem::path& file) {
  const ImagePlan& plan = plan_of(model);
  const auto path = codebook_of(model, file)();
  VqDecoder decoder(open_checkpoint(path), plan.rows, plan.columns, model.backend->threads());
  const int codes = plan.codes_of(model.config.vocabulary);
  if (decoder.codes() != codes) {
    fail("open tokenizer {}: expected the {} codes of the model, found {}", path.string(), codes,
         decoder.codes());
  }
  return decoder;
}

}  // namespace talon
