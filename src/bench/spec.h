#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/decoder.h"
#include "io/json.h"
#include "text/chat_template.h"

namespace talon {

/// One question of a Spec-Bench file: {"question_id", "category", "turns": [text, ...]} on a line.
struct Question {
  Json id;
  std::string category;
  std::vector<std::string> turns;
};
/// At most `limit` questions (0: all) of `category` (empty: of all). Throws Error naming the line
/// and field, or if there are none.
std::vector<Question> read_questions(const std::filesystem::path& file, const std::string& category,
                                     int limit);

/// Splits `none,ngram:nodes=8,levels=4` at the commas that begin a method, not those between its
/// options.
std::vector<std::string> split_methods(std::string_view list);

struct SpecSettings {
  std::vector<std::string>
      methods;            // drafters; the first is `none`, which the others are compared with
  DecodeSettings decode;  // of all methods; its drafter is not used
  SamplerOptions sampler;
  std::uint64_t seed = 1;
  int max_new = 128;
};

/// What the bench needs of a loaded model. Borrowed.
struct SpecModel {
  const Model& model;
  KvCache& cache;
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template;  // null: turns are fed as plain text, one after the other
  std::vector<TokenId> end_tokens;
};

/// Answers every question with every method, methods in turn within a question (in rotating order,
/// so that a slow spell of the machine hits all), and checks that the tokens are those of the first
/// method. `line` gets one JSON object per question and method, `skipped` the reason for a question
/// that does not fit the model's context. Speeds are of decoding after the prefill. Returns
/// {METHOD: {"tok_s", "speedup", "tau", "equal", "worst"}}.
Json run_spec_bench(const SpecModel& model, const std::vector<Question>& questions,
                    const SpecSettings& settings, const std::function<void(const Json&)>& line,
                    const std::function<void(const Question&, const std::string&)>& skipped);

}  // namespace talon
