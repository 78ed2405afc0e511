#include "train/policy/gather_drafts.h"

#include <algorithm>
#include <variant>

#include "core/error.h"
#include "draft/registry.h"
#include "engine/engine.h"

namespace talon {
namespace {

constexpr int kMostRows = 512;
constexpr int kSpareRows = 128;  // of a text's cache, for levels in flight

std::size_t positions_of(const std::vector<std::vector<TokenId>>& prompts,
                         const GatherOptions& options) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  const std::size_t one = longest + static_cast<std::size_t>(options.max_new) + kSpareRows;
  return (one / kPageRows + 2) * kPageRows * static_cast<std::size_t>(options.batch);
}

std::size_t cache_bytes(const ModelConfig& config, std::size_t positions) {
  const KvShape page{config.layers, config.kv_heads, config.head_dim, 1, KvType::f16};
  return (positions / kPageRows) * kv_page_bytes(page);
}

class Gathering {
 public:
  Gathering(const Model& target, std::size_t positions, const GatherOptions& options)
      : options_(options),
        cache_(*target.backend, target.config, cache_bytes(target.config, positions)),
        collector_(make_drafter(options.drafter, {.target = &target, .cache_positions = positions}),
                   *target.backend, target.config.hidden, options.drafts),
        verifier_(make_verifier("follow")),
        target_(target, cache_, kMostRows, collector_.taps()),
        engine_(target_, collector_, *verifier_, engine_options()) {}

  std::vector<DraftExample> run(const std::vector<std::vector<TokenId>>& prompts,
                                const GatherProgress& progress, const StopFlag* stop) {
    std::size_t next = 0, ended = 0;
    const auto batch = static_cast<std::size_t>(options_.batch);
    while (ended < prompts.size() && !(stop && stop->requested())) {
      while (next < prompts.size() && next - ended < batch) submit(prompts[next++]);
      for (const Progress& news : engine_.step()) {
        if (news.finish == FinishReason::failed) throw Error(std::string(news.error));
        ended += news.finish != FinishReason::none ? 1 : 0;
      }
      if (progress) progress(ended, collector_.examples());
    }
    return collector_.take_examples();
  }

 private:
  static EngineOptions engine_options() {
    EngineOptions options;
    options.policy = "fixed";
    options.max_rows = kMostRows;
    return options;
  }

  void submit(const std::vector<TokenId>& prompt) {
    Request request;
    request.prompt = prompt;
    request.max_new = options_.max_new;
    request.end_tokens = options_.drafts.end_tokens;
    const auto submitted = engine_.submit(std::move(request));
    if (const Refusal* refusal = std::get_if<Refusal>(&submitted))
      fail("train policy: {}", refusal->message);
  }

  const GatherOptions& options_;
  KvCache cache_;
  DraftCollector collector_;
  std::unique_ptr<Verifier> verifier_;
  Target target_;
  Engine engine_;
};

}  // namespace

std::vector<DraftExample> gather_drafts(const Model& target,
                                        const std::vector<std::vector<TokenId>>& prompts,
                                        const GatherOptions& options,
                                        const GatherProgress& progress, const StopFlag* stop) {
  if (prompts.empty()) fail("train policy: expected prompts that fit the context, found none");
  return Gathering(target, positions_of(prompts, options), options).run(prompts, progress, stop);
}

std::string with_whole_pool(const std::string& drafter) {
  if (split_drafters(drafter).size() != 1)
    throw UsageError("--drafter: expected one draft head, found several drafters");
  if (drafter.find("nodes=") != std::string::npos) return drafter;
  return drafter + (drafter.find(':') == std::string::npos ? ":" : ",") + "nodes=1024";
}

}  // namespace talon
