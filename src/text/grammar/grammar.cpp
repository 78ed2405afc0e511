#include "text/grammar/grammar.h"

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "io/json.h"
#include "text/bridge/bridge.h"
#include "text/bridge_buffer.h"

namespace talon {
namespace {

constexpr unsigned char kSpecialMark = 0xFF;  // before a token that only its name can stand for
/// What a question took that met a bound is not known: more than all that a round may ask.
constexpr std::uint64_t kWorkBeyondBounds = 1ULL << 32;

using EngineHandle = std::unique_ptr<talon_grammar_engine, decltype(&talon_grammar_engine_free)>;
using GrammarHandle = std::unique_ptr<talon_grammar, decltype(&talon_grammar_free)>;
using StateHandle = std::unique_ptr<talon_grammar_state, decltype(&talon_grammar_state_free)>;

/// Ids of a text in the middle of others. A SentencePiece tokenizer puts a space before the first
/// word: after a line's end, which is a token of its own, it has none to put.
std::vector<TokenId> encode_inside(const Tokenizer& tokenizer, std::string_view text) {
  if (!tokenizer.drops_first_space()) return tokenizer.encode(text, {.parse_special = false});
  std::vector<TokenId> ids = tokenizer.encode("\n" + std::string(text), {.parse_special = false});
  const auto line_end =
      std::ranges::find_if(ids, [&](TokenId id) { return tokenizer.bytes_of(id).ends_with('\n'); });
  if (line_end != ids.end()) ids.erase(ids.begin(), line_end + 1);
  return ids;
}

std::ptrdiff_t encode_for_bridge(const void* context, const char* text, std::size_t size,
                                 std::uint32_t* ids, std::size_t room) {
  try {
    const auto& tokenizer = *static_cast<const Tokenizer*>(context);
    const std::vector<TokenId> found = encode_inside(tokenizer, {text, size});
    if (found.size() > room) return -1;
    std::ranges::transform(found, ids, [](TokenId id) { return static_cast<std::uint32_t>(id); });
    return static_cast<std::ptrdiff_t>(found.size());
  } catch (const BusyError&) {
    return -2;
  } catch (const Error&) {  // then it is taken apart otherwise
    return -1;
  } catch (...) {  // to do so for want of memory would make the answer another
    return -2;
  }
}

EngineHandle make_engine_handle(const Tokenizer& tokenizer, int vocabulary) {
  std::string words;
  std::vector<std::uint32_t> sizes;
  for (TokenId id = 0; id < vocabulary; ++id) {
    const std::string bytes = tokenizer.bytes_of(id);
    const std::size_t before = words.size();
    if (tokenizer.is_special(id)) words += static_cast<char>(kSpecialMark);
    words += bytes;
    sizes.push_back(static_cast<std::uint32_t>(words.size() - before));
  }
  BridgeBuffer error;
  EngineHandle engine(talon_grammar_engine_new(words.data(), sizes.data(), sizes.size(),
                                               encode_for_bridge, &tokenizer, error.out()),
                      &talon_grammar_engine_free);
  if (!engine) fail_bridge("prepare grammars for this vocabulary", error.text());
  return engine;
}

class GrammarState final : public TokenConstraint {
 public:
  GrammarState(std::shared_ptr<const talon_grammar> grammar, int vocabulary,
               std::span<const TokenId> end_tokens)
      : grammar_(std::move(grammar)),
        vocabulary_(vocabulary),
        ends_(end_tokens.begin(), end_tokens.end()),
        state_(started()),
        mask_(static_cast<std::size_t>(vocabulary) / 32 + 1) {}

  std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
    if (!go_to(answer)) {
      std::ranges::fill(mask_, 0);
      allow_ends();
      return mask_;
    }
    ask([&](talon_buffer* error) {
      return talon_grammar_mask(state_.get(), mask_.data(), mask_.size(), error);
    });
    const bool may_end = bit(vocabulary_);
    word(vocabulary_) &= ~(1u << vocabulary_ % 32);
    if (may_end) allow_ends();
    return mask_;
  }

  bool allows(const AnswerTokens& answer, TokenId token) override {
    const bool is_end = std::ranges::find(ends_, token) != ends_.end();
    if (!go_to(answer)) return is_end;
    // A token that ends the answer may be text as well.
    return (is_end && may_follow(vocabulary_)) || may_follow(token);
  }

  std::vector<TokenId> forced(const AnswerTokens& answer) override {
    if (!go_to(answer)) return {};
    talon_ids ids{nullptr, 0};
    ask([&](talon_buffer* error) { return talon_grammar_forced(state_.get(), &ids, error); });
    std::vector<TokenId> tokens(ids.data, ids.data + ids.size);
    talon_ids_free(ids);
    // Lark can name the token that stands for the end: the answer ends there.
    const auto end = std::ranges::find_if(tokens, [&](TokenId id) { return id >= vocabulary_; });
    tokens.erase(end, tokens.end());
    return tokens;
  }

  bool is_complete(const AnswerTokens& answer) override {
    if (!go_to(answer)) return true;
    bool is_complete = false;
    ask([&](talon_buffer* error) {
      return talon_grammar_is_complete(state_.get(), &is_complete, error);
    });
    return is_complete;
  }

  std::uint64_t work() const override {
    return work_ + (state_ ? talon_grammar_work(state_.get()) : 0);
  }

 private:
  StateHandle started() const {
    BridgeBuffer error;
    StateHandle state(talon_grammar_start(grammar_.get(), error.out()), &talon_grammar_state_free);
    if (!state) fail_bridge("grammar", error.text());
    return state;
  }

