#include "text/prompt.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

std::size_t most_bytes(const Tokenizer& tokenizer, int context) {
  return static_cast<std::size_t>(context) * std::max<std::size_t>(tokenizer.longest_token(), 1);
}

bool is_too_long(const Tokenizer& tokenizer, std::string_view text, int context) {
  return context > 0 && text.size() > most_bytes(tokenizer, context);
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const RenderedChat& chat) {
  return tokenizer.encode(chat.text, {.parse_special = true, .add_start = true, .own = chat.own});
}

/// Renders one chat with and without marks.
class Renderer {
 public:
  Renderer(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
           std::span<const ChatMessage> messages, const ChatRenderOptions& options)
      : tokenizer_(tokenizer),
        template_(chat_template),
        messages_(messages),
        options_(options),
        special_texts_(tokenizer.special_texts()) {}

  RenderedChat render() const {
    const std::string text = template_.render(messages_, options_);
    using Marked = ChatMarks::Marked;
    RenderedChat all;
    const bool has_all = render_marked(Marked::all, all);
    if (has_all && all.text == text) return all;
    RenderedChat some;
    const bool has_some = render_marked(Marked::special_texts, some) && some.text == text;
    if (!has_all && has_some) return some;
    if (!has_all) {
      fail("render chat template: it refuses messages that hold no text of special tokens");
    }
    // The template looks at what messages say, or changes it. Its own special tokens are those of
    // the rendering in which it saw none of that.
    const bool same_special = has_some && special_tokens(some) == special_tokens(all);
    return same_special ? some : all;
  }

 private:
  /// False where the template raises an error because of the marks.
  bool render_marked(ChatMarks::Marked what, RenderedChat& chat) const {
    ChatMarks marks(special_texts_, template_.source());
    const ChatMarks::Input input = marks.mark(messages_, options_.variables, what);
    ChatRenderOptions options = options_;
    options.variables = input.variables;
    try {
      chat = marks.unmark(template_.render(input.messages, options));
    } catch (const BusyError&) {
      throw;
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  std::vector<TokenId> special_tokens(const RenderedChat& chat) const {
    std::vector<TokenId> tokens = encode(tokenizer_, chat);
    // A token for unknown words is special too, but stands for others.
    std::erase_if(tokens, [&](TokenId token) {
      return !tokenizer_.is_special(token) ||
             chat.text.find(tokenizer_.bytes_of(token)) == std::string::npos;
    });
    return tokens;
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  std::span<const ChatMessage> messages_;
  const ChatRenderOptions& options_;
  std::vector<std::string> special_texts_;
};

/// The part of `ranges` before `size`.
std::vector<TextRange> before(std::span<const TextRange> ranges, std::size_t size) {
  std::vector<TextRange> first;
  for (const TextRange& range : ranges) {
    if (range.begin < size) first.push_back({range.begin, std::min(range.end, size)});
  }
  return first;
}

/// The rest of `chat`, from `size` on.
RenderedChat after(const RenderedChat& chat, std::size_t size) {
  RenderedChat rest{chat.text.substr(size), {}};
  for (const TextRange& range : chat.own) {
    if (range.end > size)
      rest.own.push_back({std::max(range.begin, size) - size, range.end - size});
  }
  return rest;
}

}  // namespace

ChatTemplate chat_template_of(const Tokenizer& tokenizer) {
  if (!tokenizer.chat_template()) {
    fail(
        "chat: expected a chat template in the model's files, found none: this model takes plain "
        "text, which talon run takes");
  }
  return ChatTemplate(*tokenizer.chat_template(), tokenizer.start_text(), tokenizer.end_text());
}

std::optional<ChatTemplate> tool_template_of(const Tokenizer& tokenizer) {
  if (!tokenizer.tool_template()) return std::nullopt;
  return ChatTemplate(*tokenizer.tool_template(), tokenizer.start_text(), tokenizer.end_text());
}

void check_prompt_bytes(const Tokenizer& tokenizer, std::string_view text, int context) {
  if (!is_too_long(tokenizer, text, context)) return;
  throw PromptTooLong(fmt::format("the prompt has {} bytes: expected at most {}, for {} tokens",
                                  text.size(), most_bytes(tokenizer, context), context));
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, std::string_view text, int context,
                                   bool parse_special) {
  check_prompt_bytes(tokenizer, text, context);
  return tokenizer.encode(text, {.parse_special = parse_special, .add_start = true});
}

ChatPrompt encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       std::span<const ChatMessage> messages, const ChatRenderOptions& options,
                       int context) {
  for (const ChatMessage& message : messages) {
    check_prompt_bytes(tokenizer, message.content, context);
    if (!message.more.is_null()) check_prompt_bytes(tokenizer, message.more.dump(), context);
  }
  ChatPrompt prompt{Renderer(tokenizer, chat_template, messages, options).render(), {}};
  check_prompt_bytes(tokenizer, prompt.chat.text, context);
  prompt.tokens = encode(tokenizer, prompt.chat);
  return prompt;
}

ChatPrompts::ChatPrompts(const Tokenizer& tokenizer, int context)
    : tokenizer_(tokenizer), template_(chat_template_of(tokenizer)), context_(context) {}

const ChatPrompt& ChatPrompts::next(std::span<const ChatMessage> messages) {
  prompt_ = {};
  std::size_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += message.content.size();
  prompt_.is_too_long = bytes > most_bytes(tokenizer_, context_);
  if (prompt_.is_too_long) return prompt_;
  prompt_.chat = Renderer(tokenizer_, template_, messages, {}).render();
  prompt_.is_too_long = is_too_long(tokenizer_, prompt_.chat.text, context_);
  if (!prompt_.is_too_long && !go_on_from_known()) {
    prompt_.tokens = encode(tokenizer_, prompt_.chat);
  }
  return prompt_;
}

bool ChatPrompts::go_on_from_known() {
  const std::size_t size = known_.chat.text.size();
  const bool begins = size > 0 && prompt_.chat.text.starts_with(known_.chat.text) &&
                      before(prompt_.chat.own, size) == known_.chat.own;
  if (!begins) return false;
  const RenderedChat rest = after(prompt_.chat, size);
  const std::vector<TokenId> more = tokenizer_.encode(rest.text, {.own = rest.own});
  const auto is_special = [&](TokenId token) { return tokenizer_.is_special(token); };
  if (!is_special(known_.tokens.back()) && (more.empty() || !is_special(more.front())))
    return false;
  prompt_.tokens = known_.tokens;
  prompt_.tokens.insert(prompt_.tokens.end(), more.begin(), more.end());
  return true;
}

void ChatPrompts::answered(std::string_view message, std::span<const TokenId> tokens) {
  if (tokens.empty() || tokenizer_.decode(tokens) != message) return;
  known_ = prompt_;
  const std::size_t begin = known_.chat.text.size();
  if (const auto own = own_range(message)) {
    known_.chat.own.push_back({begin + own->begin, begin + own->end});
  }
  known_.chat.text += message;
  if (tokenizer_.is_special(tokens.back())) known_.chat.text += tokenizer_.bytes_of(tokens.back());
  known_.chat.own = join_ranges(known_.chat.text, known_.chat.own);
  known_.tokens.insert(known_.tokens.end(), tokens.begin(), tokens.end());
}

}  // namespace talon
