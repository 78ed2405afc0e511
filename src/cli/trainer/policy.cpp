#include "cli/trainer/policy.h"

#include "cli/options/opened_model.h"
#include "cli/options/places.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "cli/trainer/question_prompts.h"
#include "core/error.h"
#include "draft/registry.h"
#include "runtime/cache_budget.h"
#include "runtime/cost_cache.h"
#include "train/policy/gather_drafts.h"
#include "train/policy/train_policy.h"
#include "tree/machine_costs.h"
#include "tree/pass_costs.h"

namespace talon {
namespace {

GatherOptions gather_options(const TrainPolicyRequest& request, const LoadedModel& loaded) {
  const PolicyTrainOptions& train = request.train;
  GatherOptions options;
  options.drafter = train.is_radar() ? with_whole_pool(train.drafter) : train.drafter;
  options.drafts = {.levels = train.most,
                    .width = train.topk_used(),
                    .most_nodes = train.nodes,
                    .every_position = !train.is_radar(),
                    .features = !train.is_radar(),
                    .end_tokens = loaded.end_tokens};
  options.heads = heads_at_hand(loaded);
  options.max_new = request.questions.max_new;
  options.batch = request.texts_at_once;
  options.temperatures = train.temperatures;
  options.seed = train.seed;
  return options;
}

/// What rounds cost on this machine, which the policy is trained for.
RoundCosts measured_costs(const LoadedModel& loaded, const TrainPolicyRequest& request) {
  const PolicyTrainOptions& train = request.train;
  const auto drafter =
      make_drafter(train.drafter, {.target = &loaded.model, .heads = heads_at_hand(loaded)});
  const KvType cache = cache_type(loaded.model, request.model.kv);
  const CostProfile profile = obtain_costs(loaded.model, cache, *drafter, train.drafter,
                                           cost_cache(loaded, cache, costs_folder()));
  if (!profile.steady)
    note("note: the machine was busy while its costs were measured: they may not hold");
  const MachineCosts machine(train.nodes + 1, profile);
  // On the mean over the texts: above temperature 0 a pass makes the noise of its level, too.
  const auto pass_ms_of = [&](int rows) {
    double sum = 0;
    for (const double temperature : train.temperatures) {
      const PassCosts passes(train.nodes + 1, profile, /*sampled=*/temperature > 0);
      sum += passes.pass_ms(rows, machine);
    }
    return sum / static_cast<double>(train.temperatures.size());
  };
  const double first_ms = pass_ms_of(1);
  const double pass_ms = pass_ms_of(train.topk_used());
  note("a level costs {:.3f} ms, a check {:.3f} ms with 1 row and {:.3f} with {}", pass_ms,
       machine.check_ms(1), machine.check_ms(train.nodes + 1), train.nodes + 1);
  return {[machine, first_ms, pass_ms](int levels, int nodes) {
            return machine.check_ms(nodes + 1) + first_ms + (levels - 1) * pass_ms;
          },
          pass_ms};
}

RoundCosts costs_of(const LoadedModel& loaded, const TrainPolicyRequest& request) {
  if (request.train.is_radar() && request.train.pass_cost == 0)
    return measured_costs(loaded, request);
  return flat_costs(request.train.pass_cost);
}

std::vector<DraftExample> gather(const LoadedModel& loaded, const TrainPolicyRequest& request,
                                 const StopFlag& stop) {
  const auto prompts = question_prompts(loaded, request.questions);
  ProgressMeter meter("answers");
  auto examples = gather_drafts(
      loaded.model, prompts, gather_options(request, loaded),
      [&](std::size_t texts, std::size_t) { meter.update(texts, prompts.size()); }, &stop);
  if (!stop.requested()) note("{} answers, {} drafts", prompts.size(), examples.size());
  return examples;
}

}  // namespace

int train_policy_command(const TrainPolicyRequest& asked) {
  TrainPolicyRequest request = asked;
  request.model.threads = request.train.threads;
  const LoadedModel loaded = load_with_meter(request.model);
  const InterruptGuard interrupt;
  const RoundCosts costs = costs_of(loaded, request);
  std::vector<DraftExample> examples = gather(loaded, request, interrupt.stop());
  if (interrupt.stop().requested()) {
    note("stopped while gathering drafts: nothing is written");
    return kExitInterrupted;
  }
  FitHooks hooks;
  hooks.log = [](std::string_view line) { note("{}", line); };
  hooks.stop = &interrupt.stop();
  const Json origin = {{"model", request.model.model},
                       {"drafter", request.train.drafter},
                       {"questions", request.questions.file},
                       {"tokens per answer", request.questions.max_new}};
  const PolicyTrainResult result =
      train_policy(request.train, std::move(examples), costs, origin, hooks);
  if (result.file.empty()) {
    note("stopped before the end of the first epoch: nothing is written");
    return kExitInterrupted;
  }
  note("{} in {}: {}", request.train.kind, result.file.string(), result.facts.dump());
  return result.stopped ? kExitInterrupted : kExitDone;
}

}  // namespace talon
