#include "draw/picture_prompt.h"

#include <fmt/format.h>

#include "core/error.h"
#include "image/prompt_words.h"

namespace talon {
namespace {

const ImagePlan& plan_of(const Model& model, ImagePlan::Prompt prompt) {
  const auto& image = model.config.image;
  const std::string name = model.source.filename().string();
  if (!image) {
    throw UsageError(
        fmt::format("model: expected one that draws pictures, got {}, which writes text", name));
  }
  if (image->prompt != prompt) {
    const bool by_class = image->prompt == ImagePlan::Prompt::class_number;
    throw UsageError(fmt::format("prompt: expected {} for {}, got {}",
                                 by_class ? "the number of a class" : "words", name,
                                 by_class ? "words" : "the number of a class"));
  }
  return *image;
}

}  // namespace

PicturePrompt class_prompt(const Model& model, int number) {
  plan_of(model, ImagePlan::Prompt::class_number);
  const int classes = model.config.input_count() - model.config.vocabulary - 1;
  if (number < 0 || number >= classes) {
    throw UsageError(
        fmt::format("class: expected a number from 0 to {}, got {}", classes - 1, number));
  }
  return {{model.config.vocabulary + number}, {model.config.vocabulary + classes}};
}

PicturePrompt words_prompt(const Model& model, std::string_view text) {
  const ImagePlan& plan = plan_of(model, ImagePlan::Prompt::words);
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

VqDecoder open_picture_decoder(const Model& model, const std::filesystem::path& file) {
  expects(model.config.image.has_value(), "a model that draws pictures");
  const std::filesystem::path beside =
      std::filesystem::is_directory(model.source) ? model.source : model.source.parent_path();
  const std::filesystem::path path = file.empty() ? beside / "vq.safetensors" : file;
  if (!std::filesystem::exists(path)) {
    fail("open tokenizer {}: there is no such file; --vq names another", path.string());
  }
  const ImagePlan& plan = *model.config.image;
  VqDecoder decoder(open_checkpoint(path), plan.rows, plan.columns);
  if (decoder.codes() < model.config.vocabulary) {
    fail("open tokenizer {}: expected at least the {} codes of the model, found {}", path.string(),
         model.config.vocabulary, decoder.codes());
  }
  return decoder;
}

}  // namespace talon
