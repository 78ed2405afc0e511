#include "draft/head_options.h"

#include <fmt/ranges.h>

#include "backend/weight_layout.h"
#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/gemma4_assistant/assistant_config.h"
#include "draft/medusa/medusa_weights.h"
#include "io/json_text.h"
#include "io/quote.h"

namespace talon {

namespace {

constexpr std::string_view kMixed = "mixed";
constexpr int kMostWindow = 1 << 20;
constexpr int kMostSinks = 256;

/// What Talon told of the training; null: nothing, or nothing that can be read.
Json told_by_talon(const Checkpoint& head) {
  if (!head.metadata.is_object()) return {};
  if (head.metadata.contains("talon")) return head.metadata["talon"];
  const auto origin = head.metadata.find("talon.origin");  // of a GGUF file
  if (origin == head.metadata.end() || !origin->is_string()) return {};
  try {
    return parse_json(origin->get_ref<const std::string&>(), "read talon.origin");
  } catch (const Error&) {
    return {};
  }
}

/// How many tokens the texts had, at most, that Talon trained the head with; 0 if that is not told.
int trained_tokens(const Checkpoint& head) {
  const Json told = told_by_talon(head);
  const Json* at = &told;
  for (const char* key : {"settings", "max_tokens"}) {
    if (!at->is_object() || !at->contains(key)) return 0;
    at = &(*at)[key];
  }
  return at->is_number_unsigned() && *at <= kMostWindow ? at->get<int>() : 0;
}

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const WeightLayout layout : kWeightLayouts) names.emplace_back(name_of(layout));
  return names;
}

}  // namespace

std::vector<Option> head_options() {
  OneOf layouts{layout_names()};
  layouts.words.emplace(layouts.words.begin(), kMixed);
  return {
      {"head", FreeText{"PATH"}, "", "the draft head (default: one that belongs to the model)"},
      {"weights", std::move(layouts), std::string(kMixed),
       "how it is kept; mixed: int8, and int4 what an EAGLE head's file has in four bits and the "
       "output rows of its draft list where those are most of it"},
      coupled_option(),
      {"beta", RealNumber{0.01, 100}, "1.25", "weight of its logits beside that noise"},
      {"gamma", RealNumber{0.01, 100}, "0.9", "sharpness of the chances that it then gives"}};
}

Option model_weights_option() {
  return {"weights", OneOf{layout_names()}, std::string(name_of(WeightLayout::as_stored)),
          "how it is kept; stored: in as many bits as its file has"};
}

void expect_text(const Options& options, const DrafterContext& context) {
  if (!context.target || !context.target->config.image) return;
  throw UsageError(
      fmt::format("{}: expected a model that writes text, found one that draws", options.name()));
}

std::string read_head_path(Options& options, const DrafterContext& context, std::string_view kind) {
  const std::string& given = options.text("head");
  std::string path = given.empty() ? context.find_head(kind) : given;
  if (path.empty()) {
    throw UsageError(fmt::format("{}: needs head=PATH, a draft head that was trained for the model",
                                 options.name()));
  }
  return path;
}

void expect_head_of(std::string_view drafters, const Options& options,
                    const Checkpoint& checkpoint) {
  std::string_view takers;
  if (is_draft_head(checkpoint)) takers = kEagleDrafters;
  if (is_block_head(checkpoint)) takers = kBlockDrafters;
  if (is_medusa_head(checkpoint)) takers = kMedusaDrafters;
  if (is_gemma4_assistant(checkpoint)) takers = "mtp";
  if (takers.empty() || takers == drafters) return;
  throw UsageError(fmt::format("{}: expected a head for {}, found one for {} in {}", options.name(),
                               drafters, takers, quote(checkpoint.path.string())));
}

std::shared_ptr<const HeadWeights> shared_head(const DrafterContext& context,
                                               const Checkpoint& checkpoint,
                                               const HeadOptions& options) {
  const std::string key = fmt::format("{} {} {} {}", name_of(options.layout), options.mixed,
                                      fmt::join(options.tap_layers, "/"), checkpoint.path.string());
  return context.weights<HeadWeights>(key, [&] {
    HeadWeights head = load_head(checkpoint, *context.target, options);
    checkpoint.check_whole();
    return head;
  });
}

std::vector<Option> window_options() {
  return {
      {"window", WholeNumber{0, kMostWindow}, "",
       "newest tokens that it sees, 0 for all (default: as the head says, else as many as Talon "
       "trained it with)"},
      {"sinks", WholeNumber{0, kMostSinks}, "0", "first tokens that it sees beside the window"}};
}

PairWindow read_window(Options& options, const Checkpoint& head, int own) {
  const int usual = own > 0 ? own : trained_tokens(head);
  return {options.whole_or("window", usual), options.whole("sinks")};
}

WeightLayout read_layout(Options& options) {
  const std::string& text = options.text("weights");
  if (text == kMixed) return WeightLayout::int8;
  for (const WeightLayout layout : kWeightLayouts) {
    if (text == name_of(layout)) return layout;
  }
  throw Bug("a layout of weights that is declared and has no value");
}

HeadOptions read_layouts(Options& options) {
  HeadOptions head;
  head.layout = read_layout(options);
  head.mixed = options.text("weights") == kMixed;
  return head;
}

Option coupled_option() {
  return {"coupled", OneOf{{"on", "off"}}, "on",
          "at a temperature, guess with the noise that the token will be drawn with"};
}

bool read_coupled(Options& options) { return options.text("coupled") == "on"; }

Coupling read_coupling(Options& options) {
  return {
      .on = read_coupled(options), .beta = options.real("beta"), .gamma = options.real("gamma")};
}

}  // namespace talon