  /// Earlier questions, about other texts too, may have used up a bound: then it is asked once more
  /// of a fresh state. What fails leaves nothing behind: the next question begins anew.
  template <typename Ask>
  void ask(Ask&& question) {
    BridgeBuffer error;
    if (question(error.out()) || asked_anew(question)) {
      is_used_ = true;
      return;
    }
    forget();
    fail_bridge("grammar", error.text());
  }
  template <typename Ask>
  bool asked_anew(Ask&& question) {
    if (!is_used_) return false;
    std::vector<std::uint32_t> tokens = std::move(tokens_);
    forget();
    state_ = started();
    BridgeBuffer error, again;
    if (!talon_grammar_go(state_.get(), 0, tokens.data(), tokens.size(), error.out())) return false;
    tokens_ = std::move(tokens);
    return question(again.out());
  }
  /// Nothing is asked of a state that failed: it may say that the text is whole.
  void forget() noexcept {
    work_ = work() + kWorkBeyondBounds;
    tokens_.clear();
    state_.reset();
    is_used_ = false;
  }

  /// False if an end token is among them: then only end tokens follow.
  bool go_to(const AnswerTokens& answer) {
    if (!state_) state_ = started();
    std::size_t same = 0;
    const std::size_t most = std::min(tokens_.size(), answer.size());
    while (same < most && tokens_[same] == static_cast<std::uint32_t>(answer[same])) ++same;
    std::vector<std::uint32_t> more;
    bool has_ended = false;
    for (std::size_t i = same; i < answer.size() && !has_ended; ++i) {
      has_ended = std::ranges::find(ends_, answer[i]) != ends_.end();
      if (!has_ended) more.push_back(static_cast<std::uint32_t>(answer[i]));
    }
    if (same == tokens_.size() && more.empty()) return !has_ended;
    ask([&](talon_buffer* error) {
      return talon_grammar_go(state_.get(), same, more.data(), more.size(), error);
    });
    tokens_.resize(same);
    tokens_.insert(tokens_.end(), more.begin(), more.end());
    return !has_ended;
  }

  bool may_follow(TokenId token) {
    bool allows = false;
    ask([&](talon_buffer* error) {
      return talon_grammar_allows(state_.get(), static_cast<std::uint32_t>(token), &allows, error);
    });
    return allows;
  }

  std::uint32_t& word(TokenId token) { return mask_[static_cast<std::size_t>(token) / 32]; }
  bool bit(TokenId token) { return (word(token) >> token % 32 & 1) != 0; }
  void allow_ends() {
    for (const TokenId token : ends_) word(token) |= 1u << token % 32;
  }

  std::shared_ptr<const talon_grammar> grammar_;
  int vocabulary_;  // and the number of the token that stands for the end
  std::vector<TokenId> ends_;
  StateHandle state_;
  bool is_used_ = false;               // it has answered a question
  std::vector<std::uint32_t> tokens_;  // that it has taken
  std::uint64_t work_ = 0;             // of states that are gone
  std::vector<std::uint32_t> mask_;
};

class Grammar final : public ConstraintSource {
 public:
  Grammar(GrammarHandle grammar, int vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(vocabulary) {}
  std::unique_ptr<TokenConstraint> start(std::span<const TokenId> end_tokens) const override {
    return std::make_unique<GrammarState>(grammar_, vocabulary_, end_tokens);
  }

 private:
  std::shared_ptr<const talon_grammar> grammar_;  // of all answers
  int vocabulary_;
};

/// What the library has only a name for.
std::string explained(std::string problem) {
  if (problem == "NoExtensionBias") return "expected rules that end, found one that has no text";
  return problem;
}

/// Asks what follows the text that every answer begins with: what exceeds a bound there is known
/// before an answer is begun.
void check_beginning(const ConstraintSource& source) {
  const auto state = source.start({});
  const std::vector<TokenId> beginning = state->forced({});
  state->allowed({beginning, {}});
}

}  // namespace

GrammarText::Kind grammar_kind(std::string_view source) {
  return source.find("::=") == std::string_view::npos ? GrammarText::Kind::lark
                                                      : GrammarText::Kind::gbnf;
}

GrammarText led_by(const std::string& lead, const GrammarText& text) {
  const Json parts = {
      {"lead", lead}, {"kind", static_cast<int>(text.kind)}, {"source", text.source}};
  return {GrammarText::Kind::led, parts.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

struct GrammarCompiler::Impl {
  Impl(const Tokenizer& of, int rows) : tokenizer(of), vocabulary(rows) {}

  const talon_grammar_engine* made() {
    std::call_once(once, [&] { engine = make_engine_handle(tokenizer, vocabulary); });
    return engine.get();
  }

  const Tokenizer& tokenizer;
  int vocabulary;
  std::once_flag once;
  EngineHandle engine{nullptr, &talon_grammar_engine_free};
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, int vocabulary)
    : impl_(std::make_unique<Impl>(tokenizer, vocabulary)) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const ConstraintSource> GrammarCompiler::compile(const GrammarText& text) const {
  BridgeBuffer error;
  GrammarHandle grammar(talon_grammar_compile(impl_->made(), static_cast<std::uint32_t>(text.kind),
                                              text.source.data(), text.source.size(), error.out()),
                        &talon_grammar_free);
  if (!grammar) fail_bridge("grammar", explained(std::string(error.text())));
  auto source = std::make_shared<Grammar>(std::move(grammar), impl_->vocabulary);
  check_beginning(*source);
  return source;
}

}  // namespace talon
