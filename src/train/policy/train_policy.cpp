#include "train/policy/train_policy.h"

#include <ATen/Parallel.h>

#include <set>

#include "core/error.h"
#include "train/policy/export_policy.h"
#include "train/policy/length_task.h"
#include "train/policy/radar_task.h"

namespace talon {
namespace {

std::size_t texts_of(const std::vector<DraftExample>& examples) {
  std::set<int> texts;
  for (const DraftExample& example : examples) texts.insert(example.text);
  return texts.size();
}

Json settings_of(const PolicyTrainOptions& options) {
  Json settings = {{"levels", options.most},
                   {"topk", options.topk_used()},
                   {"nodes", options.nodes},
                   {"width", options.width_used()},
                   {"batch", options.batch},
                   {"rate", options.rate},
                   {"weight_decay", options.weight_decay},
                   {"held_out", options.held_out},
                   {"temperatures", options.temperatures},
                   {"seed", options.seed}};
  if (options.is_radar()) {
    settings.update({{"reward", options.reward},
                     {"alpha", options.alpha},
                     {"gamma", options.gamma},
                     {"dropout", options.dropout},
                     {"pass_cost", options.pass_cost}});
  } else {
    settings.update({{"loss", options.loss}, {"lambda", options.lambda}});
  }
  return settings;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) fail("train policy: cannot make {}: {}", folder.string(), problem.message());
}

}  // namespace

RoundCosts flat_costs(double pass) {
  return {[pass](int levels, int) { return 1 + pass * levels; }, pass};
}

PolicyTrainResult train_policy(const PolicyTrainOptions& options,
                               std::vector<DraftExample> examples, const RoundCosts& costs,
                               const Json& origin, const FitHooks& hooks) {
  at::set_num_threads(options.threads);
  at::manual_seed(options.seed);
  make_folder(options.out);
  Json facts = origin;
  facts["kind"] = options.kind;
  facts["texts"] = texts_of(examples);
  facts["drafts"] = examples.size();
  const ExampleSplit split = split_examples(std::move(examples), options.held_out);
  facts["drafts held out"] = split.held_out.size();
  facts["settings"] = settings_of(options);

  std::unique_ptr<PolicyTask> task;
  if (options.is_radar())
    task = make_radar_task(split, costs, options);
  else
    task = make_length_task(split, options);
  const FitResult fitted = fit(task->fit_task(), options, hooks);

  PolicyTrainResult result;
  result.stopped = fitted.stopped;
  if (fitted.best_epoch == 0) return result;
  result.figures = fitted.best;
  facts["epochs"] = fitted.epochs;
  facts["best epoch"] = fitted.best_epoch;
  for (const auto& [name, value] : fitted.best) facts["held out: " + name] = value;
  result.facts = facts;
  result.file = std::filesystem::path(options.out) / (options.kind + ".safetensors");
  task->write(result.file);
  write_policy_card(options.out,
                    fmt::format("{} for {}", options.kind, facts.value("model", "its target")),
                    facts);
  return result;
}

}  // namespace talon
