#include "learn/learning_head.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "draft/head/head_config.h"
#include "draft/head/head_tensors.h"
#include "io/checkpoint.h"
#include "runtime/heads/auto_drafter.h"

namespace talon {
namespace {

/// The part with its options, but for head=, which is returned.
std::string take_head(const OptionText& part, std::string& text) {
  std::string head;
  std::vector<std::string> options;
  for (const OptionText::Item& item : part.items) {
    if (item.key == "head") {
      head = item.value;
    } else {
      options.push_back(item.key + "=" + item.value);
    }
  }
  text = part.name;
  if (!options.empty()) text += fmt::format(":{}", fmt::join(options, ","));
  return head;
}

std::string given_taps(const OptionText& part) {
  const auto taps = std::ranges::find(part.items, "taps", &OptionText::Item::key);
  return taps == part.items.end() ? "" : taps->value;
}

/// As the option `taps` has them.
std::vector<int> layers_named(const std::string& text) {
  std::vector<int> layers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at <= end; ++at) {
    int layer = -1;
    const auto [stop, error] = std::from_chars(at, end, layer);
    if (error != std::errc() || layer < 0 || (stop != end && *stop != '/'))
      throw UsageError(fmt::format("--learn: taps: expected layers as 2/15/27, found {}", text));
    layers.push_back(layer);
    at = stop;
  }
  return layers;
}

}  // namespace

LearningHead take_learning_head(DecodeSettings& settings) {
  settings.drafter = resolve_drafter(settings.drafter, settings.heads);
  LearningHead learning;
  std::vector<std::string> parts;
  for (const std::string_view text : split_drafters(settings.drafter)) {
    const OptionText part(text);
    parts.emplace_back(text);
    const bool learns = part.name == "eagle" || part.name == "eagle2" || part.name == "eagle3";
    if (!learns || !learning.drafter.empty()) continue;
    learning.drafter = part.name;
    learning.trained_as = part.name == "eagle3" ? "eagle3" : "eagle";
    learning.kind = part.name == "eagle3" ? "eagle3" : "eagle2";
    learning.path = take_head(part, parts.back());
    learning.taps = given_taps(part);
    if (learning.path.empty() && settings.heads) learning.path = settings.heads(learning.kind);
  }
  if (learning.path.empty()) {
    throw UsageError(
        fmt::format("--learn: expected a drafter with an eagle, eagle2 or eagle3 head, found {}",
                    settings.drafter));
  }
  settings.drafter = fmt::format("{}", fmt::join(parts, "+"));
  return learning;
}

HeadForm form_of(const std::filesystem::path& head) {
  const Checkpoint checkpoint = open_checkpoint(head);
  const HeadTensors tensors(checkpoint);
  const HeadConfig config = read_head_config(checkpoint, tensors);
  const StorageType type = tensors.require("fc.weight").type;
  return {.draft_vocabulary = config.draft_vocabulary,
          .in_four_bits = type == StorageType::q4_0 || type == StorageType::q4_1,
          .shares_output = config.shared_output};
}

std::vector<FeatureTap> taps_to_keep(const LearningHead& head, const ModelConfig& target) {
  const Checkpoint checkpoint = open_checkpoint(head.path);
  const HeadTensors tensors(checkpoint);
  HeadConfig config = read_head_config(checkpoint, tensors);
  if (!head.taps.empty()) {
    config.tap_layers = layers_named(head.taps);
    config.tap_count = TapCount::sure;
  }
  std::vector<FeatureTap> taps = fit_to_target(config, target, tensors.doing());
  if (config.generation == HeadGeneration::eagle1) {
    taps.clear();
    for (const int layer : usual_tap_layers(target.layers)) taps.push_back({layer});
  }
  taps.push_back({FeatureTap::kFinalNorm});
  return taps;
}

HeadFinder heads_with(const LearningHead& learning, std::filesystem::path head, HeadFinder others) {
  return [kind = learning.kind, path = head.string(),
          others = std::move(others)](std::string_view asked) {
    if (asked == kind) return path;
    return others ? others(asked) : std::string();
  };
}

}  // namespace talon
