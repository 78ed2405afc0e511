#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/json.h"

namespace talon {

/// With the keys of objects in the order in which they came: templates print them so.
using OrderedJson = nlohmann::ordered_json;

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  /// Further entries of the message (`tool_calls`, `tool_call_id`, `reasoning_content`); null or an
  /// object.
  OrderedJson more = {};
};

struct ChatRenderOptions {
  bool add_generation_prompt = true;
  /// The text ends with what the last message says, and has no generation prompt.
  bool continues_last = false;
  OrderedJson variables = OrderedJson::object();  // further variables a template may read (`tools`,
                                                  // `enable_thinking`, ...)
};

/// A model's chat template: Jinja as Hugging Face runs it (trim_blocks, lstrip_blocks, Python
/// methods on strings and lists, raise_exception, strftime_now).
class ChatTemplate {
 public:
  /// Compiles `source`; throws Error with the line for a syntax error.
  ChatTemplate(std::string_view source, std::string start_text, std::string end_text);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The text of a chat; prompt.h makes its tokens. Throws Error when the template raises one
  /// ("roles must alternate"), for one that takes more time or memory than bridge.h allows, and for
  /// one that does not write what the last message says where that is to be continued.
  /// REQUIRES with continues_last: a message.
  std::string render(std::span<const ChatMessage> messages,
                     const ChatRenderOptions& options = {}) const;
  const std::string& source() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace talon
