#include <algorithm>
#include <set>

#include "bench/provenance.h"
#include "bench/simulate/simulate.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "core/error.h"
#include "report/table.h"
#include "runtime/method.h"
#include "tree/policy_registry.h"

namespace talon {
namespace {

constexpr const char* kRecorded = "recorded";

/// Those of the registry that a trace is enough for.
std::vector<std::string> replayable_policies() {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : policies()) {
    if (!find_required(entry.options) && policy_taps(entry.name).empty())
      names.emplace_back(entry.name);
  }
  return names;
}

std::string built_in_names() {
  std::string names = kRecorded;
  for (const MachineCurve& curve : built_in_curves()) names += ", " + curve.name;
  return names;
}

class BenchSimulate : public Command {
 public:
  explicit BenchSimulate(CLI::App& parent)
      : Command(parent.add_subcommand(
            "simulate", "what policies would give on another machine, from recorded rounds")) {
    app_->add_option("--trace", traces_, "rounds recorded by run or bench spec; may be repeated")
        ->type_name("FILE")
        ->required()
        ->allow_extra_args(false);
    app_->add_option("--machine", machines_,
                     "cost curve, may be repeated: a JSON file, lines of bench cost, or one of " +
                         built_in_names() + " (default: all of these)")
        ->type_name("NAME|FILE")
        ->allow_extra_args(false);
    app_->add_option("--policies", policies_, "which (default: all that need nothing but a trace)")
        ->type_name("P1,P2,...");
    add_int(*app_, "--batch", batch_, 0, 4096,
            "answers that decode together, 0 for what the machine says");
    add_int(*app_, "--max-nodes", max_nodes_, 1, 1024,
            "most drafted tokens of one answer in one check");
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    if (machines_.empty()) {
      machines_ = {kRecorded};
      for (const MachineCurve& curve : built_in_curves()) machines_.push_back(curve.name);
    }
    std::vector<std::string> names =
        policies_.empty() ? replayable_policies() : split_methods(policies_);
    Table table;
    table.columns = {"method", "machine",           "batch",       "policy", "tok/s", "speed-up",
                     "tau",    "drafted per check", "ms per round"};
    for (const std::string& file : traces_) {
      const Trace trace = read_trace(file);
      for (const std::string& machine : machines_) {
        SimulationSettings settings;
        settings.machine = machine == kRecorded ? recorded_curve(trace) : find_curve(machine);
        if (batch_ > 0) settings.machine.batch = batch_;
        settings.max_nodes = max_nodes_;
        for (const std::string& policy : names) {
          settings.policy = policy;
          print(trace, settings, simulate(trace, settings), table);
        }
      }
    }
    Json closing = provenance({{"traces", traces_}, {"max_nodes", max_nodes_}});
    closing["simulated"] = true;
    write_json(closing);
    note("{}", markdown_of(table));
    return kExitDone;
  }

 private:
  static std::string method_of(const Trace& trace) {
    for (const char* key : {"method", "drafter"}) {
      if (trace.about.contains(key) && trace.about[key].is_string()) return trace.about[key];
    }
    return "";
  }

  void print(const Trace& trace, const SimulationSettings& settings, const SimulationResult& result,
             Table& table) const {
    const auto rounds = static_cast<double>(std::max(1L, result.rounds));
    const double borrowed = static_cast<double>(result.borrowed) / rounds;
    const double speedup = result.tok_s() / result.plain_tok_s;
    const double drafted = static_cast<double>(result.drafted) / rounds;
    const double round_ms = result.ms() * settings.machine.batch / rounds;
    Json line = {{"method", method_of(trace)},
                 {"machine", settings.machine.name},
                 {"batch", settings.machine.batch},
                 {"policy", settings.policy},
                 {"tok_s", result.tok_s()},
                 {"plain_tok_s", result.plain_tok_s},
                 {"speedup", speedup},
                 {"tau", result.tau()},
                 {"drafted_per_check", drafted},
                 {"round_ms", round_ms},
                 {"draft_ms", result.draft_ms},
                 {"check_ms", result.check_ms},
                 {"rest_ms", result.rest_ms},
                 {"tokens", result.tokens},
                 {"borrowed", borrowed},
                 {"source", settings.machine.source}};
    const double checks = rounds / settings.machine.batch;
    if (result.experts > 0) line["experts_per_check"] = result.experts / checks;
    write_json(line);
    table.rows.push_back({method_of(trace), settings.machine.name,
                          fmt::format("{}", settings.machine.batch), settings.policy,
                          fmt::format("{:.1f}", result.tok_s()), fmt::format("{:.2f}", speedup),
                          fmt::format("{:.2f}", result.tau()), fmt::format("{:.1f}", drafted),
                          fmt::format("{:.2f}", round_ms)});
  }

  std::vector<std::string> traces_;
  std::vector<std::string> machines_;
  std::string policies_;
  int batch_ = 0;
  int max_nodes_ = 64;
};

}  // namespace

std::unique_ptr<Command> make_bench_simulate(CLI::App& parent) {
  return std::make_unique<BenchSimulate>(parent);
}

}  // namespace talon
