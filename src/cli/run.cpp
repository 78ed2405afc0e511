#include <algorithm>
#include <memory>
#include <optional>

#include "bench/machine/bandwidth.h"
#include "cli/command.h"
#include "cli/options/draft_options.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/options/prompt_options.h"
#include "cli/options/sampler_options.h"
#include "cli/round_watch.h"
#include "cli/run_report.h"
#include "cli/terminal/answer_stream.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "core/error.h"

namespace talon {
namespace {

constexpr std::size_t kLeastProbeBytes = std::size_t{64} << 20;
constexpr std::size_t kMostProbeBytes = std::size_t{1024} << 20;

struct RunOptions {
  ModelOptions model;
  PromptOptions prompt;
  AnswerOptions answer;
  GrammarOptions grammar;
  std::string expected_file;
  DecodeSettings decode;
  WatchOptions watch;
  bool compare = false;
  bool plain_text = false;
  bool statistics = false;
  bool json = false;
};

/// What the command line says or names, read before a model is loaded.
struct Asked {
  std::string prompt;  // empty with --prompt-ids
  std::string expected;
  std::optional<GrammarText> grammar;
};

/// Standard input can be read once.
void check_standard_input(const RunOptions& options) {
  std::string reader;
  for (const auto& [option, file] : {std::pair<const char*, std::string>("-f", options.prompt.file),
                                     {"--expected", options.expected_file},
                                     {"--json-schema", options.grammar.schema_file.value_or("")},
                                     {"--grammar", options.grammar.grammar_file.value_or("")}}) {
    if (file != "-") continue;
    if (!reader.empty()) {
      throw UsageError(fmt::format("{}: expected a file where {} reads standard input, found -",
                                   option, reader));
    }
    reader = option;
  }
}

Asked read_asked(const RunOptions& options) {
  if (has_ids(options.prompt) && options.prompt.chat)
    throw UsageError("--chat: needs a text, not --prompt-ids");
  check_standard_input(options);
  Asked asked{prompt_text(options.prompt), {}, grammar_text(options.grammar)};
  if (!options.expected_file.empty()) asked.expected = read_text_file(options.expected_file);
  return asked;
}

std::vector<TokenId> read_prompt(const RunOptions& options, const std::string& text,
                                 const OpenedModel& opened) {
  if (has_ids(options.prompt)) {
    const std::vector<TokenId> ids = parse_ids("--prompt-ids", options.prompt.ids);
    check_ids("--prompt-ids", ids, opened.model.config.vocabulary);
    return ids;
  }
  const Tokenizer& tokenizer = opened.require_tokenizer();
  return encode_prompt(tokenizer, options.prompt, text, opened.model.config.context);
}

/// The text of --expected as tokens of the answer, no more than the context holds. Bounded as
/// prompts are: else a large file takes minutes.
std::shared_ptr<const std::vector<TokenId>> read_expected(const RunOptions& options,
                                                          const std::string& text,
                                                          const OpenedModel& opened) {
  if (options.expected_file.empty()) return nullptr;
  const Tokenizer& tokenizer = opened.require_tokenizer();
  const int context = opened.model.config.context;
  try {
    check_prompt_bytes(tokenizer, text, context);
  } catch (const PromptTooLong& error) {
    fail("--expected {}: {}", options.expected_file, error.what());
  }
  std::vector<TokenId> tokens = tokenizer.encode(text, {.parse_special = false});
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(context)));
  return std::make_shared<const std::vector<TokenId>>(std::move(tokens));
}

Request make_request(const RunOptions& options, const Asked& asked, const OpenedModel& opened) {
  Request request;
  request.prompt = read_prompt(options, asked.prompt, opened);
  const int context = opened.model.config.context;
  const int length = static_cast<int>(request.prompt.size());
  if (length == 0) throw UsageError("the prompt is empty: expected at least one token");
  if (length >= context) {
    fail("the prompt has {} tokens: expected fewer than {}, the context of {}", length, context,
         opened.path.string());
  }
  if (const int most = opened.most_positions(); length >= most) {
    fail(
        "the prompt has {} tokens: expected fewer than {}, which the cache holds: give a larger "
        "--cache-mb",
        length, most);
  }
  request.max_new = std::min(options.answer.max_new, context - length);
  if (request.max_new < options.answer.max_new) {
    note("note: the answer ends after {} tokens, where the context of {} is full", request.max_new,
         context);
  }
  request.sampler = options.answer.sampler;
  request.seed = options.answer.seed;
  request.stop_texts = options.answer.stop_texts;
  if (!request.stop_texts.empty()) opened.require_tokenizer();
  if (!options.answer.ignore_end) request.end_tokens = opened.end_tokens;
  request.expected = read_expected(options, asked.expected, opened);
  request.reuse_prefix = false;
  if (asked.grammar) {
    const GrammarCompiler compiler(opened.require_tokenizer(), opened.model.config.vocabulary);
    try {
      request.constraint = compiler.compile(*asked.grammar);
    } catch (const Error& error) {
      fail("{}: {}", grammar_source(options.grammar), error.what());
    }
  }
  return request;
}

