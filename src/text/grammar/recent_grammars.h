#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "text/grammar/grammar.h"

namespace talon {

/// Compiles grammars for one vocabulary and remembers the last ones, for callers that ask for the
/// same form again and again and may hold what those take, up to what bridge.h allows each. Answers
/// share nothing else of one. May be used from several threads, which do not wait for each other's
/// grammars.
class RecentGrammars {
 public:
  static constexpr std::size_t kMost = 8;  // those that answers have are theirs besides

  /// As GrammarCompiler, which borrows the tokenizer.
  RecentGrammars(const Tokenizer& tokenizer, int vocabulary) : compiler_(tokenizer, vocabulary) {}

  /// As GrammarCompiler::compile().
  std::shared_ptr<const ConstraintSource> get(const GrammarText& text);

 private:
  struct Remembered {
    GrammarText text;
    std::shared_ptr<const ConstraintSource> grammar;
  };

  std::shared_ptr<const ConstraintSource> find(const GrammarText& text);

  GrammarCompiler compiler_;
  std::mutex mutex_;              // of the one below
  std::list<Remembered> recent_;  // asked for last, first
};

}  // namespace talon
