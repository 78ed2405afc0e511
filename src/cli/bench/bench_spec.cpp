#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "bench/machine/bandwidth.h"
#include "bench/method_name.h"
#include "bench/peer/peer.h"
#include "bench/provenance.h"
#include "bench/spec/run_files.h"
#include "bench/spec/spec.h"
#include "bench/spec/spec_log.h"
#include "bench/spec/spec_report.h"
#include "bench/spec/spec_table.h"
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
#include "core/stopwatch.h"
#include "runtime/heads/auto_drafter.h"
#include "trace/trace.h"

namespace talon {
namespace {

constexpr double kSweepEveryMs = 5000;  // a sweep of memory takes a tenth of a second

constexpr std::size_t kMostNameBytes = 200;  // of a trace; file systems take 255

/// The name of a method's trace, put among those `taken`.
std::string file_name_of(const std::string& method, std::set<std::string>& taken) {
  std::string name = method.substr(0, kMostNameBytes);
  for (char& c : name) {
    const bool is_safe = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-';
    if (!is_safe) c = '_';
  }
  std::string file = name + ".jsonl";
  for (int number = 2; !taken.insert(file).second; ++number)
    file = fmt::format("{}-{}.jsonl", name, number);
  return file;
}

class BenchSpec : public Command {
 public:
  explicit BenchSpec(CLI::App& parent)
      : Command(parent.add_subcommand(
            "spec", "drafters beside plain decoding on questions, with the same answers")) {
    add_model_flag(*app_, model_);
    app_->add_option("--methods", list_,
                     "DRAFTER[@policy=POLICY][@verify=RULE]; none is added where it is missing. "
                     "Other engines: peer:llama.cpp[@BUILD][:SPECULATION]=PATH[#DRAFT.gguf] of "
                     "llama-server, peer:transformers and peer:openvino likewise of a program that "
                     "scripts/python_peer.sh makes, peer:openai=URL[#MODEL]")
        ->type_name("M1,M2,...")
        ->required();
    app_->add_option("--questions", sources_,
                     "Spec-Bench questions, JSON lines; may be repeated; NAME= sets the category")
        ->type_name("[NAME=]FILE")
        ->required()
        ->allow_extra_args(false);
    add_int(*app_, "-n,--max-new", settings_.max_new, 1, 1 << 20, "most tokens of an answer");
    add_int(*app_, "--limit", choice_.limit, 0, 1 << 30, "first questions only, 0 for all");
    add_int(*app_, "--per-category", choice_.per_category, 0, 1 << 30,
            "first questions of each subtask only, 0 for all");
    app_->add_option("--category", choice_.category, "questions of this category or subtask only")
        ->type_name("NAME");
    add_int(*app_, "--repeats", settings_.repeats, 1, 1000, "of every answer; medians count");
    add_int(*app_, "--warm-up", settings_.warm_up, 0, 1000,
            "answers of each method to the first question that do not count");
    app_->add_option("--output", output_,
                     "also write the lines there; what a file already holds is not done again")
        ->type_name("FILE")
        ->check(no_empty_text);
    app_->add_option("--report", report_, "write spec.html, spec.md and spec.jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    app_->add_option("--trace", trace_,
                     "write every round of each drafting method there, of one temperature")
        ->type_name("DIR")
        ->check(no_empty_text);
    app_->add_flag("--every-position", decode_.every_position,
                   "take one token a round: slow, for traces with a tree at every position");
    add_sampling_flags();
    add_decode_flags(*app_, decode_);
    add_backend_flags(*app_, model_);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    set_methods();
    make_report_folder(report_);
    std::vector<Question> questions;
    for (const std::string& source : sources_) {
      for (Question& question : read_questions(source)) questions.push_back(std::move(question));
    }
    const std::string asked = fingerprint_of(questions);
    questions = select_questions(std::move(questions), choice_);
    require_different(questions);
    OpenedModel opened = open_model_with_cache(model_);
    use_places(decode_, opened, opened.cache->store().shape.type);
    name_what_is_chosen(opened);
    std::optional<ChatTemplate> chat;
    if (opened.require_tokenizer().chat_template()) chat = chat_template_of(*opened.tokenizer);
    const SpecPrompts prompts{*opened.tokenizer, chat ? &*chat : nullptr, opened.end_tokens,
                              opened.model.config.context};
    Json about = provenance(settings_json(opened));
    const Json& settings = about["settings"];
    const std::string run = run_fingerprint(
        {model_.model, settings, asked, files_of(opened), about["machine"]["processor"]});
    SpecLog log(output_, run, methods_);
    if (!trace_.empty() && !log.known().empty())
      throw UsageError(
          fmt::format("--trace: expected an --output without answers, found {} in {}, whose rounds "
                      "cannot be recorded any more",
                      log.known().size(), output_));
    const Contestants contestants = make_contestants(opened);
    about["settings"]["category"] = choice_.category;
    about["settings"]["per_category"] = choice_.per_category;
    about["settings"]["limit"] = choice_.limit;
    return measure(opened, prompts, contestants, questions, log, about);
  }

