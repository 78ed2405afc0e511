#include "draft/drafters.h"

#include "backend/weight_layout.h"
#include "core/error.h"
#include "draft/block/block_drafter.h"
#include "draft/head_options.h"
#include "io/quote.h"

namespace talon {
namespace {

BlockOptions read_block_options(Options& options, const DrafterContext& context) {
  BlockOptions block;
  block.children = options.whole("topk");
  block.levels = options.whole_or("levels", kMostDraftLevels);
  block.nodes = options.whole("nodes");
  block.places = options.whole_or("places", 0);
  block.cache_positions = context.cache_positions;
  block.coupling = read_coupling(options);
  return block;
}

std::unique_ptr<Drafter> make_block(Options& options, const DrafterContext& context,
                                    std::string_view kind, bool branches) {
  BlockOptions block = read_block_options(options, context);
  if (branches) block.stop = options.real("stop");
  const WeightLayout layout = read_layout(options);
  expect_text(options, context);
  const std::string path = read_head_path(options, context, kind);
  expects(context.target != nullptr, "a drafter with a head has a target");
  const Checkpoint checkpoint = open_checkpoint(path);
  auto head = context.weights<BlockWeights>(fmt::format("{} {}", name_of(layout), path), [&] {
    BlockWeights loaded = load_block_head(checkpoint, *context.target, layout);
    checkpoint.check_whole();
    return loaded;
  });
  if ((head->config.markov_rank > 0) != branches) {
    throw UsageError(fmt::format(
        "{}: expected a head {} a bias by the token before, found {}: use {}", options.name(),
        branches ? "with" : "without", quote(path), branches ? "dflash" : "dspark"));
  }
  if (block.stop > 0 && !head->config.confidence)
    options.misuse("stop", fmt::format("0 for {}, which does not say how sure it is", quote(path)));
  block.window = read_window(options, checkpoint, 0);
  return make_block_drafter(std::move(head), *context.target, block);
}

std::unique_ptr<Drafter> make_dflash(Options& options, const DrafterContext& context) {
  return make_block(options, context, "dflash", false);
}

std::unique_ptr<Drafter> make_dspark(Options& options, const DrafterContext& context) {
  return make_block(options, context, "dspark", true);
}

std::unique_ptr<Drafter> make_peagle(Options& options, const DrafterContext& context) {
  BlockOptions block = read_block_options(options, context);
  const HeadOptions head_options = read_layouts(options);
  expect_text(options, context);
  const std::string path = read_head_path(options, context, "peagle");
  expects(context.target != nullptr, "a drafter with a head has a target");
  const Checkpoint checkpoint = open_checkpoint(path);
  expect_head_of(kEagleDrafters, options, checkpoint);
  auto head = shared_head(context, checkpoint, head_options);
  if (const HeadGeneration found = head->config.generation; found != HeadGeneration::peagle) {
    throw UsageError(fmt::format("{}: expected a P-EAGLE head, found an {} one in {}: use {}",
                                 options.name(), name_of(found), quote(path),
                                 found == HeadGeneration::eagle3 ? "eagle3" : "eagle or eagle2"));
  }
  block.window = read_window(options, checkpoint, head->config.common_window());
  return make_parallel_drafter(std::move(head), *context.target, block);
}

std::vector<Option> block_options(const std::vector<Option>& more = {}) {
  return joined(
      joined({{"topk", WholeNumber{1, kMostDraftChildren}, "10", "guesses of each place"},
              {"levels", WholeNumber{1, kMostDraftLevels}, "",
               "tree levels below the root (default: all places)"},
              {"nodes", WholeNumber{1, kMostDraftNodes}, "63", "draft nodes, root excluded"},
              {"places", WholeNumber{1, kMostDraftLevels}, "",
               "guessed in a pass (default: as many as the head was made for)"}},
             joined(more, window_options())),
      head_options());
}

}  // namespace

DrafterEntry dflash_drafter() {
  return {.name = "dflash",
          .summary =
              "DFlash (arXiv:2602.06036): a head guesses a block of places in one pass, and the "
              "likeliest products are checked (DDTree, arXiv:2604.12989)",
          .options = block_options(),
          .make = make_dflash,
          .needs_head = true};
}

DrafterEntry dspark_drafter() {
  return {.name = "dspark",
          .summary =
              "DSpark (arXiv:2607.05147): such a head whose guesses of a place are biased by the "
              "token before",
          .options = block_options({{"stop", RealNumber{0, 1}, "0",
                                     "confidence of the head below which a branch ends"}}),
          .make = make_dspark,
          .needs_head = true};
}

DrafterEntry peagle_drafter() {
  return {.name = "peagle",
          .summary =
              "P-EAGLE (arXiv:2602.01469): an EAGLE-3 head with more layers guesses several "
              "places in one pass",
          .options = block_options(),
          .make = make_peagle,
          .needs_head = true};
}

}  // namespace talon
