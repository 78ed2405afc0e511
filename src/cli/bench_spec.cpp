#include <algorithm>
#include <optional>

#include "bench/provenance.h"
#include "bench/spec.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/draft_options.h"
#include "cli/flags.h"
#include "cli/progress_meter.h"
#include "cli/prompt_options.h"
#include "cli/sampler_options.h"
#include "cli/session.h"
#include "core/error.h"

namespace talon {
namespace {

class BenchSpec : public Command {
 public:
  explicit BenchSpec(CLI::App& parent)
      : Command(parent.add_subcommand(
            "spec", "drafters beside plain decoding on questions, with the same answers")) {
    add_model_flag(*app_, model_);
    app_->add_option("--methods", methods_, "drafters; none is added where it is missing")
        ->type_name("M1,M2,...")
        ->required();
    app_->add_option("--questions", questions_, "Spec-Bench questions, JSON lines")
        ->type_name("FILE")
        ->required();
    add_int(*app_, "-n,--max-new", settings_.max_new, 1, 1 << 20, "most tokens of an answer");
    add_int(*app_, "--limit", limit_, 0, 1 << 30, "first questions only, 0 for all");
    app_->add_option("--category", category_, "questions of this category only")->type_name("NAME");
    app_->add_option("--report", report_, "also write spec.jsonl and spec.md there")
        ->type_name("DIR");
    add_sampler_flags(*app_, settings_.sampler, settings_.seed);
    add_decode_flags(*app_, settings_.decode);
    add_backend_flags(*app_, model_);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    set_methods();
    const std::vector<Question> questions = read_questions(questions_, category_, limit_);
    Session session = open_session(model_);
    std::optional<ChatTemplate> chat;
    if (session.require_tokenizer().chat_template()) chat = chat_template_of(*session.tokenizer);
    const SpecModel model{session.model, *session.cache, *session.tokenizer,
                          chat ? &*chat : nullptr, session.end_tokens()};
    BenchReport report(report_);
    std::size_t answered = 0;
    ProgressMeter meter("bench spec, answers");
    int skipped = 0;
    const Json summary = run_spec_bench(
        model, questions, settings_,
        [&](const Json& line) {
          report.line(line);
          meter.update(++answered, questions.size() * settings_.methods.size());
        },
        [&](const Question& question, const std::string& reason) {
          ++skipped;
          note("skipped question {}: {}", question.id.dump(), reason);
        });
    report.line(closing_line(session, summary, skipped));
    report.finish(summary_table(summary));
    return all_equal(summary) ? kExitDone : kExitFailed;
  }

 private:
  void set_methods() {
    settings_.methods = split_methods(methods_);
    if (std::find(settings_.methods.begin(), settings_.methods.end(), "none") ==
        settings_.methods.end()) {
      note("note: adding the method none, which the others are compared with");
    }
    std::erase(settings_.methods, "none");
    settings_.methods.insert(settings_.methods.begin(), "none");
  }

  static bool all_equal(const Json& summary) {
    for (const auto& [method, values] : summary.items()) {
      if (values["equal"] == true) continue;
      note("talon: {} changed the tokens of an answer, which must never happen", method);
      return false;
    }
    return true;
  }

  Json closing_line(const Session& session, const Json& summary, int skipped) const {
    return {{"summary", summary},
            {"skipped", skipped},
            {"model", model_.model},
            {"backend", session.backend->description()},
            {"commit", build_commit()},
            {"machine", to_json(describe_machine())},
            {"settings",
             {{"threads", thread_count(model_)},
              {"weights", name_of(model_.weights)},
              {"activations", session.activation_bits},
              {"policy", settings_.decode.policy},
              {"verify", settings_.decode.verify},
              {"max_new", settings_.max_new},
              {"temperature", settings_.sampler.temperature},
              {"seed", settings_.seed}}}};
  }

  ModelOptions model_;
  SpecSettings settings_;
  std::string methods_;
  std::string questions_;
  std::string category_;
  std::string report_;
  int limit_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_bench_spec(CLI::App& parent) {
  return std::make_unique<BenchSpec>(parent);
}

}  // namespace talon
