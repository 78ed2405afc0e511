#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "sample/sampler.h"
#include "text/grammar/grammar.h"

namespace talon {

/// How the answer is drawn and when it ends.
struct AnswerOptions {
  SamplerOptions sampler;
  std::uint64_t seed = 1;
  int max_new = 256;
  std::vector<std::string> stop_texts;
  bool ignore_end = false;  // go on after an end token
};

/// What the answer must look like: at most one of them.
struct GrammarOptions {
  std::optional<std::string> schema_file, grammar_file, regex;
};
void add_grammar_flags(CLI::App& app, GrammarOptions& options);
/// The grammar that was asked for; nothing if none was. Throws Error for a file that cannot be
/// read.
std::optional<GrammarText> grammar_text(const GrammarOptions& options);
/// The option that asked for it, with its file, for messages.
std::string grammar_source(const GrammarOptions& options);

void add_answer_flags(CLI::App& app, AnswerOptions& options);
/// All of them but the temperature, as settings of a measurement.
Json json_of(const SamplerOptions& sampler);
/// The sampler's part of them, for commands that set their own limits.
void add_sampler_flags(CLI::App& app, SamplerOptions& sampler, std::uint64_t& seed);

}  // namespace talon