 private:
  /// Temperatures and seeds are lists here.
  void add_sampling_flags() {
    add_sampler_flags(*app_, settings_.sampler, unused_seed_);
    make_temperature_list(*app_, settings_.temperatures);
    make_list_flag(*app_, "--seed", settings_.seeds, "one or more, of the random numbers",
                   "N,N,...", "1", [](const std::string& word) {
                     constexpr long long kMost = std::numeric_limits<long long>::max();
                     return static_cast<std::uint64_t>(parse_int("--seed", word, 0, kMost));
                   });
  }

  void set_methods() {
    std::vector<std::string> texts = split_methods(list_);
    if (texts.empty()) throw UsageError("--methods: expected at least one method, found none");
    if (std::erase(texts, kPlain) == 0)
      note("note: adding the method none, which the others are compared with");
    texts.insert(texts.begin(), kPlain);
    for (const std::string& text : texts) {
      const bool peer = is_peer(text);
      const std::string name = peer ? parse_peer(text).name : parse_method(text).text;
      if (peer) peers_[name] = parse_peer(text);
      methods_.push_back(name);
    }
    require_each_once("--methods", methods_);
    if (decode_.every_position && trace_.empty())
      throw UsageError("--every-position: only makes sense with --trace");
    if (!trace_.empty() && settings_.temperatures.size() > 1) {
      throw UsageError(
          fmt::format("--trace: expected one --temperature, since a replay would learn of greedy "
                      "and drawn answers alike, found {}",
                      settings_.temperatures.size()));
    }
  }

  /// Lines and traces name the drafter that auto stands for.
  void name_what_is_chosen(const OpenedModel& opened) {
    for (std::string& name : methods_) {
      if (peers_.contains(name)) continue;
      const MethodText method = parse_method(name);
      note_heads_of_others(method.drafter, opened);
      const std::string chosen = resolve_drafter(method.drafter, decode_.heads);
      if (chosen == method.drafter) continue;
      note("{}: {}", method.drafter, chosen);
      name = with_drafter(method, chosen).text;
    }
    require_each_once("--methods", methods_);
  }

  /// Whatever the choice among them.
  static std::string fingerprint_of(const std::vector<Question>& questions) {
    Json all = Json::array();
    for (const Question& question : questions)
      all.push_back({question.id, question.category, question.turns});
    return run_fingerprint(all);
  }

  /// The program, the model and what methods name, with what tells other contents apart.
  Json files_of(const OpenedModel& opened) const {
    std::set<std::string> files = {"/proc/self/exe", opened.path.string()};
    files.merge(files_named(fmt::format("policy={},verify={}", decode_.policy, decode_.verify)));
    for (const std::string& name : methods_) {
      if (const auto peer = peers_.find(name); peer != peers_.end()) {
        files.insert({peer->second.place, peer->second.draft});
        continue;
      }
      files.merge(files_named(name));
      files.merge(heads_found(parse_method(name).drafter, decode_.heads));
    }
    Json contents = Json::object();
    for (const std::string& file : files) contents[file] = contents_of(file);
    return contents;
  }

