#include "train/policy/gather_drafts.h"

#include <algorithm>
#include <variant>

#include "core/error.h"
#include "draft/registry.h"
#include "runtime/make_engine.h"

namespace talon {
namespace {

constexpr std::size_t kSpareRows = 128;  // of a text's cache, for levels in flight

std::size_t positions_of(const std::vector<std::vector<TokenId>>& prompts,
                         const GatherOptions& options) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  const std::size_t one = longest + static_cast<std::size_t>(options.max_new) + kSpareRows;
  return positions_for(one) * static_cast<std::size_t>(options.batch);
}

std::shared_ptr<DraftCollector> make_collector(const Model& target, std::size_t positions,
                                               const GatherOptions& options) {
  auto drafter = make_drafter(
      options.drafter, {.target = &target, .cache_positions = positions, .heads = options.heads});
  return std::make_shared<DraftCollector>(std::move(drafter), *target.backend, options.drafts);
}

class Gathering {
 public:
  Gathering(const Model& target, std::size_t positions, const GatherOptions& options)
      : options_(options),
        collector_(make_collector(target, positions, options)),
        engine_(make_engine(target,
                            {kv_cache_bytes(target.config, KvType::f16, positions), KvType::f16},
                            {make_method(collector_, target, "fixed")})) {}

  std::vector<DraftExample> run(const std::vector<std::vector<TokenId>>& prompts,
                                const GatherProgress& progress, const StopFlag* stop) {
    std::size_t next = 0, ended = 0;
    const auto batch = static_cast<std::size_t>(options_.batch);
    while (ended < prompts.size() && !(stop && stop->requested())) {
      for (; next < prompts.size() && next - ended < batch; ++next) submit(prompts[next], next);
      for (const Progress& news : engine_->step()) {
        if (news.finish == FinishReason::failed) throw Error(std::string(news.error));
        ended += news.finish != FinishReason::none ? 1 : 0;
      }
      if (progress) progress(ended, collector_->examples());
    }
    return collector_->take_examples();
  }

 private:
  /// The answer of that number.
  void submit(const std::vector<TokenId>& prompt, std::size_t number) {
    Request request;
    request.prompt = prompt;
    request.max_new = options_.max_new;
    request.end_tokens = options_.drafts.end_tokens;
    const auto& temperatures = options_.temperatures;
    request.sampler.temperature = temperatures[number % temperatures.size()];
    request.seed = options_.seed + number;
    const auto submitted = engine_->submit(std::move(request));
    if (const Refusal* refusal = std::get_if<Refusal>(&submitted))
      fail("train policy: {}", refusal->message);
  }

  const GatherOptions& options_;
  std::shared_ptr<DraftCollector> collector_;
  OwnedEngine engine_;
};

}  // namespace

std::vector<DraftExample> gather_drafts(const Model& target,
                                        const std::vector<std::vector<TokenId>>& prompts,
                                        const GatherOptions& options,
                                        const GatherProgress& progress, const StopFlag* stop) {
  if (prompts.empty()) fail("train policy: expected prompts that fit the context, found none");
  expects(!options.temperatures.empty(), "a temperature of the answers");
  return Gathering(target, positions_of(prompts, options), options).run(prompts, progress, stop);
}

std::string with_whole_pool(const std::string& drafter) {
  if (split_drafters(drafter).size() != 1)
    throw UsageError("--drafter: expected one draft head, found several drafters");
  if (drafter.find("nodes=") != std::string::npos) return drafter;
  return drafter + (drafter.find(':') == std::string::npos ? ":" : ",") + "nodes=1024";
}

}  // namespace talon
