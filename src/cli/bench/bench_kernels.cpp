#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "backend/cpu/cpu_features.h"
#include "bench/machine/cost_report.h"
#include "bench/machine/kernel_workloads.h"
#include "bench/machine/kernels.h"
#include "bench/provenance.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/model_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/machine/processors.h"

namespace talon {
namespace {

constexpr const char* kAll = "all";

/// The values that `list` names, in its order; all of them for "all".
template <typename T>
std::vector<T> pick(const std::string& flag, const std::string& list, const Choices<T>& choices) {
  std::vector<std::string> names;
  std::vector<T> values;
  for (const auto& [name, value] : choices) {
    names.push_back(name);
    if (list == kAll) values.push_back(value);
  }
  if (list == kAll) return values;
  for (const std::string& word : split_list(flag, list)) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) fail_choice(flag, names, word);
    values.push_back(choices[static_cast<std::size_t>(found - names.begin())].second);
  }
  return values;
}

Choices<std::string> operation_choices() {
  Choices<std::string> choices;
  for (const std::string_view name : kernel_operations())
    choices.push_back({std::string(name), std::string(name)});
  return choices;
}

Choices<std::string> model_choices() {
  Choices<std::string> choices;
  for (const KernelModel& model : kernel_models())
    choices.push_back({std::string(model.name), std::string(model.name)});
  return choices;
}

Choices<StorageType> format_choices() {
  Choices<StorageType> choices;
  for (const StorageType type : kernel_formats())
    choices.push_back({std::string(name_of(type)), type});
  return choices;
}

Choices<CpuKernels> runnable_choices() {
  Choices<CpuKernels> choices;
  for (const CpuKernels kernels : runnable_kernels())
    choices.push_back({std::string(cpu::name_of(kernels)), kernels});
  return choices;
}

template <typename T>
std::string names_of(const Choices<T>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  return one_of(names);
}

class BenchKernels : public Command {
 public:
  explicit BenchKernels(CLI::App& parent)
      : Command(parent.add_subcommand(
            "kernels", "every kernel, format and row count on made-up weights, beside the limit")) {
    add_list("--kernels", kernels_, "instruction sets: " + names_of(runnable_choices()));
    add_list("--shape", models_, "whose shapes: " + names_of(model_choices()));
    add_list("--op", operations_, "which calls of a forward: " + names_of(operation_choices()));
    add_list("--format", formats_, "stored types of the weights: " + names_of(format_choices()));
    add_ints("--rows", settings_.rows, 1, 4096, "row counts");
    add_ints("--context", settings_.contexts, 0, 1 << 20, "cached positions of attention");
    add_choice<Activations>(*app_, "--activations", settings_.activations, activation_choices(),
                            "bits of the inputs of 4- and 8-bit weights; 16 also keeps those of "
                            "bf16 weights in float32");
    add_choice<KvType>(*app_, "--kv", settings_.kv, kv_choices(), "type of the cache");
    add_int(*app_, "--threads", settings_.threads, 0, 1024, "threads, 0 for all processors");
    add_int(*app_, "--repeats", settings_.repeats, 1, 1000, "medians of so many, interleaved");
    add_int(*app_, "--ring-mb", ring_mb_, 1, 1 << 16,
            "MiB of weights that calls go round, so that no cache holds them");
    app_->add_option("--report", report_, "write kernels.html, kernels.md and kernels.jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    settings_.kernels = pick("--kernels", kernels_, runnable_choices());
    settings_.models = pick("--shape", models_, model_choices());
    settings_.operations = pick("--op", operations_, operation_choices());
    settings_.formats = pick("--format", formats_, format_choices());
    settings_.ring_bytes = static_cast<std::size_t>(ring_mb_) << 20;
    if (settings_.rows.empty()) throw UsageError("--rows: expected at least one number, got none");
    make_report_folder(report_);
    const InterruptGuard interrupt;
    ProgressMeter meter("bench kernels, workloads");
    std::vector<Json> lines;
    const auto print = [&](Json line) {
      write_json(line);
      lines.push_back(std::move(line));
    };
    measure_kernels(
        settings_, interrupt.stop(), [&](const KernelCost& cost) { print(line_of(cost)); },
        [&](std::size_t done, std::size_t total) { meter.update(done, total); });
    const bool is_partial = interrupt.stop().requested();
    Json closing = closing_line();
    closing["partial"] = is_partial;
    print(std::move(closing));
    const std::string markdown = markdown_of(kernel_table(lines));
    note("{}", markdown);
    if (!report_.empty()) write_report(report_, "kernels", kernel_report(lines), markdown, lines);
    return is_partial ? kExitInterrupted : kExitDone;
  }

 private:
  void add_list(const std::string& name, std::string& list, const std::string& help) {
    app_->add_option(name, list, help)->type_name("A,B,...")->capture_default_str();
  }

  void add_ints(const std::string& name, std::vector<int>& values, int least, int most,
                const std::string& help) {
    app_->add_option_function<std::string>(
            name,
            [=, &values](const std::string& text) {
              values = parse_int_list(name, text, least, most);
            },
            help)
        ->type_name("N,N,...")
        ->default_str(fmt::format("{}", fmt::join(values, ",")));
  }

  static Json line_of(const KernelCost& cost) {
    Json line = {{"kernels", cost.kernels},
                 {"shape", cost.model},
                 {"op", cost.operation},
                 {"format", cost.format},
                 {"layout", cost.layout},
                 {"rows", cost.rows},
                 {"ms", cost.ms.median},
                 {"ms_least", cost.ms.least},
                 {"ms_most", cost.ms.most},
                 {"gb_s", cost.bytes / cost.ms.median / 1e6},
                 {"gmac_s", cost.macs / cost.ms.median / 1e6},
                 {"bandwidth_gb_s", cost.bandwidth_gb_s},
                 {"multiply_gmac_s", cost.multiply_gmac_s},
                 {"instruction", cost.instruction},
                 {"limit", cost.bandwidth_ms() > cost.multiply_ms() ? "bandwidth" : "multiply"},
                 {"limit_ms", cost.limit_ms()},
                 {"percent_of_limit", 100 * cost.limit_ms() / cost.ms.median}};
    if (cost.context >= 0) line["context"] = cost.context;
    return line;
  }

  Json closing_line() const {
    const int threads = worker_count(settings_.threads);
    return provenance({{"threads", threads},
                       {"activations", name_of(settings_.activations)},
                       {"repeats", settings_.repeats},
                       {"ring_mb", ring_mb_}});
  }

  KernelSettings settings_;
  std::string kernels_ = kAll;
  std::string models_ = kAll;
  std::string operations_ = kAll;
  std::string formats_ = kAll;
  std::string report_;
  int ring_mb_ = 512;
};

}  // namespace

std::unique_ptr<Command> make_bench_kernels(CLI::App& parent) {
  return std::make_unique<BenchKernels>(parent);
}

}  // namespace talon
