#include "train/head/measure_head.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "core/error.h"
#include "draft/registry.h"
#include "engine/engine.h"

namespace talon {
namespace {

constexpr int kMostNodes = 128;
constexpr int kRows = 512;

std::size_t positions_of(const HeadMeasure& measure) {
  std::size_t positions = 0;
  for (const auto& prompt : measure.prompts) {
    const std::size_t one = prompt.size() + static_cast<std::size_t>(measure.max_new) + kMostNodes;
    positions += (one / kPageRows + 2) * kPageRows;
  }
  return positions;
}

std::size_t cache_bytes(const ModelConfig& config, std::size_t positions) {
  const KvShape page{config.layers, config.kv_heads, config.head_dim, 1, KvType::f16};
  return (positions / kPageRows + 16) * kv_page_bytes(page);
}

}  // namespace

double measure_acceptance(const Model& target, const HeadMeasure& measure,
                          const std::string& drafter_text) {
  const std::size_t positions = positions_of(measure);
  KvCache cache(*target.backend, target.config, cache_bytes(target.config, positions));
  const auto drafter =
      make_drafter(drafter_text, {.target = &target, .cache_positions = positions});
  const auto verifier = make_verifier("follow");
  EngineOptions options;
  options.policy = "fixed";
  options.max_nodes = kMostNodes;
  options.max_rows = kRows;
  Target network(target, cache, kRows, drafter->taps());
  Engine engine(network, *drafter, *verifier, options);
  for (const auto& prompt : measure.prompts) {
    Request request;
    request.prompt = prompt;
    request.max_new = measure.max_new;
    request.end_tokens = measure.end_tokens;
    const auto submitted = engine.submit(std::move(request));
    if (const Refusal* refusal = std::get_if<Refusal>(&submitted))
      fail("measure head: {}", refusal->message);
  }
  std::int64_t rounds = 0, emitted = 0;
  while (!engine.idle()) {
    for (const Progress& progress : engine.step()) {
      if (progress.finish == FinishReason::none) continue;
      if (progress.finish == FinishReason::failed) fail("measure head: {}", progress.error);
      const SequenceStatistics& statistics = engine.statistics(progress.sequence);
      rounds += statistics.rounds;
      emitted += statistics.rounds +
                 std::accumulate(statistics.accepted.begin(), statistics.accepted.end(), 0);
    }
  }
  return rounds == 0 ? 1 : static_cast<double>(emitted) / static_cast<double>(rounds);
}

}  // namespace talon