/// Where no part of `drafter` is one that drafts from --expected.
void note_unread_expectation(const std::string& drafter) {
  const auto parts = split_drafters(drafter);
  const bool is_read = std::ranges::any_of(
      parts, [](std::string_view part) { return part.substr(0, part.find(':')) == "suffix"; });
  if (!is_read) note("note: --expected: only suffix drafts from it, not {}", drafter);
}

class Run : public Command {
 public:
  explicit Run(CLI::App& parent) : Command(parent.add_subcommand("run", "answer one prompt")) {
    add_model_flag(*app_, options_.model);
    add_prompt_flags(*app_, options_.prompt, true);
    add_system_flag(*app_, options_.prompt);
    add_answer_flags(*app_, options_.answer);
    add_grammar_flags(*app_, options_.grammar);
    app_->add_option("--expected", options_.expected_file,
                     "a file with what the answer may be like (the text before its change, say): "
                     "suffix drafts from it; tokens do not depend on it")
        ->type_name("FILE")
        ->check(no_empty_text);
    add_drafter_flag(*app_, options_.decode);
    add_decode_flags(*app_, options_.decode);
    add_backend_flags(*app_, options_.model);
    app_->add_flag("--compare", options_.compare,
                   "answer plainly first, then with drafts; with the rule follow, fail unless the "
                   "tokens are the same");
    app_->add_flag("--plain-text", options_.plain_text,
                   "do not mark accepted drafted tokens on a terminal (as with $NO_COLOR)");
    add_watch_flags(*app_, options_.watch);
    app_->add_flag("--stats", options_.statistics, "say where the time went");
    app_->add_flag("--json", options_.json, "print one JSON object");
  }

  int run() override {
    split_drafter(*app_, options_.decode);
    const Asked asked = read_asked(options_);
    Outcome outcome;
    {
      OpenedModel opened = open_model_with_cache(options_.model);
      require_text_model(opened);
      if (!opened.tokenizer) note("note: no text, only tokens: {}", opened.tokenizer_problem);
      outcome = answer(opened, asked);
      outcome.json = report(opened, outcome);
    }  // the model's memory is free again for the bandwidth probe
    if (options_.json) {
      outcome.json["bandwidth_gb_s"] = read_bandwidth_gb_s(
          options_.model.threads,
          std::clamp(outcome.working_set, kLeastProbeBytes, kMostProbeBytes), 3);
      write_json(outcome.json);
    }
    return outcome.exit_code;
  }

 private:
  struct Outcome {
    std::vector<TokenId> prompt;
    Answer answer;
    std::optional<Answer> plain;
    bool is_compared = false;  // both answers came to their end
    bool equal = true;
    bool claims_equal = true;     // a difference is a failure and not by design
    std::size_t working_set = 0;  // bytes that a token reads, about
    Json json;
    int exit_code = kExitDone;
  };

  bool marks() const { return output_shows_marks() && !options_.plain_text; }

  Outcome answer(OpenedModel& opened, const Asked& asked) {
    Outcome outcome;
    const Request request = make_request(options_, asked, opened);
    outcome.prompt = request.prompt;
    outcome.working_set = opened.model.weight_bytes;
    const InterruptGuard interrupt;
    if (options_.compare) outcome.plain = answer_plainly(opened, request, interrupt.stop());
    use_places(options_.decode, opened, opened.cache->store().shape.type);
    choose_drafter(options_.decode);
    if (request.expected) note_unread_expectation(options_.decode.drafter);
    DecodeSettings settings = options_.decode;
    RoundWatch watch(options_.watch, opened, settings.drafter, about_run(request));
    if (options_.watch.any()) settings.observer = watch.observer();
    Answerer answerer(opened.model, *opened.cache, opened.tokenizer_or_null(), settings);
    if (options_.compare && !options_.json) note("\n-- {} --", options_.decode.drafter);
    outcome.answer = stream(opened, answerer, request, interrupt.stop());
    watch.finish();
    if (const auto tree = watch.shown_tree(notes_show_marks() && !options_.plain_text)) {
      note("\n{}", *tree);
    }
    if (interrupt.stop().requested()) {
      outcome.exit_code = kExitInterrupted;
    } else if (outcome.plain) {
      compare(outcome);
    }
    return outcome;
  }

