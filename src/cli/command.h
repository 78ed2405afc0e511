#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <vector>

namespace talon {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // Ctrl-C ended the answer early, as shells expect

/// One subcommand: it declares its options when made, and runs when it was the one chosen.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  virtual ~Command() = default;
  /// The exit code. Throws UsageError for options that cannot be meant, Error for everything
  /// outside the program.
  virtual int run() = 0;
  bool chosen() const { return app_->parsed(); }

 protected:
  CLI::App* app_;  // owned by the parser
};

std::unique_ptr<Command> make_run(CLI::App& parent);
std::unique_ptr<Command> make_chat(CLI::App& parent);
std::unique_ptr<Command> make_serve(CLI::App& parent);
std::unique_ptr<Command> make_tokenize(CLI::App& parent);
std::unique_ptr<Command> make_score(CLI::App& parent);
std::unique_ptr<Command> make_inspect(CLI::App& parent);
std::unique_ptr<Command> make_convert(CLI::App& parent);
std::unique_ptr<Command> make_pull(CLI::App& parent);
std::unique_ptr<Command> make_image(CLI::App& parent);
std::unique_ptr<Command> make_help(CLI::App& parent);
std::unique_ptr<Command> make_completion(CLI::App& parent);
std::unique_ptr<Command> make_bench_compare(CLI::App& parent);
std::unique_ptr<Command> make_bench_calibration(CLI::App& parent);
std::unique_ptr<Command> make_bench_contention(CLI::App& parent);
std::unique_ptr<Command> make_bench_cost(CLI::App& parent);
std::unique_ptr<Command> make_bench_image(CLI::App& parent);
std::unique_ptr<Command> make_bench_field(CLI::App& parent);
std::unique_ptr<Command> make_bench_kernels(CLI::App& parent);
std::unique_ptr<Command> make_bench_load(CLI::App& parent);
std::unique_ptr<Command> make_bench_signature(CLI::App& parent);
std::unique_ptr<Command> make_bench_simulate(CLI::App& parent);
std::unique_ptr<Command> make_bench_spec(CLI::App& parent);
std::unique_ptr<Command> make_bench_tree(CLI::App& parent);
std::unique_ptr<Command> make_train_data(CLI::App& parent);

/// All of them, in the order in which help lists them.
std::vector<std::unique_ptr<Command>> make_commands(CLI::App& app);

}  // namespace talon
