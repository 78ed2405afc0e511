#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "bench/contention/contention.h"
#include "bench/contention/neighbour.h"
#include "bench/peer/peer.h"
#include "bench/provenance.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/machine/processors.h"
#include "core/stopwatch.h"
#include "report/table.h"
#include "runtime/answerer.h"

namespace talon {
namespace {

constexpr int kPromptTokens = 16;
constexpr int kAnswerTokens = 128;
constexpr int kPeerTokens = 32;  // beside a neighbour some take seconds for a token
constexpr int kContext = 512;    // or all that the model allows
constexpr int kNiceness = 15;
constexpr int kCompileJobs = 2;
constexpr double kForeverSeconds = 1e9;

/// A prompt of arbitrary tokens.
Request request_for(int vocabulary, int tokens) {
  Request request;
  for (int i = 0; i < kPromptTokens; ++i) request.prompt.push_back((i * 7919 + 13) % vocabulary);
  request.max_new = tokens;
  return request;
}

/// Talon with a number of threads, and what it decodes.
class OwnDecoding {
 public:
  explicit OwnDecoding(const ModelOptions& options)
      : opened_(open_model_with_cache(options)),
        answerer_(opened_.model, *opened_.cache, nullptr, DecodeSettings{.drafter = "none"}) {}

  /// Answers of equal length, one after the other. Steps are those after the first token.
  DecodedSlice decode(double seconds, const StopFlag& stop) {
    DecodedSlice slice;
    const Stopwatch all;
    StopFlag over;
    while (all.ms() < 1000 * seconds && !stop.requested()) {
      Stopwatch watch;
      bool has_begun = false;
      const auto see = [&](const Progress& progress) {
        const double ms = watch.ms();
        watch = Stopwatch();
        if (all.ms() >= 1000 * seconds || stop.requested()) over.request();
        if (std::exchange(has_begun, true) && !progress.tokens.empty()) {
          slice.step_ms.push_back(ms);
          slice.ms += ms;
          slice.tokens += static_cast<int>(progress.tokens.size());
        }
      };
      answerer_.decode(request_for(opened_.model.config.vocabulary, kAnswerTokens), see, &over);
    }
    return slice;
  }

 private:
  OpenedModel opened_;
  Answerer answerer_;
};

struct Situation {
  std::string name;
  std::string help;
  std::function<std::unique_ptr<Neighbour>()> make;  // empty: nobody else
};

class BenchContention : public Command {
 public:
  explicit BenchContention(CLI::App& parent)
      : Command(parent.add_subcommand(
            "contention",
            "plain decoding on a busy machine: fixed numbers of threads, and Talon's "
            "own choice, in turns")) {
    add_model_flag(*app_, model_);
    std::string names;
    for (const Situation& situation : situations()) {
      names += fmt::format("{}{}: {}", names.empty() ? "" : "; ", situation.name, situation.help);
    }
    app_->add_option_function<std::string>(
            "--situations",
            [this](const std::string& text) {
              wanted_ = split_list("--situations", text);
              require_each_once("--situations", wanted_);
            },
            names)
        ->type_name("S1,S2,...");
    add_int(*app_, "--rounds", settings_.rounds, 1, 1000, "turns of each");
    add_real(*app_, "--seconds", settings_.seconds, 0.1, 600, "of a turn");
    app_->add_option("--peer", peer_,
                     "another engine, with one thread and with all: peer:llama.cpp=PATH")
        ->type_name("PEER");
    add_forward_flags(*app_, model_);
    for (const char* chosen_here : {"--threads", "--fixed-threads"}) {
      app_->remove_option(app_->get_option(chosen_here));
    }
    add_cache_flag(*app_, model_);
    app_->add_flag("--be-neighbour", is_neighbour_, "decode until killed")->group("");
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
    app_->footer(
        "The table goes to standard error. Ratios are over the best fixed number of "
        "threads in the same situation, round by round.");
  }

