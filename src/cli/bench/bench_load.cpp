#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "bench/load/load_check.h"
#include "bench/load/load_run.h"
#include "bench/load/load_summary.h"
#include "bench/provenance.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/options/sampler_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "runtime/answerer.h"
#include "text/prompt.h"

namespace talon {
namespace {

constexpr const char* kModelGroup = "Model and backend";
constexpr auto kBetween = std::chrono::milliseconds(150);  // for what a slice cut off to end

class BenchLoad : public Command {
 public:
  explicit BenchLoad(CLI::App& parent)
      : Command(parent.add_subcommand(
            "load", "servers with many requests at once: speed, waits, gaps, the same texts")) {
    add_model_flag(*app_, model_);
    app_->add_option("--methods", methods_,
                     "talon serve with DRAFTER[@policy=POLICY], started here; "
                     "peer:llama.cpp[@BUILD]=PATH of llama-server. The first is the measure")
        ->type_name("M1,M2,...")
        ->capture_default_str();
    app_->add_option("--url", urls_, "an endpoint that is running, such as x=http://host:8000/v1")
        ->type_name("NAME=URL[#MODEL]")
        ->allow_extra_args(false);
    app_->add_option("--questions", sources_, "as bench spec; the first turn of each is asked")
        ->type_name("[NAME=]FILE")
        ->required()
        ->allow_extra_args(false);
    app_->add_option("--category", choice_.category, "questions of this category or subtask only")
        ->type_name("NAME");
    add_level_flags();
    add_real(*app_, "--seconds", settings_.seconds, 0.1, 86400, "of each server in each round");
    add_int(*app_, "--rounds", rounds_, 1, 1000, "turns of each at each level");
    add_int(*app_, "-n,--max-new", prompts_.max_new, 1, 1 << 20,
            "most tokens of an answer; the least is half of it");
    add_int(*app_, "--max-prompt", prompts_.max_prompt, 1, 1 << 20,
            "longer questions are left out");
    add_int(*app_, "--long-prompt", settings_.long_tokens, 0, 1 << 20,
            fmt::format("prompts of so many tokens, {} or more, come in meanwhile, one at a time; "
                        "0: none",
                        kLeastLongPrompt));
    app_->add_flag("--check-equal", checks_,
                   "compare every text with plain decoding in this process; exit code 1 if one of "
                   "Talon's differs");
    app_->add_option("--output", output_, "also add the lines to this file")
        ->type_name("FILE")
        ->check(no_empty_text);
    app_->add_option("--report", report_, "write load.html, load.md and load.jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    add_sampler_flags(*app_, settings_.sampler, prompts_.seed);
    for (const char* name : {"--repeat-window", "--ban"})  // servers have no field for them
      app_->remove_option(app_->get_option(name));
    add_backend_flags(*app_, model_);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
    app_->footer(
        "The table goes to standard error. Servers take turns, and only one is asked at a "
        "time.");
  }

  int run() override {
    settings_.seed = prompts_.seed;
    if (settings_.long_tokens > 0 && settings_.long_tokens < kLeastLongPrompt) {
      throw UsageError(fmt::format("--long-prompt: expected 0 or at least {}, got {}",
                                   kLeastLongPrompt, settings_.long_tokens));
    }
    const InterruptGuard interrupt;
    const std::vector<LoadServerChoice> choices = server_choices();
    make_report_folder(report_);
    open_output();
    Checkpoint checkpoint = open_checkpoint(resolve_model(source_of(model_)));
    const Tokenizer tokenizer = Tokenizer::for_checkpoint(checkpoint);
    std::optional<ChatTemplate> chat;
    if (tokenizer.chat_template()) chat = chat_template_of(tokenizer);
    const LoadPrompts prompts(tokenizer, chat ? &*chat : nullptr, questions(), prompts_);
    const CountTokens count = [&](const std::string& text) {
      return static_cast<int>(tokenizer.encode(text).size());
    };
    std::vector<std::string> names;
    std::vector<LoadSlice> slices;
    const std::unique_ptr<bool[]> claims = std::make_unique<bool[]>(choices.size());
    {
      const auto servers = start(choices, checkpoint, tokenizer);
      for (std::size_t i = 0; i < servers.size(); ++i) {
        names.push_back(servers[i]->name());
        claims[i] = servers[i]->claims_same_texts();
      }
      slices = measure(servers, prompts, count, interrupt.stop());
    }
    std::vector<LoadResult> results = summarize(slices, names, count);
    bool all_equal = true;
    if (checks_ && !interrupt.stop().requested()) {
      all_equal = check(slices, std::span(claims.get(), choices.size()), prompts, results,
                        interrupt.stop());
    }
    close(results, interrupt.stop().requested());
    if (interrupt.stop().requested()) return kExitInterrupted;
    const bool no_errors = std::all_of(results.begin(), results.end(),
                                       [](const LoadResult& result) { return result.errors == 0; });
    return all_equal && no_errors ? kExitDone : kExitFailed;
  }

 private:
  void add_level_flags() {
    const auto list = [&](const char* name, const char* help, const char* type, auto parse) {
      return app_->add_option_function<std::string>(name, parse, help)->type_name(type);
    };
    list("--concurrency", "closed loop: so many clients, each with one question after the other",
         "N,N,...",
         [this](const std::string& text) {
           closed_ = parse_int_list("--concurrency", text, 1, 4096);
         })
        ->default_str("1,4,8,16");
    list("--rate", "open loop: so many requests a second, at random times of the seed", "R,R,...",
         [this](const std::string& text) {
           for (const auto& word : split_list("--rate", text)) {
             open_.push_back(parse_real("--rate", word, 0.001, 100'000));
           }
         });
  }

  std::vector<LoadLevel> levels() const {
    std::vector<LoadLevel> levels;
    const std::vector<int> usual = {1, 4, 8, 16};
    const bool is_usual = closed_.empty() && open_.empty();
    for (const int clients : is_usual ? usual : closed_) {
      levels.push_back({false, static_cast<double>(clients)});
    }
    for (const double rate : open_) levels.push_back({true, rate});
    return levels;
  }

  std::vector<LoadServerChoice> server_choices() const {
    std::vector<LoadServerChoice> choices;
    for (const std::string& method : split_methods(methods_)) {
      choices.push_back(parse_load_method(method));
    }
    for (const std::string& url : urls_) choices.push_back(parse_load_url(url));
    if (choices.empty()) throw UsageError("--methods, --url: expected at least one, found none");
    for (std::size_t i = 0; i < choices.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (choices[i].name != choices[j].name) continue;
        throw UsageError(fmt::format("--methods, --url: \"{}\" is there twice", choices[i].name));
      }
    }
    return choices;
  }

  std::vector<Question> questions() const {
    std::vector<Question> all;
    for (const std::string& source : sources_) {
      for (Question& question : read_questions(source)) all.push_back(std::move(question));
    }
    return select_questions(std::move(all), choice_);
  }

  /// Started by this thread, with which they end.
  std::vector<std::unique_ptr<LoadServer>> start(const std::vector<LoadServerChoice>& choices,
                                                 const Checkpoint& checkpoint,
                                                 const Tokenizer& tokenizer) const {
    int slots = 1;
    for (const LoadLevel& level : levels()) {
      slots = std::max(slots, level.is_open ? 16 : static_cast<int>(level.value));
    }
    if (settings_.long_tokens > 0) ++slots;
    const int asked = prompts_.max_new + std::max(prompts_.max_prompt, settings_.long_tokens);
    const int context = slot_positions(asked, read_model_config(checkpoint).context);
    const LoadSetting setting{
        serve_command(), {checkpoint.path, tokenizer, thread_count(model_), context}, slots};
    std::vector<std::unique_ptr<LoadServer>> servers;
    for (const LoadServerChoice& choice : choices) {
      servers.push_back(std::make_unique<LoadServer>(choice, setting));
      note("{}: ready", choice.name);
    }
    return servers;
  }

  std::vector<std::string> serve_command() const {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> command = {program,   "serve", "-m", "model=" + model_.model,
                                        "--queue", "4096"};
    // What is said of the model here holds there.
    for (const CLI::Option* option : app_->get_options()) {
      const bool is_given = option->get_group() == kModelGroup && option->count() > 0;
      if (!is_given || option->check_name("--model")) continue;
      command.push_back(option->get_name());
      if (option->get_items_expected_max() == 0) continue;  // a flag
      command.insert(command.end(), option->results().begin(), option->results().end());
    }
    return command;
  }

  std::vector<LoadSlice> measure(const std::vector<std::unique_ptr<LoadServer>>& servers,
                                 const LoadPrompts& prompts, const CountTokens& count,
                                 const StopFlag& stop) {
    warm_up(servers, prompts, stop);
    const std::vector<LoadLevel> all = levels();
    const std::size_t total = all.size() * servers.size() * static_cast<std::size_t>(rounds_);
    ProgressMeter meter("bench load, slices");
    std::vector<LoadSlice> slices;
    int next = 0;  // prompt
    for (int round = 0; round < rounds_; ++round) {
      for (const LoadLevel& level : all) {
        std::vector<LoadSlice> turn;
        for (std::size_t i = 0; i < servers.size() && !stop.requested(); ++i) {
          const std::size_t server = (i + static_cast<std::size_t>(round)) % servers.size();
          turn.push_back(take_slice(*servers[server], static_cast<int>(server), prompts, next,
                                    level, round, stop));
          meter.update(slices.size() + turn.size(), total);
        }
        if (stop.requested()) return slices;  // half a turn compares nothing
        for (LoadSlice& slice : turn) {
          for (const LoadAnswer& answer : slice.answers) {
            if (!answer.is_long) next = std::max(next, answer.prompt + 1);
          }
          print(slice_json(slice, servers[static_cast<std::size_t>(slice.server)]->name(), count));
          slices.push_back(std::move(slice));
        }
      }
    }
    return slices;
  }

  /// What is made ready with the first requests is no part of the measurement.
  void warm_up(const std::vector<std::unique_ptr<LoadServer>>& servers, const LoadPrompts& prompts,
               const StopFlag& stop) const {
    constexpr int kFar = 1 << 20;  // prompts that no slice comes to
    LoadSettings settings = settings_;
    settings.seconds = std::min(1.0, settings_.seconds);
    settings.long_tokens = 0;
    for (const auto& server : servers) {
      run_slice(*server, prompts, kFar, {false, 2}, settings, stop);
    }
  }

  LoadSlice take_slice(LoadServer& server, int number, const LoadPrompts& prompts, int first,
                       const LoadLevel& level, int round, const StopFlag& stop) const {
    std::this_thread::sleep_for(kBetween);
    if (const auto problem = server.problem()) throw Error(*problem);
    LoadSlice slice{.server = number, .level = level, .round = round};
    const Stopwatch watch;
    slice.answers = run_slice(server, prompts, first, level, settings_, stop);
    slice.seconds = std::min(watch.ms() / 1000, settings_.seconds);
    return slice;
  }

  bool check(const std::vector<LoadSlice>& slices, std::span<const bool> claims,
             const LoadPrompts& prompts, std::vector<LoadResult>& results, const StopFlag& stop) {
    const OpenedModel opened = open_model_with_cache(model_);
    Answerer answerer(opened.model, *opened.cache, opened.tokenizer_or_null(),
                      DecodeSettings{.drafter = "none"});
    const PlainText plain = [&](const LoadPrompt& prompt) {
      Request request;
      request.prompt = prompt.tokens;
      request.max_new = prompt.max_new;
      request.sampler = settings_.sampler;
      request.seed = prompt.seed;
      request.end_tokens = opened.end_tokens;
      const Answer answer = answerer.decode(request, {}, &stop);
      return stop.requested() ? std::nullopt : std::optional(answer.text);
    };
    ProgressMeter meter("bench load, texts compared");
    const auto differences =
        check_texts(slices, claims, prompts, plain, results,
                    [&](std::size_t done, std::size_t all) { meter.update(done, all); });
    for (const std::string& difference : differences)
      note("talon: {}, which must never happen", difference);
    return differences.empty();
  }

  void open_output() {
    if (output_.empty()) return;
    errno = 0;
    output_file_.open(output_, std::ios::app);
    if (!output_file_) fail("--output {}: {}", output_, std::strerror(errno));
  }

  void print(const Json& line) {
    write_json(line);
    lines_.push_back(line);
    if (output_.empty()) return;
    output_file_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    if (!output_file_.flush()) fail("--output {}: cannot be written", output_);
  }

  void close(const std::vector<LoadResult>& results, bool is_partial) {
    Json closing = provenance(settings_json());
    closing["model"] = model_.model;
    closing["partial"] = is_partial;
    closing["summary"] = Json::array();
    for (const LoadResult& result : results) closing["summary"].push_back(to_json(result));
    print(closing);
    const Table table = load_table(results);
    note("{}", markdown_of(table));
    if (report_.empty()) return;
    write_report(report_, "load", load_report(lines_, table), markdown_of(table), lines_);
  }

  Json settings_json() const {
    Json settings = {{"methods", methods_},
                     {"urls", urls_},
                     {"questions", sources_},
                     {"category", choice_.category},
                     {"seconds", settings_.seconds},
                     {"rounds", rounds_},
                     {"max_new", prompts_.max_new},
                     {"max_prompt", prompts_.max_prompt},
                     {"long_prompt", settings_.long_tokens},
                     {"temperature", settings_.sampler.temperature},
                     {"seed", prompts_.seed},
                     {"check_equal", checks_},
                     {"threads", thread_count(model_)}};
    settings.update(json_of(settings_.sampler));
    return settings;
  }

  ModelOptions model_;
  std::string methods_ = "none,auto";
  std::vector<std::string> urls_;
  std::vector<std::string> sources_;
  QuestionChoice choice_;
  std::vector<int> closed_;
  std::vector<double> open_;
  LoadSettings settings_;
  LoadPromptSettings prompts_;
  int rounds_ = 2;
  bool checks_ = false;
  std::string output_;
  std::ofstream output_file_;
  std::string report_;
  std::vector<Json> lines_;
};

}  // namespace

std::unique_ptr<Command> make_bench_load(CLI::App& parent) {
  return std::make_unique<BenchLoad>(parent);
}

}  // namespace talon
