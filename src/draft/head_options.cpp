#include "draft/head_options.h"

#include <fmt/ranges.h>

#include "backend/weight_layout.h"
#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/medusa/medusa_weights.h"
#include "io/quote.h"

namespace talon {

namespace {

constexpr std::string_view kMixed = "mixed";

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
