#include <filesystem>

#include "backend/weight_layout.h"
#include "core/error.h"
#include "draft/drafters.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/gemma4_assistant/assistant_drafter.h"
#include "draft/growth/named_trees.h"
#include "draft/head_options.h"
#include "draft/mtp/mtp_weights.h"
#include "io/quote.h"

namespace talon {
namespace {

std::unique_ptr<Drafter> make_with_head(Options& options, const DrafterContext& context,
                                        HeadGeneration wanted, EagleOptions eagle) {
  HeadOptions head_options = read_layouts(options);
  const bool is_eagle3 = wanted == HeadGeneration::eagle3;
  if (is_eagle3) head_options.tap_layers = options.wholes("taps");
  const std::string path = read_head_path(options, context, is_eagle3 ? "eagle3" : "eagle2");
  expects(context.target != nullptr, "a drafter with a head has a target");
  const Checkpoint checkpoint = open_checkpoint(path);
  expect_head_of(kEagleDrafters, options, checkpoint);
  auto head = shared_head(context, checkpoint, head_options);
  const HeadGeneration found = head->config.generation;
  if (found != wanted) {
    const char* const others[] = {"eagle or eagle2", "eagle3", "peagle"};
    throw UsageError(fmt::format("{}: expected an {} head, found an {} one in {}: use {}",
                                 options.name(), name_of(wanted), name_of(found), quote(path),
                                 others[static_cast<int>(found)]));
  }
  eagle.window = read_window(options, checkpoint, head->config.common_window());
  eagle.cache_positions = context.cache_positions;
  eagle.coupling = read_coupling(options);
  return make_eagle_drafter(std::move(head), *context.target, eagle);
}

EagleOptions read_dynamic(Options& options) {
  EagleOptions eagle;
  eagle.draws = options.text("draw") == "on";
  DynamicTreeShape& shape = eagle.dynamic;
  shape.children = shape.width = options.whole("topk");
  shape.levels = options.whole("levels");
  shape.nodes = options.whole("nodes");
  const std::string& tree = options.text("tree");
  if (tree.empty() && eagle.draws)
    options.misuse("draw", "off without tree=, since a tree that follows chances is not drawn");
  if (tree.empty()) return eagle;
  eagle.fixed = tree_of(tree);
  if (options.is_given("topk")) eagle.fixed = eagle.fixed->cut(kMostDraftLevels, shape.children);
  if (!options.is_given("levels")) shape.levels = eagle.fixed->levels();
  if (!options.is_given("nodes")) shape.nodes = static_cast<int>(eagle.fixed->nodes.size());
  return eagle;
}

std::unique_ptr<Drafter> make_eagle1(Options& options, const DrafterContext& context) {
  EagleOptions eagle;
  eagle.draws = options.text("draw") == "on";
  const std::string& given = options.text("tree");
  const StaticTree tree = tree_of(given.empty() ? "mc_sim_7b_63" : given);
  const int children = options.whole_or("topk", tree.children());
  eagle.dynamic.levels = options.whole_or("levels", tree.levels());
  eagle.dynamic.nodes = options.whole_or("nodes", static_cast<int>(tree.nodes.size()));
  const bool chain = children == 1 && given.empty();
  eagle.fixed = chain ? chain_tree(eagle.dynamic.levels) : tree.cut(eagle.dynamic.levels, children);
  return make_with_head(options, context, HeadGeneration::eagle1, std::move(eagle));
}

std::unique_ptr<Drafter> make_eagle2(Options& options, const DrafterContext& context) {
  return make_with_head(options, context, HeadGeneration::eagle1, read_dynamic(options));
}

std::unique_ptr<Drafter> make_eagle3(Options& options, const DrafterContext& context) {
  return make_with_head(options, context, HeadGeneration::eagle3, read_dynamic(options));
}

template <typename Weights, typename Load>
std::shared_ptr<const Weights> load_shared(const DrafterContext& context, const std::string& key,
                                           const Checkpoint& file, const Load& load) {
  return context.weights<Weights>(key, [&] {
    Weights loaded = load();
    file.check_whole();
    return loaded;
  });
}

/// The layer is the target's own, unless a file of its own is named, which may hold Gemma 4's
/// assistant.
std::unique_ptr<Drafter> make_mtp(Options& options, const DrafterContext& context) {
  expect_text(options, context);
  expects(context.target != nullptr, "a drafter with a head has a target");
  EagleOptions eagle = read_dynamic(options);
  if (options.text("tree").empty() && eagle.dynamic.children == 1) {
    eagle.fixed = chain_tree(eagle.dynamic.levels);
  }
  eagle.cache_positions = context.cache_positions;
  eagle.coupling = read_coupling(options);
  const WeightLayout layout = read_layout(options);
  std::filesystem::path path = options.text("head");
  if (path.empty()) path = context.find_head("mtp");
  if (path.empty()) path = context.target->source;
  const std::string key = fmt::format("mtp {} {}", name_of(layout), path.string());
  const Checkpoint file = open_checkpoint(path);
  if (is_gemma4_assistant(file)) {
    auto assistant = load_shared<Gemma4AssistantWeights>(
        context, key, file, [&] { return load_gemma4_assistant(file, *context.target, layout); });
    return make_gemma4_assistant_drafter(std::move(assistant), eagle);
  }
  auto head = load_shared<HeadWeights>(context, key, file,
                                       [&] { return load_mtp(file, *context.target, layout); });
  return make_eagle_drafter(std::move(head), *context.target, eagle);
}

Option draw_option() {
  return {"draw", OneOf{{"on", "off"}}, "off",
          "draws the children of the fixed tree, as the codes of EAGLE-1 and LANTERN do (rules "
          "token, block, traversal and lantern)"};
}

std::vector<Option> dynamic_options(std::string usual_levels) {
  return {{"topk", WholeNumber{1, kMostDraftChildren}, "10",
           "nodes expanded per level, and children of each"},
          {"levels", WholeNumber{1, kMostDraftLevels}, std::move(usual_levels),
           "tree levels below the root"},
          {"nodes", WholeNumber{1, kMostDraftNodes}, "59", "draft nodes, root excluded"},
          {"tree", FreeText{"TREE"}, "",
           "a fixed tree instead: " + static_tree_names() +
               ", or a file with paths of ranks as "
               "JSON"},
          draw_option()};
}

}  // namespace

DrafterEntry eagle1_drafter() {
  return {.name = "eagle",
          .summary =
              "EAGLE-1 (arXiv:2401.15077): a head drafts a tree of fixed shape from the "
              "target's last features",
          .options = joined(
              joined({{"tree", FreeText{"TREE"}, "",
                       static_tree_names() + ", or a file with paths of ranks as "
                                             "JSON (default: mc_sim_7b_63, the official 25 nodes)"},
                      {"topk", WholeNumber{1, kMostDraftChildren}, "",
                       "most children per node (default: the tree's); 1: a chain"},
                      {"levels", WholeNumber{1, kMostDraftLevels}, "",
                       "most levels (default: the tree's)"},
                      {"nodes", WholeNumber{1, kMostDraftNodes}, "",
                       "most draft nodes (default: the tree's)"},
                      draw_option()},
                     window_options()),
              head_options()),
          .make = make_eagle1,
          .needs_head = true,
          .passes_by_level = true};
}

DrafterEntry eagle2_drafter() {
  return {.name = "eagle2",
          .summary =
              "EAGLE-2 (arXiv:2406.16858): an EAGLE-1 head drafts a tree that follows its "
              "confidence",
          .options = joined(joined(dynamic_options("6"), window_options()), head_options()),
          .make = make_eagle2,
          .needs_head = true,
          .passes_by_level = true};
}

DrafterEntry mtp_drafter() {
  return {.name = "mtp",
          .summary =
              "MTP (arXiv:2412.19437): the layer that a model was trained to predict a token "
              "further with drafts such a tree",
          .options = joined(dynamic_options("4"), head_options()),
          .make = make_mtp,
          .needs_head = true,
          .passes_by_level = true};
}

DrafterEntry eagle3_drafter() {
  const Option taps{"taps", WholeNumbers{0, 1 << 16}, "",
                    "target layers whose inputs it reads, 1/8/14 (default: as the head says)"};
  return {.name = "eagle3",
          .summary =
              "EAGLE-3 (arXiv:2503.01840): a head that fuses features of several layers "
              "drafts such a tree",
          .options = joined(joined(joined(dynamic_options("8"), {taps}), window_options()),
                            head_options()),
          .make = make_eagle3,
          .needs_head = true,
          .passes_by_level = true};
}

}  // namespace talon