  int run() override {
    if (!peer_.empty()) parse_peer(peer_);
    const Checkpoint checkpoint = open_checkpoint(resolve_model(source_of(model_)));
    model_.context = std::min(kContext, read_model_config(checkpoint).context);
    if (is_neighbour_) return be_neighbour();
    InterruptGuard interrupt;
    Table table;
    table.columns = {"situation",         "threads",    "tok/s",   "least-most",
                     "of the best fixed", "least-most", "step ms", "99 %"};
    Json summary = Json::object();
    for (const Situation& situation : chosen_situations()) {
      if (interrupt.stop().requested()) break;
      std::unique_ptr<Neighbour> neighbour;
      try {
        if (situation.make) neighbour = situation.make();
      } catch (const Error& error) {
        if (interrupt.stop().requested()) break;
        note("bench contention: leaving out {}: {}", situation.name, error.what());
        write_json({{"situation", situation.name}, {"left_out", error.what()}});
        continue;
      }
      measure(situation, neighbour.get(), interrupt.stop(), table, summary);
    }
    Json closing = provenance({{"rounds", settings_.rounds},
                               {"seconds", settings_.seconds},
                               {"model", model_.model},
                               {"answer_tokens", kAnswerTokens},
                               {"answer_tokens_of_peers", kPeerTokens}});
    const bool is_partial = interrupt.stop().requested();
    closing["summary"] = summary;
    closing["partial"] = is_partial;
    write_json(closing);
    write_note(markdown_of(table));
    if (is_partial) return kExitInterrupted;
    return summary.empty() ? kExitFailed : kExitDone;
  }

 private:
  std::vector<Situation> situations() const {
    const auto processors = static_cast<int>(allowed_processors().size());
    return {
        {"quiet", "nobody else, and also more threads asked for than there are processors", {}},
        {"loop", "one busy loop", [] { return make_busy_loops(1); }},
        {"loops", "a busy loop for each processor", [=] { return make_busy_loops(processors); }},
        {"compile", "a compile of two jobs at nice 15",
         [] { return make_compile_jobs(kCompileJobs, kNiceness); }},
        {"talon", "a second Talon", [this] { return make_program(neighbour_command()); }},
        {"quota-1", "a cgroup's quota of one processor", [] { return make_cpu_quota(1); }},
        {"quota-1.5", "a quota of one and a half", [] { return make_cpu_quota(1.5); }}};
  }

  std::vector<Situation> chosen_situations() const {
    const std::vector<Situation> all = situations();
    if (wanted_.empty()) return all;
    std::vector<Situation> chosen;
    for (const std::string& name : wanted_) {
      const auto found = std::find_if(all.begin(), all.end(),
                                      [&](const Situation& other) { return other.name == name; });
      if (found == all.end()) {
        std::vector<std::string> words;
        for (const Situation& situation : all) words.push_back(situation.name);
        fail_choice("--situations", words, name);
      }
      chosen.push_back(*found);
    }
    return chosen;
  }

  std::vector<std::string> neighbour_command() const {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> command = {program,          "bench", "contention",
                                        "--be-neighbour", "-m",    model_.model};
    if (!model_.models_folder.empty()) {
      command.insert(command.end(), {"--models", model_.models_folder});
    }
    return command;
  }

  int be_neighbour() const {
    OwnDecoding decoding(model_);
    write_output("ready\n");
    decoding.decode(kForeverSeconds, StopFlag());
    return kExitDone;
  }

  /// One thread, all, and some between.
  static std::set<int> fixed_counts(int processors) {
    return {1, std::max(1, processors / 2), std::max(1, processors - 1), processors};
  }

  void add_own(const std::string& name, int threads, bool fixed, const StopFlag& stop,
               std::vector<Rival>& rivals) const {
    ModelOptions options = model_;
    options.threads = threads;
    options.fixed_threads = fixed;
    const auto decoding = std::make_shared<OwnDecoding>(options);  // std::function copies
    const bool is_measure = fixed && threads <= static_cast<int>(allowed_processors().size());
    rivals.push_back({name, is_measure, [decoding, &stop](double seconds) {
                        return decoding->decode(seconds, stop);
                      }});
  }

