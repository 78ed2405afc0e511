#include <map>
#include <optional>

#include "bench/provenance.h"
#include "bench/spec/spec_questions.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/options/draft_options.h"
#include "cli/options/flags.h"
#include "cli/options/list_flag.h"
#include "cli/options/opened_model.h"
#include "cli/options/prompt_options.h"
#include "cli/options/sampler_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "trace/reliability_report.h"

namespace talon {
namespace {

class BenchCalibration : public Command {
 public:
  explicit BenchCalibration(CLI::App& parent)
      : Command(parent.add_subcommand(
            "calibration", "whether a drafter's chances come true, as it says and as corrected")) {
    decode_.policy = "fixed";  // every node that was drafted is a trial
    add_model_flag(*app_, model_);
    add_drafter_flag(*app_, decode_);
    app_->add_option("--questions", questions_, "Spec-Bench questions, JSON lines")
        ->type_name("FILE")
        ->required();
    add_int(*app_, "-n,--max-new", max_new_, 1, 1 << 20, "most tokens of an answer");
    add_int(*app_, "--limit", limit_, 0, 1 << 30, "first questions only, 0 for all");
    app_->add_option("--report", report_, "also write calibration.html, .md and .jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    add_sampler_flags(*app_, sampler_, seed_);
    make_temperature_list(*app_, temperatures_);
    add_decode_flags(*app_, decode_);
    add_backend_flags(*app_, model_);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    split_drafter(*app_, decode_);
    if (decode_.drafter == "none")
      throw UsageError("bench calibration: expected a drafter (-d), got none");
    make_report_folder(report_);
    const auto questions = select_questions(read_questions(questions_), {.limit = limit_});
    OpenedModel opened = open_model_with_cache(model_);
    const Tokenizer& tokenizer = opened.require_tokenizer();
    std::optional<ChatTemplate> chat;
    if (tokenizer.chat_template()) chat = chat_template_of(tokenizer);
    std::map<double, Reliability> reliability;
    use_places(decode_, opened, opened.cache->store().shape.type);
    choose_drafter(decode_);
    decode_.observer = [&](const RoundReport& round) {
      reliability[sampler_.temperature].add(round);
    };
    Answerer answerer(opened.model, *opened.cache, &tokenizer, decode_);
    const InterruptGuard interrupt;
    const auto stopped = [&] { return interrupt.stop().requested(); };
    ProgressMeter meter("bench calibration, answers");
    std::size_t answered = 0;
    for (const double temperature : temperatures_) {
      if (stopped()) break;
      sampler_.temperature = temperature;
      reliability[temperature];
      for (const Question& question : questions) {
        if (stopped()) break;
        answer(opened, chat ? &*chat : nullptr, answerer, question, interrupt.stop());
        meter.update(++answered, questions.size() * temperatures_.size());
      }
    }
    for (const auto& [temperature, found] : reliability)
      print(temperature, found, stopped() && temperature == sampler_.temperature);
    return stopped() ? kExitInterrupted : kExitDone;
  }

 private:
  /// The first turn.
  void answer(const OpenedModel& opened, const ChatTemplate* chat, Answerer& answerer,
              const Question& question, const StopFlag& stop) const {
    const Tokenizer& tokenizer = *opened.tokenizer;
    const std::string& turn = question.turns.front();
    Request request;
    if (chat) {
      const std::vector<ChatMessage> messages = {{"user", turn}};
      request.prompt = encode_chat(tokenizer, *chat, messages).tokens;
    } else {
      request.prompt = encode_prompt(tokenizer, turn + "\n", 0, /*parse_special=*/false);
    }
    request.max_new = max_new_;
    request.sampler = sampler_;
    request.seed = seed_;
    request.end_tokens = opened.end_tokens;
    request.reuse_prefix = false;
    const auto length = static_cast<int>(request.prompt.size()) + max_new_;
    if (length > opened.model.config.context) {
      note("skipped question {}: prompt and answer exceed the context", question.id.dump());
      return;
    }
    answerer.decode(std::move(request), {}, &stop);
  }

  void print(double temperature, const Reliability& reliability, bool is_partial) const {
    std::vector<Json> lines = reliability.lines();
    for (Json& line : lines) line["temperature"] = temperature;
    Json closing = provenance({{"drafter", decode_.drafter},
                               {"policy", decode_.policy},
                               {"questions", questions_},
                               {"max_new", max_new_},
                               {"temperature", temperature},
                               {"threads", thread_count(model_)}});
    closing["model"] = model_.model;
    closing["partial"] = is_partial;
    closing["summary"] = reliability.summary();
    lines.push_back(std::move(closing));
    for (const Json& line : lines) write_json(line);
    note("temperature {}\n{}", temperature, markdown_of(reliability_table(reliability)));
    if (report_.empty()) return;
    const std::string subtitle =
        fmt::format("{} with {} at temperature {}", model_.model, decode_.drafter, temperature);
    const std::string name = temperatures_.size() > 1 ? fmt::format("calibration-{}", temperature)
                                                      : std::string("calibration");
    write_report(report_, name, reliability_report(reliability, subtitle),
                 markdown_of(reliability_table(reliability)), lines);
  }

  ModelOptions model_;
  DecodeSettings decode_;
  SamplerOptions sampler_;
  std::vector<double> temperatures_ = {0};
  std::uint64_t seed_ = 1;
  std::string questions_;
  std::string report_;
  int max_new_ = 128;
  int limit_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_bench_calibration(CLI::App& parent) {
  return std::make_unique<BenchCalibration>(parent);
}

}  // namespace talon