  void compare(Outcome& outcome) const {
    outcome.is_compared = true;
    outcome.equal = outcome.plain->tokens == outcome.answer.tokens;
    outcome.claims_equal = keeps_tokens(options_.decode);
    if (!outcome.equal && outcome.claims_equal) outcome.exit_code = kExitFailed;
  }

  /// The first line of a trace.
  Json about_run(const Request& request) const {
    const DecodeSettings& decode = options_.decode;
    return {{"model", options_.model.model},  {"method", decode.drafter},
            {"policy", decode.policy},        {"verify", decode.verify},
            {"seed", options_.answer.seed},   {"temperature", request.sampler.temperature},
            {"prompt_tokens", request.prompt}};
  }

  Answer answer_plainly(OpenedModel& opened, const Request& request, StopFlag& stop) {
    DecodeSettings settings = options_.decode;
    settings.drafter = "none";
    Answerer answerer(opened.model, *opened.cache, opened.tokenizer_or_null(), settings);
    Request warm_up = request;  // else the first answer pays for what the second finds ready
    warm_up.prompt.resize(1);
    warm_up.max_new = std::min(8, opened.model.config.context - 1);
    answerer.decode(warm_up);
    if (!options_.json) note("-- plain --");
    return stream(opened, answerer, request, stop);
  }

  Answer stream(OpenedModel& opened, Answerer& answerer, const Request& request,
                const StopFlag& stop) {
    Answer answer;
    if (options_.json) {
      answer = answerer.decode(request, {}, &stop);
    } else {
      AnswerStream output(opened.tokenizer_or_null(), marks());
      answer = answerer.decode(
          request, [&](const Progress& progress) { output.push(progress); }, &stop);
      output.finish();
    }
    if (options_.statistics) note("{}", statistics_text(answer));
    return answer;
  }

  /// Says how it went on standard error; returns the JSON object.
  Json report(const OpenedModel& opened, const Outcome& outcome) const {
    const Answer& answer = outcome.answer;
    Json json = answer_json(answer, options_.decode);
    json["prompt_tokens"] = outcome.prompt;
    json["model"] = options_.model.model;
    json["backend"] = opened.backend->name();
    json["seed"] = options_.answer.seed;
    json["load_ms"] = opened.load_ms;
    json["weights_bytes"] = opened.model.weight_bytes;
    json["cache_bytes"] = opened.cache->bytes();
    if (outcome.plain) {
      json["plain"] = {{"decode_tok_s", outcome.plain->tokens_per_second()},
                       {"decode_ms", outcome.plain->statistics.decode_ms}};
    }
    if (outcome.is_compared) {
      json["speedup"] = speed_up(answer, *outcome.plain);
      json["equal"] = outcome.equal;
      if (!outcome.claims_equal) json["claims_equal"] = false;
    }
    if (answer.finish == FinishReason::no_room) {
      note("note: the answer ended early, the cache is full: give a larger --cache-mb");
    }
    if (!options_.json) say_speed(outcome);
    if (!outcome.equal && outcome.claims_equal)
      note("talon: {} changed the tokens of the answer, which must never happen",
           options_.decode.drafter);
    return json;
  }

  std::string sameness(const Outcome& outcome) const {
    if (outcome.equal) return "the same tokens";
    if (outcome.claims_equal) return "DIFFERENT tokens";
    return fmt::format("other tokens, as the rule {} may give", options_.decode.verify);
  }

  void say_speed(const Outcome& outcome) const {
    const std::string& drafter = options_.decode.drafter;
    if (marks() && drafter != "none") note("\n{}", mark_legend());
    if (!outcome.plain) {
      note("{}: {}", drafter, speed_text(outcome.answer));
      return;
    }
    note("plain: {}", speed_text(*outcome.plain));
    if (!outcome.is_compared) {
      note("{}: {}; stopped, so nothing is compared", drafter, speed_text(outcome.answer));
      return;
    }
    note("{}: {}, {:.2f}x plain, {}", drafter, speed_text(outcome.answer),
         speed_up(outcome.answer, *outcome.plain), sameness(outcome));
  }

  RunOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_run(CLI::App& parent) { return std::make_unique<Run>(parent); }

}  // namespace talon
