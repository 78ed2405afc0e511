#include "cli/inspect_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cli/inspect_drafts.h"
#include "cli/inspect_pictures.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/gemma4_assistant/assistant_config.h"
#include "draft/head/head_config.h"
#include "draft/medusa/medusa_weights.h"
#include "draw/picture_prompt.h"
#include "io/tensor_layout.h"
#include "model/config/config.h"
#include "model/load/prediction_layer.h"
#include "model/load/weigh_model.h"
#include "text/tokenizer.h"

namespace talon {
namespace {

std::string_view name_of(RopeConfig::Scaling scaling) {
  switch (scaling) {
    case RopeConfig::Scaling::none:
      return "none";
    case RopeConfig::Scaling::linear:
      return "linear";
    case RopeConfig::Scaling::llama3:
      return "llama3";
    case RopeConfig::Scaling::yarn:
      return "yarn";
    case RopeConfig::Scaling::longrope:
      return "longrope";
  }
  throw Bug("a rope scaling without a name");
}

/// The double that prints as the float does: 1e-05, not 9.999999747378752e-06.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

Json config_json(const ModelConfig& c) {
  Json json = {
      {"architecture", c.architecture},
      {"layers", c.layers},
      {"hidden", c.hidden},
      {"intermediate", c.intermediate},
      {"heads", c.heads},
      {"kv_heads", c.kv_heads},
      {"head_dim", c.head_dim},
      {"vocabulary", c.vocabulary},
      {"context", c.context},
      {"norm_epsilon", shortest(c.norm_epsilon)},
      {"rope",
       {{"base", c.rope.base}, {"scaling", name_of(c.rope.scaling)}, {"factor", c.rope.factor}}},
      {"tied_output", c.tied_output},
      {"qkv_bias", c.qkv_bias},
      {"qk_norm", c.qk_norm},
      {"sliding_window", c.sliding_window},
      {"end_tokens", c.end_tokens}};
  if (c.image) {
    json["cells"] = fmt::format("{}x{}", c.image->columns, c.image->rows);
    json["prompt"] = kind_of(c.image->prompt);
  }
  return json;
}

Json tokenizer_json(const Tokenizer& t) {
  Json json = {{"kind", t.kind()},
               {"vocabulary", t.vocabulary_size()},
               {"wants_start_token", t.wants_start_token()},
               {"end_tokens", t.end_tokens()},
               {"chat_template", t.chat_template().has_value()}};
  json["start_token"] = t.start_token() ? Json(*t.start_token()) : Json();
  return json;
}

template <typename Make>
Json or_problem(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    return {{"problem", error.what()}};
  }
}

constexpr std::string_view kNotKept = "not kept";  // by itself or by a model alone

Json tensor_json(const StoredTensor& tensor) {
  return {{"name", tensor.name},
          {"type", talon::name_of(tensor.type)},
          {"shape", tensor.shape},
          {"bytes", tensor.bytes.size()}};
}

bool is_text_model(const Checkpoint& checkpoint) {
  if (is_block_head(checkpoint) || is_draft_head(checkpoint) || is_medusa_head(checkpoint) ||
      is_prediction_layer_alone(checkpoint) || is_gemma4_assistant(checkpoint)) {
    return false;
  }
  try {
    return !read_model_config(checkpoint).image;
  } catch (const Error&) {
    return false;
  }
}

/// What loading the model keeps. Nothing where it is none of texts, or with `problem` does not
/// load.
std::optional<KeptTensors> kept_by_loading(const Checkpoint& checkpoint,
                                           const ModelOptions& options, std::string& problem) {
  if (!is_text_model(checkpoint)) return std::nullopt;
  ProgressMeter meter("load " + checkpoint.path.filename().string());
  LoadOptions load;
  load.layout = options.weights;
  load.progress = [&](std::size_t done, std::size_t total) { meter.update(done, total); };
  try {
    return weigh_model(checkpoint, make_backend(options), load);
  } catch (const Error& error) {
    problem = error.what();
    return std::nullopt;
  }
}

/// How the backend keeps a tensor of which no configuration tells more: a matrix, or in quantised
/// types a stack of them, which is loaded one by one.
KeptTensor kept_alone(const StoredTensor& tensor, Backend& backend, WeightLayout layout) {
  const std::size_t dimensions = tensor.shape.size();
  const bool is_stack = dimensions == 3 && block_shape(tensor.type).elements > 1;
  KeptTensor kept;
  if (dimensions != 2 && !is_stack) {
    kept = {.layout = "f32", .bytes = sizeof(float)};
    for (const std::int64_t size : tensor.shape) kept.bytes *= static_cast<std::uint64_t>(size);
    return kept;
  }
  const auto count = static_cast<std::size_t>(is_stack ? tensor.shape[0] : 1);
  const std::size_t size = count > 0 ? tensor.bytes.size() / count : 0;
  for (std::size_t i = 0; i < count; ++i) {
    kept.add(*backend.load_weight({.name = tensor.name,
                                   .type = tensor.type,
                                   .rows = static_cast<int>(tensor.shape[dimensions - 2]),
                                   .cols = static_cast<int>(tensor.shape[dimensions - 1]),
                                   .bytes = tensor.bytes.subspan(i * size, size)},
                                  layout));
  }
  return kept;
}

void add_kept(Json& json, const KeptTensor& kept) {
  json.update({{"kept", kept.layout}, {"kept_bytes", kept.bytes}, {"exact", kept.exact}});
}

Json tensors_as_loaded(const Checkpoint& checkpoint, const KeptTensors& all) {
  Json tensors = Json::array();
  for (const StoredTensor& tensor : checkpoint.tensors) {
    Json json = tensor_json(tensor);
    if (const auto kept = all.find(tensor.name); kept != all.end()) {
      add_kept(json, kept->second);
    } else {
      json["kept"] = kNotKept;
    }
    tensors.push_back(std::move(json));
  }
  return tensors;
}

Json tensors_alone(const Checkpoint& checkpoint, const ModelOptions& options) {
  const auto backend = make_backend(options);
  Json tensors = Json::array();
  ProgressMeter meter("load " + checkpoint.path.filename().string());
  for (const StoredTensor& tensor : checkpoint.tensors) {
    Json json = tensor_json(tensor);
    try {
      if (holds_reals(tensor.type)) {
        add_kept(json, kept_alone(tensor, *backend, options.weights));
      } else {
        json["kept"] = "not a weight";
      }
    } catch (const Error& error) {
      json["problem"] = error.what();
    }
    tensors.push_back(std::move(json));
    meter.update(tensors.size(), checkpoint.tensors.size());
  }
  return tensors;
}

/// Tensors, bytes in the file and bytes in memory for each pair of stored type and kept layout.
Json grouped(const Json& tensors) {
  struct Group {
    int count = 0;
    std::uint64_t bytes = 0, kept_bytes = 0;
    bool exact = true;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const Json& tensor : tensors) {
    Group& group = groups[{tensor["type"].get<std::string>(), tensor.value("kept", "unknown")}];
    ++group.count;
    group.bytes += tensor["bytes"].get<std::uint64_t>();
    group.kept_bytes += tensor.value("kept_bytes", std::uint64_t{0});
    group.exact = group.exact && tensor.value("exact", true);
  }
  Json json = Json::array();
  for (const auto& [key, group] : groups) {
    json.push_back({{"type", key.first},
                    {"kept", key.second},
                    {"tensors", group.count},
                    {"bytes", group.bytes},
                    {"kept_bytes", group.kept_bytes},
                    {"exact", group.exact}});
  }
  return json;
}

std::string plain_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);  // paths are of any bytes
}

