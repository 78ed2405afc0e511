#include "train/head/measure_head.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "core/error.h"
#include "draft/registry.h"
#include "draw/picture_prompt.h"
#include "runtime/make_engine.h"

namespace talon {
namespace {

constexpr int kMostNodes = 128;
constexpr int kTogether = 16;  // answers at once: so many whole trees fit the rows of one check

int most_tokens(const Model& target, const HeadMeasure& measure) {
  return target.config.image ? target.config.image->answer_tokens() : measure.max_new;
}

std::size_t positions_of(const Model& target, const HeadMeasure& measure) {
  const auto answer = static_cast<std::size_t>(most_tokens(target, measure));
  std::size_t positions = 0;
  for (const auto& prompt : measure.prompts)
    positions += positions_for(prompt.size() + answer + kMostNodes);
  return measure.guidance > 1 ? 2 * positions : positions;
}

void submit(Engine& engine, const Model& target, const HeadMeasure& measure,
            const std::vector<TokenId>& prompt) {
  Request request;
  if (target.config.image) {
    ask_for(target, {prompt, measure.guide_prompt, {}}, measure.guidance, request);
  } else {
    request.prompt = prompt;
    request.max_new = measure.max_new;
    request.end_tokens = measure.end_tokens;
  }
  request.sampler.temperature = measure.temperature;
  const auto submitted = engine.submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted))
    fail("measure head: {}", refusal->message);
}

}  // namespace

std::string with_head(const std::string& drafter, const std::filesystem::path& folder) {
  const char* option = drafter.starts_with("draft:") ? "model" : "head";
  return fmt::format("{},{}={}", drafter, option, folder.string());
}

double measure_acceptance(const Model& target, const HeadMeasure& measure,
                          const std::string& drafter_text) {
  constexpr std::size_t kSpare = 16 * kPageRows;
  const std::size_t positions = positions_of(target, measure);
  const CacheOptions cache{kv_cache_bytes(target.config, KvType::f16, positions + kSpare),
                           KvType::f16};
  auto drafter = make_drafter(drafter_text, {.target = &target, .cache_positions = positions});
  EngineOptions options;
  options.max_nodes = kMostNodes;
  options.max_rows = options.chunk + kTogether * (1 + kMostNodes);
  OwnedEngine engine =
      make_engine(target, cache, {make_method(std::move(drafter), target, "fixed"), options});
  std::int64_t rounds = 0, emitted = 0;
  std::size_t submitted = 0;
  int running = 0;
  const auto is_stopped = [&] { return measure.stop && measure.stop->requested(); };
  while ((submitted < measure.prompts.size() || running > 0) && !is_stopped()) {
    for (; submitted < measure.prompts.size() && running < kTogether; ++submitted, ++running) {
      submit(*engine, target, measure, measure.prompts[submitted]);
    }
    for (const Progress& progress : engine->step()) {
      if (progress.finish == FinishReason::none) continue;
      if (progress.finish == FinishReason::failed) fail("measure head: {}", progress.error);
      --running;
      const SequenceStatistics& statistics = engine->statistics(progress.sequence);
      rounds += statistics.rounds;
      emitted += statistics.rounds +
                 std::accumulate(statistics.accepted.begin(), statistics.accepted.end(), 0);
    }
  }
  return rounds == 0 ? 1 : static_cast<double>(emitted) / static_cast<double>(rounds);
}

}  // namespace talon