  Contestants make_contestants(const OpenedModel& opened) {
    const ContestantModel model{opened.model, *opened.cache, *opened.tokenizer};
    const PeerSetting peer_setting{opened.path, *opened.tokenizer, thread_count(model_),
                                   opened.model.config.context};
    Contestants contestants;
    for (const std::string& name : methods_) {
      if (const auto peer = peers_.find(name); peer != peers_.end()) {
        contestants.push_back(make_peer(peer->second, peer_setting));
        continue;
      }
      DecodeSettings settings = decode_;
      if (!trace_.empty() && name != kPlain) settings.observer = tracer_of(opened, name);
      if (name == kPlain) settings.every_position = false;
      contestants.push_back(make_contestant(model, parse_method(name), settings));
    }
    return contestants;
  }

  RoundObserver tracer_of(const OpenedModel& opened, const std::string& text) {
    std::error_code ignored;  // opening the file says what is wrong
    std::filesystem::create_directories(trace_, ignored);
    Json about = provenance(settings_json(opened));
    about["model"] = model_.model;
    about["method"] = text;
    about["every_position"] = decode_.every_position;
    traces_.push_back(std::make_unique<TraceWriter>(
        std::filesystem::path(trace_) / file_name_of(text, trace_names_), std::move(about)));
    return [this, writer = traces_.back().get()](const RoundReport& round) {
      if (tracing_) writer->write(round);
    };
  }

  int measure(const OpenedModel& opened, const SpecPrompts& prompts, const Contestants& contestants,
              const std::vector<Question>& questions, SpecLog& log, const Json& about) {
    std::vector<SpecCell> cells;
    std::vector<Json> lines;
    const auto add = [&](const SpecCell& cell, bool is_new) {
      cells.push_back(cell);
      lines.push_back(log.line_of(cell));
      write_json(lines.back());
      if (is_new) log.write(lines.back());
    };
    for (const SpecCell& cell : log.known()) add(cell, false);
    if (!log.known().empty())
      note("going on: {} answers are in {} already", log.known().size(), output_);
    int skipped = 0;
    BandwidthProbe probe(thread_count(model_), kProbeBytes);
    std::optional<Stopwatch> since_sweep;
    SpecBench::Events events;
    events.answered = [&](std::vector<SpecCell> group) {
      if (!since_sweep || since_sweep->ms() >= kSweepEveryMs) {
        probe.sweep();  // memory that was idle is slow the first time
        group.front().bandwidth_gb_s = probe.sweep();
        since_sweep.emplace();
      }
      for (SpecCell& cell : group) {
        cell.date = date_text();
        if (!cell.error.empty())
          note("{}, question {}: {}", cell.method, cell.question_id.dump(), cell.error);
        add(cell, true);
      }
    };
    events.skipped = [&](const Question& question, const std::string& reason) {
      ++skipped;
      note("skipped question {}: {}", question.id.dump(), reason);
    };
    events.is_done = [&](const std::string& condition) { return log.is_known(condition); };
    const InterruptGuard interrupt;
    SpecBench bench(prompts, contestants, settings_, &interrupt.stop());
    bench.warm_up(questions.front());
    ProgressMeter meter("bench spec, answers");
    events.progress = [&](std::size_t done, std::size_t total) { meter.update(done, total); };
    tracing_ = true;
    const bool finished = bench.run(questions, events);
    for (const auto& trace : traces_) trace->finish();

    Json closing = about;
    // A run that goes on, or only tells again, is as old as its first answer.
    if (!cells.empty() && !cells.front().date.empty()) closing["date"] = cells.front().date;
    closing["model"] = model_.model;
    closing["backend"] = opened.backend->description();
    closing["questions"] = count_questions(questions, cells);
    closing["skipped"] = skipped;
    closing["partial"] = !finished;
    closing["weights_bytes"] = opened.model.weight_bytes;
    add_engines(closing, contestants);
    add_bandwidth(closing, cells);
    add_summaries(closing, cells);
    lines.push_back(closing);
    write_json(closing);
    log.write(closing);
    report(cells, lines);
    if (!finished) return kExitInterrupted;
    return all_as_claimed(cells) ? kExitDone : kExitFailed;
  }

  /// Those asked for, and those whose answers were there.
  static std::size_t count_questions(const std::vector<Question>& questions,
                                     const std::vector<SpecCell>& cells) {
    std::set<std::pair<std::string, std::string>> all;
    for (const Question& question : questions) all.emplace(question.id.dump(), question.category);
    for (const SpecCell& cell : cells) all.emplace(cell.question_id.dump(), cell.category);
    return all.size();
  }

