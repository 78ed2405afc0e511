#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/flags.h"

namespace talon {

/// What `talon train head` and `talon train policy` take alike.

constexpr int kMany = 1 << 30;

/// The questions that the target answers.
struct QuestionOptions {
  std::string file = {};
  int limit = 0;  // evenly spread over the file; 0: all
  int max_new = 128;
};

struct QuestionFlags {
  std::string group;
  std::string help;  // of --questions
  int least_new = 1;
};

/// --questions, --limit and -n; returns the first.
CLI::Option* add_question_flags(CLI::App& app, QuestionOptions& options,
                                const QuestionFlags& flags);

/// An option that some kinds of what is trained alone have use for, and these kinds.
struct OptionOfKinds {
  const char* flag;
  std::vector<std::string_view> kinds;
};
/// Throws UsageError for one that was given where `kind` has no use for it.
void require_kinds(const CLI::App& app, std::span<const OptionOfKinds> options,
                   std::string_view kind);

void add_out_flag(CLI::App& app, std::string& out, const std::string& help);

/// --precision, `auto` unless `precision` says something else.
void add_precision_flag(CLI::App& app, std::string& precision);
/// What `auto` stands for: bf16 on a GPU and where the processor has instructions for products of
/// bf16, else f32, since bf16 without them is many times slower. Other words stand for themselves.
std::string precision_on(std::string_view device, const std::string& precision);

/// What the steps and rounds of a training are, for messages.
struct ScheduleWords {
  std::string step;   // what --batch counts
  std::string round;  // what --patience counts
};

/// --batch, --rate, --weight-decay, --patience, --seed and --threads of `train`, which has members
/// of these names.
template <typename Options>
void add_schedule_flags(CLI::App& app, Options& train, const ScheduleWords& words) {
  const char* group = "Schedule";
  add_int(app, "--batch", train.batch, 1, kMany, words.step)->group(group);
  add_real(app, "--rate", train.rate, 0, 1, "highest learning rate")->group(group);
  add_real(app, "--weight-decay", train.weight_decay, 0, 1, "of AdamW")->group(group);
  add_int(app, "--patience", train.patience, 0, kMany,
          words.round + " without a better one before it stops, 0 for never")
      ->group(group);
  add_count(app, "--seed", train.seed, "of order and initial values")->group(group);
  add_int(app, "--threads", train.threads, 1, 1024, "of the target and of training, per process")
      ->group("Work");
}

}  // namespace talon
