#include "draft/drafters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "backend/weight_layout.h"
#include "core/error.h"
#include "draft/head_options.h"
#include "draft/model/model_drafter.h"

namespace talon {
namespace {

std::string read_model_path(Options& options, const DrafterContext& context) {
  const std::string& given = options.text("model");
  if (given == "self") return context.target->source.string();
  std::string path = given.empty() ? context.find_head("draft") : given;
  if (path.empty()) {
    throw UsageError(
        fmt::format("{}: needs model=PATH, a smaller model of the same vocabulary, or model=self",
                    options.name()));
  }
  return path;
}

/// Stages that read the features of the draft model, as heads that were trained for it.
constexpr std::array<std::string_view, 5> kStageHeads = {"eagle2", "eagle3", "dflash", "dspark",
                                                         "peagle"};

bool is_stage_head(const std::string& stage) {
  return std::ranges::find(kStageHeads, stage) != kStageHeads.end();
}

std::vector<std::string> stage_names() {
  std::vector<std::string> names = {"none", "suffix", "ngram"};
  for (const std::string_view head : kStageHeads) names.emplace_back(head);
  return names;
}

/// `stage=eagle3` and `stage_head=PATH` belong together.
std::string read_stage_head(Options& options) {
  const std::string& stage = options.text("stage");
  const std::string& head = options.text("stage_head");
  if (is_stage_head(stage) && head.empty()) {
    throw UsageError(
        fmt::format("{}: stage={}: needs stage_head=PATH, a draft head that was trained for the "
                    "draft model",
                    options.name(), stage));
  }
  if (!is_stage_head(stage) && !head.empty()) {
    options.misuse("stage_head",
                   fmt::format("a stage that is a head ({})", fmt::join(kStageHeads, ", ")));
  }
  return head;
}

/// A head is loaded for the draft model alone, whoever else has one of the same file.
std::unique_ptr<Drafter> make_stage(const std::string& stage, const std::string& head,
                                    const Model& draft, const ModelDrafterOptions& drafter) {
  if (stage == "none") return nullptr;
  if (head.empty()) return make_drafter(stage, {});
  const int levels = std::max(1, drafter.shape.levels - 1);
  return make_drafter(fmt::format("{}:topk=1,levels={},nodes={}", stage, levels, levels),
                      {.target = &draft, .head = head, .cache_positions = drafter.cache_positions});
}

std::unique_ptr<Drafter> make_draft(Options& options, const DrafterContext& context) {
  expect_text(options, context);
  expects(context.target != nullptr, "a drafter with a model has a target");
  ModelDrafterOptions drafter;
  drafter.shape.width = drafter.shape.children = options.whole("topk");
  drafter.shape.levels = options.whole("levels");
  drafter.shape.nodes = options.whole("nodes");
  drafter.cache_positions = context.cache_positions;
  drafter.coupling = read_coupling(options);
  DraftModelOptions load;
  load.layout = read_layout(options);
  load.skipped_layers = options.wholes("skip");
  const std::string& stage = options.text("stage");
  drafter.draws = options.text("draw") == "on";
  if (drafter.draws && (drafter.shape.width != 1 || stage != "none")) {
    throw UsageError(
        fmt::format("{}: draw: expected topk=1 and no stage, found topk={} and stage={}",
                    options.name(), drafter.shape.width, stage));
  }
  if (stage != "none" && drafter.shape.width != 1) {
    throw UsageError(fmt::format("{}: stage: expected topk=1, since it guesses a chain, found {}",
                                 options.name(), drafter.shape.width));
  }
  const std::string stage_head = read_stage_head(options);
  const std::string path = read_model_path(options, context);
  const std::string key =
      fmt::format("{} {} {}", name_of(load.layout), fmt::join(load.skipped_layers, "/"), path);
  auto model = context.weights<DraftModel>(
      key, [&] { return load_draft_model(path, *context.target, load); });
  drafter.stage = make_stage(stage, stage_head, model->model, drafter);
  return make_model_drafter(std::move(model), *context.target, std::move(drafter));
}

std::vector<Option> options_of_network() {
  std::vector<Option> options = head_options();
  options.erase(options.begin());  // head
  for (Option& option : options) {
    if (option.name == "weights") option = model_weights_option();
    if (option.name == "beta") option.usual = "1";
  }
  return options;
}

}  // namespace

DrafterEntry model_drafter() {
  constexpr int kMostWidth = 16;
  return {.name = "draft",
          .summary =
              "a smaller model (arXiv:2211.17192), or the target itself in fewer bits or without "
              "some layers, drafts a chain or a tree",
          .options = joined(
              {{"model", FreeText{"PATH"}, "",
                "the smaller model; self: the target (default: one that belongs to the model)"},
               {"skip", WholeNumbers{0, 1 << 16}, "", "layers that it leaves out, 8/9/10"},
               {"topk", WholeNumber{1, kMostWidth}, "1",
                "nodes expanded per level, and children of each; 1: a chain"},
               {"levels", WholeNumber{1, kMostWidth}, "6", "tree levels below the root"},
               {"nodes", WholeNumber{1, kMostDraftNodes}, "24", "draft nodes, root excluded"},
               {"draw", OneOf{{"on", "off"}}, "off",
                "draws a chain's tokens, as speculative sampling has it (rules token, block and "
                "traversal)"},
               {"stage", OneOf{stage_names()}, "none",
                "guesses a chain (topk=1) for the model, which checks it in one pass"},
               {"stage_head", FreeText{"PATH"}, "", "the stage, where it is a head for the model"}},
              options_of_network()),
          .make = make_draft,
          .needs_head = true,
          .passes_by_level = true};
}

}  // namespace talon
