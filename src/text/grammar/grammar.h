#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sample/token_constraint.h"
#include "text/tokenizer.h"

namespace talon {

/// What an answer must look like, as its user writes it.
struct GrammarText {
  enum class Kind {
    json_schema,  // a JSON schema, or `true`; unless its "x-guidance" says otherwise the answer is
                  // on one line, with a space after `,` and `:`
    regex,        // of the crate regex-syntax
    lark,         // llguidance's dialect
    gbnf,         // llama.cpp's
    choice,       // a JSON list of texts
    led           // made by led_by()
  };
  Kind kind = Kind::json_schema;
  std::string source;

  bool operator==(const GrammarText&) const = default;
};

/// Lark or llama.cpp's: the latter writes `::=`.
GrammarText::Kind grammar_kind(std::string_view source);

/// A text behind another: `lead` is Lark whose rules call what comes where `text` does `@answer`.
GrammarText led_by(const std::string& lead, const GrammarText& text);

/// Compiles grammars for one vocabulary, by the library llguidance. Borrows the tokenizer; reads
/// its vocabulary when it is first asked for a grammar. May be used from several threads.
class GrammarCompiler {
 public:
  /// vocabulary: of the model, which may have more rows than the tokenizer has tokens.
  GrammarCompiler(const Tokenizer& tokenizer, int vocabulary);
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  /// Throws Error for grammars that are wrong, that use what is not known, or that take more than
  /// bridge.h allows. What it returns outlives the compiler, not the tokenizer.
  std::shared_ptr<const ConstraintSource> compile(const GrammarText& text) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace talon