std::string section_text(const std::string& title, const Json& section) {
  std::string text = title + "\n";
  for (const auto& [key, value] : section.items())
    text += fmt::format("  {:<18} {}\n", key, plain_text(value));
  return text;
}

}  // namespace

Json inspect_checkpoint(const Checkpoint& checkpoint, const ModelOptions& options) {
  std::string problem;
  const auto kept = kept_by_loading(checkpoint, options, problem);
  const Json tensors =
      kept ? tensors_as_loaded(checkpoint, *kept) : tensors_alone(checkpoint, options);
  Json report = {{"path", checkpoint.path.string()},
                 {"format", talon::name_of(checkpoint.format)},
                 {"tokenizer", nullptr},
                 {"activations", nullptr},
                 {"kept", grouped(tensors)},
                 {"tensors", tensors}};
  if (!problem.empty()) report["load_problem"] = problem;
  report["config"] = or_problem([&] {
    if (is_block_head(checkpoint)) return describe_block_head(checkpoint);
    if (is_draft_head(checkpoint)) return describe_head(checkpoint);
    if (is_medusa_head(checkpoint)) return describe_medusa(checkpoint);
    if (is_gemma4_assistant(checkpoint)) return describe_gemma4_assistant(checkpoint);
    if (is_prediction_layer_alone(checkpoint)) {
      return Json{{"architecture", "draft head"}, {"variant", "prediction layer (mtp)"}};
    }
    if (is_picture_tokenizer(checkpoint)) return describe_picture_tokenizer(checkpoint);
    const ModelConfig config = read_model_config(checkpoint);
    report["activations"] = name_of(activations_for(options, config));
    report["drafts"] = or_problem([&] { return inspect_drafts(checkpoint, options); });
    report["cache"] = or_problem([&] { return inspect_cache(checkpoint, options); });
    if (!config.image || kind_of(config.image->prompt) == "text") {
      report["tokenizer"] =
          or_problem([&] { return tokenizer_json(Tokenizer::for_checkpoint(checkpoint)); });
    }
    if (config.image) {
      const bool has_tokenizer = !report["tokenizer"].contains("problem");
      report["pictures"] = inspect_pictures(checkpoint, *config.image, has_tokenizer);
    }
    return config_json(config);
  });
  report["architecture"] = report["config"].value("architecture", Json());
  return report;
}

