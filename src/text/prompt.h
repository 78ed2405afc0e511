#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/types.h"
#include "text/chat_marks.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace talon {

/// Compiles the chat template of a tokenizer's files. Throws Error if they carry none.
ChatTemplate chat_template_of(const Tokenizer& tokenizer);
/// Compiles the template for chats with tools, where the files carry one.
std::optional<ChatTemplate> tool_template_of(const Tokenizer& tokenizer);

/// Most bytes of a text that is encoded whatever a context holds: that takes some hundred times its
/// memory.
inline constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;

/// A text is too long for the context, at any number of bytes a token.
class PromptTooLong : public Error {
 public:
  using Error::Error;
};

/// Throws PromptTooLong if `text` has more bytes than `context` tokens can stand for, before any
/// work is spent on it. 0: any length.
void check_prompt_bytes(const Tokenizer& tokenizer, std::string_view text, int context);

/// What a model is fed for a text that its user wrote as a whole: special tokens recognised unless
/// told otherwise, the start token first if the model wants one and the text does not begin with
/// it.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   int context = 0, bool parse_special = true);

/// A chat as a model is fed it.
struct ChatPrompt {
  RenderedChat chat;
  std::vector<TokenId> tokens;
  bool is_too_long = false;  // for the context, at any number of bytes a token; then no tokens
};

/// Renders messages and encodes the text so that special tokens come from the template alone: what
/// messages say is ordinary text, also where it looks like one or would complete one. Everything
/// else is as if the whole text were encoded at once. Where a template changes what messages say,
/// its text is taken if the special tokens in it are those that it writes without knowing that;
/// else it gets the messages in characters that it can make nothing of.
/// Throws Error as ChatTemplate::render and check_prompt_bytes do.
ChatPrompt encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       std::span<const ChatMessage> messages, const ChatRenderOptions& options = {},
                       int context = 0);

/// The prompts of one chat. Earlier answers keep the tokens they were generated as, which need not
/// be those that their text is encoded to: so a cache of earlier turns still knows them.
class ChatPrompts {
 public:
  /// Borrows `tokenizer`. Throws Error if it has no chat template.
  ChatPrompts(const Tokenizer& tokenizer, int context);

  /// Of all messages so far; valid until the next call. Throws Error as ChatTemplate::render does.
  const ChatPrompt& next(std::span<const ChatMessage> messages);
  /// The answer to the last prompt, as text and as the tokens that followed it.
  void answered(std::string_view message, std::span<const TokenId> tokens);

 private:
  bool go_on_from_known();

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  int context_;
  ChatPrompt known_;   // up to the end token of an answer
  ChatPrompt prompt_;  // rendered last
};

}  // namespace talon
