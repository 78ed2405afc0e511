#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "backend/cpu/cpu.h"
#include "backend/wrap/tracing.h"
#include "bench/machine/bandwidth.h"
#include "bench/machine/cost.h"
#include "bench/machine/cost_report.h"
#include "bench/machine/multiply.h"
#include "bench/provenance.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "draft/registry.h"
#include "engine/measure_costs.h"
#include "runtime/heads/auto_drafter.h"

namespace talon {
namespace {

constexpr int kFillRows = 256;  // context rows per forward
constexpr std::array kPassRows = {1, 2, 4, 8, 10};
constexpr double kPassBudgetMs = 200;  // per repeat

class BenchCost : public Command {
 public:
  explicit BenchCost(CLI::App& parent)
      : Command(parent.add_subcommand(
            "cost", "milliseconds of a forward of n rows, beside the machine's limit")) {
    add_model_flag(*app_, model_);
    add_counts("--rows", settings_.rows, 1, 4096, "row counts");
    add_counts("--context", settings_.contexts, 1, 1 << 24, "committed positions before the rows");
    app_->add_option("-d,--drafter", drafter_,
                     "also passes of its draft head, over the row counts it can have")
        ->type_name("DRAFTER");
    add_choice<SequenceRows::Logits>(
        *app_, "--logits", settings_.logits,
        {{"all", SequenceRows::Logits::all}, {"last", SequenceRows::Logits::last}},
        "rows with logits; last: as a prefill");
    add_int(*app_, "--repeats", settings_.repeats, 1, 1000, "forwards per row count, interleaved");
    add_forward_flags(*app_, model_);
    add_cache_flag(*app_, model_);
    app_->add_option("--report", report_, "write cost.html, cost.md and cost.jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    sort_counts("--rows", settings_.rows);
    sort_counts("--context", settings_.contexts);
    OpenedModel opened = open_model_with_cache(model_);
    const InterruptGuard interrupt;
    check_context(opened);
    make_report_folder(report_);
    const std::unique_ptr<Drafter> drafter = make_pass_drafter(opened);
    const auto rate = [&](Arithmetic arithmetic) {
      return measure_multiply_rate(model_.threads, arithmetic, model_.kernels);
    };
    // With 16-bit activations the inputs of bf16 weights stay float32.
    const bool rounds = opened.activations != Activations::bits16;
    const Rates rates = {rate(Arithmetic::int8), rate(rounds ? Arithmetic::bf16 : Arithmetic::f32),
                         rate(Arithmetic::f32)};
    std::vector<double> bandwidths;
    BandwidthProbe probe(model_.threads, kProbeBytes);
    ProgressMeter meter("bench cost, sweeps over the rows");
    const std::size_t sweeps =
        settings_.contexts.size() * static_cast<std::size_t>(settings_.repeats);
    const auto between = [&] {
      meter.update(bandwidths.size(), sweeps);
      bandwidths.push_back(probe.sweep());
    };
    const std::vector<ForwardCost> costs = measure(opened, between, interrupt.stop());
    const Spread bandwidth = spread_of(bandwidths);
    std::vector<Json> lines;
    for (const ForwardCost& cost : costs) {
      const auto first = std::find_if(costs.begin(), costs.end(), [&](const ForwardCost& other) {
        return other.context == cost.context;
      });
      lines.push_back(line_of(opened, cost, first->ms.median, bandwidth.median, rates));
    }
    const bool is_partial = interrupt.stop().requested();
    if (drafter && !is_partial) add_pass_lines(opened, *drafter, bandwidth.median, lines);
    lines.push_back(closing_line(opened, bandwidth, rates));
    lines.back()["partial"] = is_partial;
    for (const Json& line : lines) write_json(line);
    const std::string markdown = markdown_of(cost_table(lines));
    note("{}", markdown);
    if (!report_.empty()) write_report(report_, "cost", cost_report(lines), markdown, lines);
    return is_partial ? kExitInterrupted : kExitDone;
  }

 private:
  struct Rates {
    MultiplyRate integer, bf16, real;
  };

  void add_counts(const std::string& name, std::vector<int>& counts, int least, int most,
                  const std::string& help) {
    app_->add_option_function<std::string>(
            name,
            [=, &counts](const std::string& text) {
              counts = parse_int_list(name, text, least, most);
            },
            help)
        ->type_name("N,N,...")
        ->default_str(fmt::format("{}", fmt::join(counts, ",")));
  }

  bool is_prefill() const { return settings_.logits == SequenceRows::Logits::last; }

  static void sort_counts(std::string_view name, std::vector<int>& counts) {
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    if (counts.empty())
      throw UsageError(fmt::format("{}: expected at least one number, got none", name));
  }

  void check_context(const OpenedModel& opened) const {
    const int most = opened.model.config.context;
    if (settings_.contexts.front() + settings_.rows.front() > most) {
      throw UsageError(
          fmt::format("--context: {} positions and {} rows exceed the {} positions of {}",
                      settings_.contexts.front(), settings_.rows.front(), most, model_.model));
    }
    if (settings_.contexts.back() + settings_.rows.back() > most)
      note("bench cost: leaving out rows beyond the {} positions of {}", most, model_.model);
  }

  /// Measures with the opened model's backend and with one that watches it.
  std::vector<ForwardCost> measure(OpenedModel& opened, const std::function<void()>& between,
                                   const StopFlag& stop) const {
    const int most_rows = std::max(settings_.rows.back(), kFillRows);
    Target plain(opened.model, *opened.cache, most_rows);
    std::unique_ptr<TracingBackend> trace = make_tracing_backend(std::move(opened.backend));
    opened.model.backend = trace.get();
    Target traced(opened.model, *opened.cache, most_rows);
    const std::vector<ForwardCost> costs =
        measure_forward_cost({plain, traced, *trace}, settings_, between, stop);
    opened.backend = std::move(trace);
    return costs;
  }

  Json line_of(const OpenedModel& opened, const ForwardCost& cost, double first_ms,
               double bandwidth_gb_s, const Rates& rates) const {
    const ForwardWork work = forward_work(opened.model, opened.cache->store().shape, cost.rows,
                                          is_prefill() ? 1 : cost.rows, cost.context);
    const int planes = opened.activations == Activations::bits16 ? 2 : 1;
    const double multiply_ms = work.integer_macs * planes / rates.integer.gmac_s / 1e6 +
                               work.bf16_macs / rates.bf16.gmac_s / 1e6 +
                               work.float_macs / rates.real.gmac_s / 1e6;
    const double limit_ms = std::max(work.bytes / bandwidth_gb_s / 1e6, multiply_ms);
    return {
        {"rows", cost.rows},
        {"context", cost.context},
        {"ms", cost.ms.median},
        {"ms_least", cost.ms.least},
        {"ms_most", cost.ms.most},
        {"c", cost.ms.median / first_ms},
        {"attention_ms", cost.split.attention_ms},
        {"projections_ms", cost.split.projections_ms},
        {"head_ms", cost.split.head_ms},
        {"rest_ms", cost.split.rest_ms},
        {"gb_s", work.bytes / cost.ms.median / 1e6},
        {"gmac_s", (work.integer_macs + work.bf16_macs + work.float_macs) / cost.ms.median / 1e6},
        {"limit_ms", limit_ms},
        {"percent_of_limit", 100 * limit_ms / cost.ms.median}};
  }

  /// The drafter whose passes are measured; null: none.
  std::unique_ptr<Drafter> make_pass_drafter(const OpenedModel& opened) {
    if (drafter_.empty()) return nullptr;
    const HeadFinder heads = heads_at_hand(opened);
    drafter_ = resolve_drafter(drafter_, heads);
    auto drafter = make_drafter(drafter_, {.target = &opened.model, .heads = heads});
    if (drafter->traits().pass_bytes > 0) return drafter;
    throw UsageError(
        fmt::format("bench cost: expected a drafter with a head that grows trees level by level, "
                    "got {}",
                    drafter_));
  }

  /// What one level of a draft costs beside reading the head's weights once.
  void add_pass_lines(const OpenedModel& opened, Drafter& drafter, double bandwidth_gb_s,
                      std::vector<Json>& lines) const {
    const auto bytes = static_cast<double>(drafter.traits().pass_bytes);
    const double limit_ms = bytes / bandwidth_gb_s / 1e6;
    for (const auto& [rows, ms] :
         measure_passes(opened.model, opened.cache->store().shape.type, drafter, kPassRows,
                        kPassBudgetMs * settings_.repeats)) {
      lines.push_back({{"draft_rows", rows},
                       {"ms", ms},
                       {"gb_s", bytes / ms / 1e6},
                       {"limit_ms", limit_ms},
                       {"times_limit", ms / limit_ms},
                       {"drafter", drafter_}});
    }
  }

  Json closing_line(const OpenedModel& opened, const Spread& bandwidth, const Rates& rates) const {
    Json line = provenance({{"threads", thread_count(model_)},
                            {"weights", name_of(model_.weights)},
                            {"activations", name_of(opened.activations)},
                            {"logits", is_prefill() ? "last" : "all"},
                            {"repeats", settings_.repeats}});
    line["bandwidth_gb_s"] = bandwidth.median;
    line["bandwidth_gb_s_least"] = bandwidth.least;
    line["bandwidth_gb_s_most"] = bandwidth.most;
    line["multiply_gmac_s"] = rates.integer.gmac_s;
    line["multiply_instruction"] = rates.integer.instruction;
    line["multiply_bf16_gmac_s"] = rates.bf16.gmac_s;
    line["multiply_f32_gmac_s"] = rates.real.gmac_s;
    line["weights_bytes"] = opened.model.weight_bytes;
    line["model"] = model_.model;
    line["backend"] = opened.backend->description();
    return line;
  }

  ModelOptions model_;
  CostSettings settings_;
  std::string drafter_;
  std::string report_;
};

}  // namespace

std::unique_ptr<Command> make_bench_cost(CLI::App& parent) {
  return std::make_unique<BenchCost>(parent);
}

}  // namespace talon