  /// What other engines say that they are, by the names of results without "peer:".
  void add_engines(Json& closing, const Contestants& contestants) const {
    for (const auto& contestant : contestants) {
      const auto peer = peers_.find(contestant->name());
      if (peer == peers_.end()) continue;
      const std::string version = contestant->version();
      if (!version.empty()) closing["engines"][peer->second.engine] = version;
    }
  }

  static void add_bandwidth(Json& closing, const std::vector<SpecCell>& cells) {
    std::vector<double> bandwidths;
    for (const SpecCell& cell : cells) {
      if (cell.bandwidth_gb_s > 0) bandwidths.push_back(cell.bandwidth_gb_s);
    }
    if (bandwidths.empty()) return;
    const Spread bandwidth = spread_of(bandwidths);
    closing["bandwidth_gb_s"] = bandwidth.median;
    closing["bandwidth_gb_s_least"] = bandwidth.least;
    closing["bandwidth_gb_s_most"] = bandwidth.most;
  }

  void add_summaries(Json& closing, const std::vector<SpecCell>& cells) const {
    closing["summary"] = json_of(summarize(cells, methods_));
    const auto split = [&](const char* key, const auto& name_of) {
      closing[key] = Json::object();
      for (const auto& [name, group] : group_cells(cells, name_of))
        closing[key][name] = json_of(summarize(group, methods_));
    };
    split("subtasks", [](const SpecCell& cell) { return subtask_of(cell.category); });
    split("temperatures", [](const SpecCell& cell) { return fmt::format("{}", cell.temperature); });
  }

  void report(const std::vector<SpecCell>& cells, const std::vector<Json>& lines) const {
    std::string markdown = spec_markdown(summarize(cells, methods_), lines.back());
    const Table temperatures = temperature_table(cells, methods_);
    if (!temperatures.rows.empty()) markdown += "\n" + markdown_of(temperatures);
    note("{}", markdown);
    if (report_.empty()) return;
    write_report(report_, "spec", spec_report(cells, methods_, lines), markdown, lines);
  }

  static bool all_as_claimed(const std::vector<SpecCell>& cells) {
    bool all = true;
    for (const SpecCell& cell : cells) {
      const bool broke = cell.error.empty() && !cell.equal && cell.claims_equal;
      if (broke)
        note("talon: {} changed the tokens of question {}, which must never happen", cell.method,
             cell.question_id.dump());
      all = all && cell.error.empty() && !broke;
    }
    return all;
  }

  Json settings_json(const OpenedModel& opened) const {
    Json settings = {{"methods", methods_},
                     {"questions", sources_},
                     {"max_new", settings_.max_new},
                     {"temperatures", settings_.temperatures},
                     {"seeds", settings_.seeds},
                     {"repeats", settings_.repeats},
                     {"warm_up", settings_.warm_up},
                     {"policy", decode_.policy},
                     {"verify", decode_.verify},
                     {"chunk", decode_.chunk},
                     {"max_nodes", decode_.max_nodes},
                     {"every_position", decode_.every_position},
                     {"threads", thread_count(model_)},
                     {"fixed_threads", model_.fixed_threads},
                     {"context", opened.model.config.context},
                     {"cache_mb", model_.cache_mb},
                     {"backend", opened.backend->name()},
                     {"kernels", word_of(kernel_choices(), model_.kernels)},
                     {"weights", name_of(model_.weights)},
                     {"activations", name_of(opened.activations)},
                     {"kv", name_of(opened.cache->store().shape.type)}};
    settings.update(json_of(settings_.sampler));
    return settings;
  }

  ModelOptions model_;
  DecodeSettings decode_;
  SpecSettings settings_;
  std::string list_;
  std::vector<std::string> methods_;         // names, plain decoding first
  std::map<std::string, PeerChoice> peers_;  // by name
  std::vector<std::string> sources_;
  QuestionChoice choice_;
  std::string output_;
  std::string report_;
  std::string trace_;
  std::set<std::string> trace_names_;
  std::vector<std::unique_ptr<TraceWriter>> traces_;
  bool tracing_ = false;
  std::uint64_t unused_seed_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_bench_spec(CLI::App& parent) {
  return std::make_unique<BenchSpec>(parent);
}

}  // namespace talon
