#include <algorithm>
#include <optional>

#include "bench/bandwidth.h"
#include "bench/cost.h"
#include "bench/multiply.h"
#include "bench/provenance.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/flags.h"
#include "cli/session.h"
#include "core/error.h"

namespace talon {
namespace {

constexpr std::size_t kProbeBytes = std::size_t{1}
                                    << 30;  // larger than any cache it might measure by mistake

class BenchCost : public Command {
 public:
  explicit BenchCost(CLI::App& parent)
      : Command(parent.add_subcommand(
            "cost", "milliseconds of a forward of n rows, beside the machine's limit")) {
    add_model_flag(*app_, model_);
    app_->add_option_function<std::string>(
            "--rows",
            [this](const std::string& text) {
              settings_.rows = parse_int_list("--rows", text, 1, 4096);
            },
            "row counts")
        ->type_name("N,N,...")
        ->default_str("1,2,4,8,16,32,64");
    add_int(*app_, "--context", settings_.context, 1, 1 << 24,
            "committed positions before the rows");
    add_int(*app_, "--repeats", settings_.repeats, 1, 1000, "forwards per row count, interleaved");
    add_forward_flags(*app_, model_);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    std::sort(settings_.rows.begin(), settings_.rows.end());
    settings_.rows.erase(std::unique(settings_.rows.begin(), settings_.rows.end()),
                         settings_.rows.end());
    if (settings_.rows.empty()) throw UsageError("--rows: expected at least one number, got none");
    Session session = open_session(model_);
    check_context(session);
    const MultiplyRate multiply = measure_multiply_rate(model_.threads);
    std::vector<double> bandwidths;
    BandwidthProbe probe(model_.threads, kProbeBytes);
    Target target(session.model, *session.cache, settings_.rows.back());
    const std::vector<ForwardCost> costs =
        measure_forward_cost(target, settings_, [&] { bandwidths.push_back(probe.sweep()); });
    const Spread bandwidth = spread_of(bandwidths);
    for (const ForwardCost& cost : costs)
      print_cost(session, cost, costs.front(), bandwidth.median, multiply.gmac_s);
    print_machine(session, bandwidth, multiply);
    return kExitDone;
  }

 private:
  void check_context(const Session& session) const {
    const int context = session.model.config.context;
    if (settings_.context + settings_.rows.back() > context) {
      throw UsageError(
          fmt::format("--context: {} positions and {} rows exceed the {} positions of {}",
                      settings_.context, settings_.rows.back(), context, model_.model));
    }
  }

  void print_cost(const Session& session, const ForwardCost& cost, const ForwardCost& first,
                  double bandwidth_gb_s, double gmac_s) const {
    const ForwardWork work =
        forward_work(session.model, session.cache->store().shape, cost.rows, settings_.context);
    const double limit_ms = std::max(work.bytes / bandwidth_gb_s, work.macs / gmac_s) / 1e6;
    write_json({{"rows", cost.rows},
                {"context", settings_.context},
                {"ms", cost.ms.median},
                {"ms_least", cost.ms.least},
                {"ms_most", cost.ms.most},
                {"c", cost.ms.median / first.ms.median},
                {"gb_s", work.bytes / cost.ms.median / 1e6},
                {"gmac_s", work.macs / cost.ms.median / 1e6},
                {"limit_ms", limit_ms},
                {"percent_of_limit", 100 * limit_ms / cost.ms.median}});
  }

  void print_machine(const Session& session, const Spread& bandwidth,
                     const MultiplyRate& multiply) const {
    write_json({{"bandwidth_gb_s", bandwidth.median},
                {"bandwidth_gb_s_least", bandwidth.least},
                {"bandwidth_gb_s_most", bandwidth.most},
                {"multiply_gmac_s", multiply.gmac_s},
                {"multiply_instruction", multiply.instruction},
                {"weights_bytes", session.model.weight_bytes},
                {"model", model_.model},
                {"backend", session.backend->description()},
                {"commit", build_commit()},
                {"machine", to_json(describe_machine())},
                {"settings",
                 {{"threads", thread_count(model_)},
                  {"weights", name_of(model_.weights)},
                  {"activations", session.activation_bits},
                  {"repeats", settings_.repeats}}}});
  }

  ModelOptions model_;
  CostSettings settings_;
};

}  // namespace

std::unique_ptr<Command> make_bench_cost(CLI::App& parent) {
  return std::make_unique<BenchCost>(parent);
}

}  // namespace talon
