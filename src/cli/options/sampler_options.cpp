#include "cli/options/sampler_options.h"

#include <fmt/core.h>

#include <limits>

#include "cli/options/flags.h"
#include "cli/options/prompt_options.h"
#include "core/error.h"

namespace talon {
namespace {

constexpr const char* kSamplingGroup = "Sampling";

/// `ID:BIAS`, as in --logit-bias 5:-2.5
std::pair<TokenId, float> parse_bias(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw UsageError(fmt::format("--logit-bias: expected ID:BIAS, got \"{}\"", text));
  }
  const auto id = parse_int("--logit-bias: token id", text.substr(0, colon), 0,
                            std::numeric_limits<TokenId>::max());
  const double bias = parse_real("--logit-bias: bias", text.substr(colon + 1), -1e4, 1e4);
  return {static_cast<TokenId>(id), static_cast<float>(bias)};
}

}  // namespace

void add_sampler_flags(CLI::App& app, SamplerOptions& s, std::uint64_t& seed) {
  const auto real = [&](const char* name, double& value, double least, double most,
                        const char* help) {
    add_real(app, name, value, least, most, help)->group(kSamplingGroup);
  };
  real("--temperature", s.temperature, 0, 100, "0 takes the most probable token");
  add_int(app, "--top-k", s.top_k, 0, 1 << 24, "keep the k most probable tokens, 0 for all")
      ->group(kSamplingGroup);
  real("--top-p", s.top_p, 0, 1, "keep the most probable tokens that sum to p, 1 for all");
  real("--min-p", s.min_p, 0, 1, "keep tokens of at least this share of the largest probability");
  real("--typical-p", s.typical_p, 0, 1, "locally typical sampling, 1 for off");
  real("--repeat-penalty", s.repetition_penalty, 0.01, 100,
       "divides the logits of tokens already seen, 1 for off");
  add_int(app, "--repeat-window", s.penalty_window, 0, 1 << 24,
          "last tokens that count as seen, 0 for all")
      ->group(kSamplingGroup);
  real("--presence-penalty", s.presence_penalty, -100, 100,
       "subtracted once for a token of the answer");
  real("--frequency-penalty", s.frequency_penalty, -100, 100,
       "subtracted per occurrence in the answer");
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&s](const std::vector<std::string>& items) {
           for (const std::string& item : items) s.logit_bias.push_back(parse_bias(item));
         },
         "added to a token's logit, may be repeated")
      ->type_name("ID:BIAS")
      ->allow_extra_args(false)
      ->group(kSamplingGroup);
  app.add_option_function<std::string>(
         "--ban", [&s](const std::string& text) { s.banned = parse_ids("--ban", text); },
         "token ids that are never drawn")
      ->type_name("IDS")
      ->group(kSamplingGroup);
  add_count(app, "--seed", seed, "of the random numbers")->group(kSamplingGroup);
}

Json json_of(const SamplerOptions& sampler) {
  return {{"top_k", sampler.top_k},
          {"top_p", sampler.top_p},
          {"min_p", sampler.min_p},
          {"typical_p", sampler.typical_p},
          {"repeat_penalty", sampler.repetition_penalty},
          {"repeat_window", sampler.penalty_window},
          {"presence_penalty", sampler.presence_penalty},
          {"frequency_penalty", sampler.frequency_penalty},
          {"logit_bias", sampler.logit_bias},
          {"ban", sampler.banned}};
}

void add_answer_flags(CLI::App& app, AnswerOptions& options) {
  add_int(app, "-n,--max-new", options.max_new, 1, 1 << 24, "most tokens of an answer");
  app.add_option("--stop", options.stop_texts,
                 "text that ends the answer and is not shown, may be repeated")
      ->type_name("TEXT")
      ->check(no_empty_text)
      ->allow_extra_args(false);
  app.add_flag("--ignore-end,--ignore-eos", options.ignore_end, "go on after an end token");
  add_sampler_flags(app, options.sampler, options.seed);
}

void add_grammar_flags(CLI::App& app, GrammarOptions& options) {
  // An empty text was asked for as any other.
  const auto add = [&](const char* name, std::optional<std::string>& value, const char* help) {
    return app.add_option_function<std::string>(
        name, [&value](const std::string& text) { value = text; }, help);
  };
  auto* schema = add("--json-schema", options.schema_file,
                     "the answer is JSON that keeps to the schema in this file")
                     ->type_name("FILE");
  auto* grammar = add("--grammar", options.grammar_file,
                      "the answer keeps to the grammar in this file: Lark, or llama.cpp's (GBNF)")
                      ->type_name("FILE");
  auto* regex =
      add("--regex", options.regex, "the answer matches a regular expression")->type_name("REGEX");
  for (CLI::Option* option : {schema, grammar, regex}) option->group("Form of the answer");
  schema->excludes(grammar)->excludes(regex);
  grammar->excludes(regex);
}

std::optional<GrammarText> grammar_text(const GrammarOptions& options) {
  using Kind = GrammarText::Kind;
  if (options.schema_file) {
    return GrammarText{Kind::json_schema, read_text_file(*options.schema_file)};
  }
  if (options.grammar_file) {
    std::string source = read_text_file(*options.grammar_file);
    const Kind kind = grammar_kind(source);
    return GrammarText{kind, std::move(source)};
  }
  if (options.regex) return GrammarText{Kind::regex, *options.regex};
  return std::nullopt;
}

std::string grammar_source(const GrammarOptions& options) {
  if (options.schema_file) return "--json-schema " + *options.schema_file;
  return options.grammar_file ? "--grammar " + *options.grammar_file : "--regex";
}

}  // namespace talon