std::string inspect_text(const Json& report) {
  std::string text = fmt::format("{}: {}\n", report["path"].get<std::string>(),
                                 report["format"].get<std::string>());
  text += section_text("model", report["config"]);
  if (!report["tokenizer"].is_null()) text += section_text("tokenizer", report["tokenizer"]);
  if (report.contains("pictures")) text += section_text("pictures", report["pictures"]);
  if (report.contains("load_problem")) {
    text += fmt::format("does not load: {}\n", report["load_problem"].get<std::string>());
  }
  text += "tensors\n";
  for (const Json& tensor : report["tensors"]) {
    text += fmt::format("  {:<40} {:<8} {:<16} {:>9}  {}\n", tensor["name"].get<std::string>(),
                        tensor["type"].get<std::string>(), tensor["shape"].dump(),
                        bytes_text(tensor["bytes"].get<double>()),
                        tensor.value("kept", tensor.value("problem", "")));
  }
  text += "in memory\n";
  std::uint64_t total = 0;
  for (const Json& group : report["kept"]) {
    total += group["kept_bytes"].get<std::uint64_t>();
    const auto kept = group["kept"].get<std::string>();
    text += fmt::format("  {:>4} x {:<8} {:>9} {}{}: {}{}\n", group["tensors"].get<int>(),
                        group["type"].get<std::string>(), bytes_text(group["bytes"].get<double>()),
                        kept == kNotKept ? "" : "kept as ", kept,
                        bytes_text(group["kept_bytes"].get<double>()),
                        group["exact"].get<bool>() ? "" : " (rounded)");
  }
  text += fmt::format("  {} in all\n", bytes_text(static_cast<double>(total)));
  if (report.contains("cache") && !report["cache"].contains("problem")) {
    const Json& cache = report["cache"];
    text += fmt::format("  and {} for the {} cache of a text of {} tokens\n",
                        bytes_text(cache["cache_bytes"].get<double>()),
                        cache["cache_type"].get<std::string>(), cache["cache_positions"].dump());
  }
  if (report.contains("drafts")) text += section_text("drafts", report["drafts"]);
  if (report.contains("fit")) text += section_text("as a head", report["fit"]);
  const Json& activations = report["activations"];
  if (activations.is_null()) return text;
  text += fmt::format(
      "  inputs of 4- and 8-bit weights have {} bits\n",
      activations == "mixed" ? "8, in large groups 16," : activations.get<std::string>());
  const bool rounds =
      activations != "16" &&
      std::any_of(report["kept"].begin(), report["kept"].end(), [](const Json& group) {
        return group["kept"].get<std::string>().starts_with("bf16");
      });
  return rounds ? text + "  inputs of bf16 weights are rounded to bf16\n" : text;
}

}  // namespace talon
