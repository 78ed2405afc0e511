#include "cli/command.h"
#include "cli/train/train_head.h"
#include "cli/train/train_image.h"
#include "cli/train/train_policy.h"

namespace talon {

std::vector<std::unique_ptr<Command>> make_commands(CLI::App& app) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_run(app));
  commands.push_back(make_chat(app));
  commands.push_back(make_serve(app));
  commands.push_back(make_image(app));
  commands.push_back(make_tokenize(app));
  commands.push_back(make_score(app));
  commands.push_back(make_inspect(app));
  commands.push_back(make_convert(app));
  commands.push_back(make_pull(app));
  CLI::App& bench = *app.add_subcommand("bench", "measure this machine, a model, a drafter");
  bench.require_subcommand(1);
  commands.push_back(make_bench_spec(bench));
  commands.push_back(make_bench_image(bench));
  commands.push_back(make_bench_cost(bench));
  commands.push_back(make_bench_load(bench));
  commands.push_back(make_bench_contention(bench));
  commands.push_back(make_bench_calibration(bench));
  commands.push_back(make_bench_kernels(bench));
  commands.push_back(make_bench_signature(bench));
  commands.push_back(make_bench_compare(bench));
  commands.push_back(make_bench_field(bench));
  commands.push_back(make_bench_simulate(bench));
  commands.push_back(make_bench_tree(bench));
  CLI::App& train = *app.add_subcommand("train", "make draft heads and policies for a model");
  train.require_subcommand(1);
  commands.push_back(make_train_data(train));
  commands.push_back(
      make_train_head(train, [](const TrainHeadRequest&) { return start_trainer_program(); }));
  commands.push_back(
      make_train_policy(train, [](const TrainPolicyRequest&) { return start_trainer_program(); }));
  commands.push_back(
      make_train_image(train, [](const TrainImageRequest&) { return start_trainer_program(); }));
  commands.push_back(make_help(app));
  commands.push_back(make_completion(app));
  return commands;
}

}  // namespace talon
