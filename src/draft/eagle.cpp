#include <filesystem>

#include "core/error.h"
#include "draft/drafters.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/head_options.h"
#include "io/quote.h"

namespace talon {
namespace {

[[noreturn]] void misuse(const OptionText& options, std::string_view message) {
  throw UsageError(fmt::format("{}: {}", options.name(), message));
}

/// `1/8/14`: the target layers whose inputs are fused.
std::vector<int> take_tap_layers(OptionText& options) {
  const std::string text = options.take_text("taps", "");
  std::vector<int> layers;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    OptionText one(fmt::format("{}:taps={}", options.name(), text.substr(begin, end - begin)));
    layers.push_back(one.take_int("taps", 0, 0, 1 << 16));
    begin = end + 1;
  }
  return layers;
}

struct ChosenHead {
  std::string path;
  HeadOptions options;
};

ChosenHead take_head(OptionText& options, const DrafterContext& context,
                     HeadGeneration generation) {
  ChosenHead head;
  head.path =
      take_head_path(options, context, generation == HeadGeneration::eagle3 ? "eagle3" : "eagle2");
  head.options.layout = take_layout(options);
  if (generation == HeadGeneration::eagle3) head.options.tap_layers = take_tap_layers(options);
  return head;
}

std::unique_ptr<Drafter> make_with_head(const OptionText& options, const ChosenHead& chosen,
                                        const DrafterContext& context, HeadGeneration wanted,
                                        EagleOptions eagle) {
  options.finish();
  require_head(options, chosen.path);
  expects(context.target != nullptr, "a drafter with a head has a target");
  const Checkpoint checkpoint = open_checkpoint(chosen.path);
  HeadWeights head = load_head(checkpoint, *context.target, chosen.options);
  checkpoint.check_whole();
  if (head.config.generation != wanted) {
    misuse(options,
           fmt::format("expected an {} head, found an {} one in {}: use {}", name_of(wanted),
                       name_of(head.config.generation), quote(chosen.path),
                       wanted == HeadGeneration::eagle3 ? "eagle or eagle2" : "eagle3"));
  }
  eagle.cache_positions = context.cache_positions;
  return make_eagle_drafter(std::move(head), *context.target, eagle);
}

std::unique_ptr<Drafter> make_dynamic(OptionText& options, const DrafterContext& context,
                                      HeadGeneration generation, int usual_levels) {
  EagleOptions eagle;
  DynamicTreeShape& shape = eagle.dynamic;
  shape.children = shape.width = options.take_int("topk", 10, 1, kMostDraftChildren);
  shape.levels = options.take_int("levels", usual_levels, 1, kMostDraftLevels);
  shape.nodes = options.take_int("nodes", 59, 1, kMostDraftNodes);
  const std::string tree = options.take_text("tree", "");
  if (!tree.empty()) eagle.fixed = read_static_tree(tree).cut(shape.levels, shape.children);
  const ChosenHead head = take_head(options, context, generation);
  return make_with_head(options, head, context, generation, std::move(eagle));
}

}  // namespace

std::unique_ptr<Drafter> make_eagle1_drafter(OptionText& options, const DrafterContext& context) {
  EagleOptions eagle;
  const std::string file = options.take_text("tree", "");
  StaticTree tree = file.empty() ? eagle1_tree() : read_static_tree(file);
  const int children = options.take_int("topk", tree.children(), 1, kMostDraftChildren);
  eagle.dynamic.levels = options.take_int("levels", tree.levels(), 1, kMostDraftLevels);
  eagle.dynamic.nodes =
      options.take_int("nodes", static_cast<int>(tree.nodes.size()), 1, kMostDraftNodes);
  const bool chain = children == 1 && file.empty();
  eagle.fixed = chain ? chain_tree(eagle.dynamic.levels) : tree.cut(eagle.dynamic.levels, children);
  const ChosenHead head = take_head(options, context, HeadGeneration::eagle1);
  return make_with_head(options, head, context, HeadGeneration::eagle1, std::move(eagle));
}

std::unique_ptr<Drafter> make_eagle2_drafter(OptionText& options, const DrafterContext& context) {
  return make_dynamic(options, context, HeadGeneration::eagle1, 6);
}

std::unique_ptr<Drafter> make_eagle3_drafter(OptionText& options, const DrafterContext& context) {
  return make_dynamic(options, context, HeadGeneration::eagle3, 8);
}

}  // namespace talon
