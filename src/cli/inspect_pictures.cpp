#include "cli/inspect_pictures.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "draw/picture_prompt.h"
#include "image/prompt_words.h"
#include "io/pictures/vq_names.h"

namespace talon {
namespace {

std::string layout_of(const Checkpoint& model, ImagePlan::Prompt prompt) {
  switch (prompt) {
    case ImagePlan::Prompt::words:
      return "LlamaGen with words, as talon train image model writes it";
    case ImagePlan::Prompt::class_number:
      return "LlamaGen, classes";
    case ImagePlan::Prompt::caption:
      return model.format == CheckpointFormat::hugging_face ? "LlamaGen, captions, of LANTERN"
                                                            : "LlamaGen, captions";
    case ImagePlan::Prompt::chameleon:
      return "Chameleon";
    case ImagePlan::Prompt::lumina:
      return "Lumina-mGPT";
    case ImagePlan::Prompt::janus:
      return "Janus";
  }
  throw Bug("a kind of prompt without a layout");
}

/// The file that `find` finds, or why it finds none.
Json file_or_problem(const std::function<std::filesystem::path()>& find) {
  try {
    return find().string();
  } catch (const Error& error) {
    return {{"problem", error.what()}};
  }
}

std::filesystem::path beside(const Checkpoint& model, const char* name) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(model.path, ignored);
  return (is_folder ? model.path : model.path.parent_path()) / name;
}

/// How often a decoder doubles the side of a picture.
int doublings(const Checkpoint& tokenizer, const std::string& prefix) {
  return static_cast<int>(std::ranges::count_if(tokenizer.tensors, [&](const StoredTensor& tensor) {
    return tensor.name.starts_with(prefix + "decoder.") &&
           tensor.name.ends_with(".upsample.conv.weight");
  }));
}

}  // namespace

Json inspect_pictures(const Checkpoint& model, const ImagePlan& plan, bool has_tokenizer) {
  Json json = {{"layout", layout_of(model, plan.prompt)}};
  std::vector<std::string> missing;
  const auto add_file = [&](const char* key, const std::function<std::filesystem::path()>& find) {
    json[key] = file_or_problem(find);
    if (json[key].is_object()) missing.emplace_back(key);
  };
  add_file("vq", [&] { return usual_picture_tokenizer(plan, model.path); });
  const std::string_view asked_by = kind_of(plan.prompt);
  if (asked_by == "words") {
    add_file("words", [&] {
      const auto file = beside(model, "words.json");
      PromptWords::read(file);
      return file;
    });
  } else if (asked_by == "class") {  // numbers do without names
    const auto file = beside(model, "classes.json");
    std::error_code ignored;
    json["class_names"] = std::filesystem::exists(file, ignored) ? Json(file.string()) : Json();
  } else if (asked_by == "caption") {
    missing.emplace_back("features of captions (--caption-features)");
  } else if (!has_tokenizer) {
    missing.emplace_back("tokenizer");
  }
  json["missing"] = missing;
  return json;
}

bool is_picture_tokenizer(const Checkpoint& checkpoint) {
  const std::string prefix = vq_prefix(checkpoint);
  return checkpoint.find(prefix + std::string(kVqCodebook)) &&
         std::ranges::all_of(checkpoint.tensors, [&](const StoredTensor& tensor) {
           return tensor.name.starts_with(prefix);
         });
}

Json describe_picture_tokenizer(const Checkpoint& checkpoint) {
  const std::string prefix = vq_prefix(checkpoint);
  const bool has_decoder = has_vq_decoder(checkpoint);
  Json json = {{"architecture", "tokenizer of pictures (VQ)"},
               {"layout", is_chameleon_vq(checkpoint) ? "Chameleon" : "LlamaGen"},
               {"codebook", checkpoint.require(prefix + std::string(kVqCodebook)).shape},
               {"cell_pixels", nullptr},
               {"encoder", checkpoint.find(prefix + "encoder.conv_in.weight") != nullptr},
               {"decoder", has_decoder}};
  if (has_decoder) json["cell_pixels"] = 1 << std::min(doublings(checkpoint, prefix), 16);
  return json;
}

}  // namespace talon
