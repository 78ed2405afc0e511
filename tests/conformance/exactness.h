#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_model.h"
#include "text/grammar/grammar.h"

namespace talon::test {

/// Drafters, samplers, policies and so on, each an axis: a combination of them must give the tokens
/// of plain decoding (none, whole prompt at once, one thread, alone, empty cache).
struct ExactnessPlan {
  static constexpr std::size_t kAxes = 9;
  std::filesystem::path model;
  std::function<std::unique_ptr<Backend>(int threads)> make_backend;
  std::vector<std::vector<TokenId>> prompts;  // at least three
  int max_new = 32;
  std::vector<SamplerOptions> samplers;
  std::vector<std::string> policies;
  std::vector<std::string> rules = {"follow"};
  std::vector<std::string> stop_texts = {};
  std::vector<GrammarText> grammars = {};  // of sampler i the i-th; empty: none
  std::vector<TokenId> end_tokens = {};
  std::function<Tokenizer()> make_tokenizer = {};  // needed for stop texts and grammars
  std::vector<std::string> drafters = {};          // of the table; empty: all
  bool merged = false;  // drafters joined with ngram, and all joined, as well
  std::vector<double> hits = {0, 0.5, 0.9,
                              1};  // random-tree drafters, by how often they hold the right tokens
  std::vector<int> chunks = {1, 7, 64, 1024};
  std::vector<int> threads = {1, 2};
  std::vector<bool> with_companions = {false, true};
  std::vector<bool> with_reuse = {false, true};
  std::vector<std::filesystem::path> heads;  // tried for drafters that need one
  std::size_t strength =
      3;  // so many axes take all their combinations together; kAxes: the product
  std::function<bool(const std::string& part)> is_done = {};  // parts that need not be run again
};

/// Temperatures 0, 0.3, 0.7, 1 and 1.5, nothing else.
std::vector<SamplerOptions> standard_samplers();
/// Rules that keep the distribution, and at temperature 0 so the tokens.
std::vector<std::string> lossless_rules();
/// All policies in the table, those that need a file with that of stories260K.
std::vector<std::string> all_policies();

struct ExactnessReport {
  int cases = 0;
  long tokens = 0;  // that were compared
  std::map<std::string, double>
      tau;  // by drafter and policy: mean tokens per round, to see that drafts were accepted
  std::vector<std::string> skipped;      // drafters that could not be made, and why
  std::vector<std::string> differences;  // one line per case that differs
};

/// Called after each part (a sampler, drafter, policy and rule in all their settings) with its
/// name.
using ExactnessProgress =
    std::function<void(const std::string& part, const ExactnessReport& so_far)>;

/// Iterates over the drafters' table and the random-tree drafters.
ExactnessReport check_exactness(const ExactnessPlan& plan, const ExactnessProgress& progress = {});

}  // namespace talon::test
