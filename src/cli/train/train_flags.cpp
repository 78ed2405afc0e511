#include "cli/train/train_flags.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "backend/cpu/cpu_features.h"
#include "core/error.h"

namespace talon {

CLI::Option* add_question_flags(CLI::App& app, QuestionOptions& options,
                                const QuestionFlags& flags) {
  CLI::Option* questions = app.add_option("--questions", options.file, flags.help);
  questions->type_name("FILE")->group(flags.group);
  add_int(app, "--limit", options.limit, 0, kMany,
          "of the questions, evenly spread over the file, 0 for all")
      ->needs(questions)
      ->group(flags.group);
  add_int(app, "-n,--max-new", options.max_new, flags.least_new, 1 << 20,
          "most tokens of an answer")
      ->needs(questions)
      ->group(flags.group);
  return questions;
}

void require_kinds(const CLI::App& app, std::span<const OptionOfKinds> options,
                   std::string_view kind) {
  for (const auto& [flag, kinds] : options) {
    if (app.count(flag) == 0 || std::ranges::find(kinds, kind) != kinds.end()) continue;
    throw UsageError(
        fmt::format("{}: expected --kind {}, got {}", flag, fmt::join(kinds, ", "), kind));
  }
}

void add_out_flag(CLI::App& app, std::string& out, const std::string& help) {
  app.add_option("-o,--out", out, help)->type_name("FOLDER")->required();
}

void add_precision_flag(CLI::App& app, std::string& precision) {
  add_choice<std::string>(app, "--precision", precision,
                          {{"auto", "auto"}, {"bf16", "bf16"}, {"f32", "f32"}},
                          "of matrix products; auto: bf16 where it is fast")
      ->group("Work");
}

std::string precision_on(std::string_view device, const std::string& precision) {
  if (precision != "auto") return precision;
  const bool is_fast = device != "cpu" || cpu::supported(CpuKernels::avx512_bf16);
  return is_fast ? "bf16" : "f32";
}

}  // namespace talon