  void add_peer(int threads, const StopFlag& stop, std::vector<Rival>& rivals) const {
    const Checkpoint checkpoint = open_checkpoint(resolve_model(source_of(model_)));
    const auto tokenizer = std::make_shared<Tokenizer>(Tokenizer::for_checkpoint(checkpoint));
    const std::shared_ptr<Contestant> peer =
        make_peer(parse_peer(peer_), {checkpoint.path, *tokenizer, threads, model_.context});
    const int vocabulary = read_model_config(checkpoint).vocabulary;
    rivals.push_back({fmt::format("{}, {}", peer->name(), threads), false,
                      [tokenizer, peer, vocabulary, &stop](double seconds) {
                        DecodedSlice slice;
                        const Stopwatch all;
                        while (all.ms() < 1000 * seconds && !stop.requested()) {
                          const TurnAnswer answer =
                              peer->answer(request_for(vocabulary, kPeerTokens), &stop);
                          slice.tokens += static_cast<int>(answer.tokens.size()) - 1;
                          slice.ms += answer.decode_ms;
                        }
                        return slice;
                      }});
  }

  std::vector<Rival> rivals_in(const Situation& situation, const StopFlag& stop) const {
    std::vector<Rival> rivals;
    const auto processors = static_cast<int>(allowed_processors().size());
    for (const int threads : fixed_counts(processors)) {
      add_own(fmt::format("{}", threads), threads, true, stop, rivals);
    }
    add_own("adaptive", 0, false, stop, rivals);
    if (!situation.make) {
      for (const int threads : {processors + 1, 2 * processors, 4 * processors}) {
        add_own(fmt::format("{} asked for", threads), threads, true, stop, rivals);
      }
    }
    if (!peer_.empty()) {
      for (const int threads : std::set{1, processors}) add_peer(threads, stop, rivals);
    }
    return rivals;
  }

  /// `neighbour` is null where nobody else is there.
  void measure(const Situation& situation, const Neighbour* neighbour, const StopFlag& stop,
               Table& table, Json& summary) const {
    std::vector<Rival> rivals = rivals_in(situation, stop);
    ProgressMeter meter("bench contention, turns of " + situation.name);
    const std::size_t turns =  // with the one that warms each up
        rivals.size() * (static_cast<std::size_t>(settings_.rounds) + 1);
    std::size_t done = 0;
    for (Rival& rival : rivals) {
      rival.decode = [&, decode = std::move(rival.decode)](double seconds) {
        DecodedSlice slice = decode(seconds);
        meter.update(++done, turns);
        return slice;
      };
    }
    const auto slices = race(rivals, settings_, stop);
    if (slices.front().empty()) return;
    for (const RivalResult& result : compare_rivals(rivals, slices)) {
      Json line = to_json(result);
      line["situation"] = situation.name;
      line["neighbour"] = neighbour ? neighbour->description() : "none";
      write_json(line);
      summary[situation.name][result.name] = {{"tok_s", line["tok_s"]}, {"ratio", line["ratio"]}};
      table.rows.push_back({situation.name, result.name, fmt::format("{:.1f}", result.tok_s.median),
                            fmt::format("{:.1f}-{:.1f}", result.tok_s.least, result.tok_s.most),
                            fmt::format("{:.3f}", result.ratio.median),
                            fmt::format("{:.3f}-{:.3f}", result.ratio.least, result.ratio.most),
                            fmt::format("{:.2f}", result.step_ms),
                            fmt::format("{:.2f}", result.step_p99_ms)});
    }
  }

  ModelOptions model_;
  std::vector<std::string> wanted_;
  ContentionSettings settings_;
  std::string peer_;
  bool is_neighbour_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_contention(CLI::App& parent) {
  return std::make_unique<BenchContention>(parent);
}

}  // namespace talon
