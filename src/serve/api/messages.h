#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/fields.h"
#include "serve/api/limits.h"
#include "text/chat_template.h"

namespace talon {

/// The messages of a chat: texts, or lists of text parts, which are joined, calls of tools and
/// their results. Throws ApiError naming the message and what of it cannot be served.
std::vector<ChatMessage> read_messages(const Fields& fields, const RequestLimits& limits);

/// How the template is asked: add_generation_prompt or continue_final_message, and variables of
/// chat_template_kwargs, reasoning_effort and verbosity.
ChatRenderOptions read_render_options(const Fields& fields);
/// Reads how long a model shall think, in OpenAI's words, for the template; what else that knows
/// goes into chat_template_kwargs.
void read_effort(const Fields& fields, const char* name, ChatRenderOptions& options);
/// Reads how much the model shall say, which no template is known to tell it, likewise.
void read_verbosity(const Fields& fields, ChatRenderOptions& options);
/// Asks the template for a thought, or for none, by the names that templates have for this; what
/// chat_template_kwargs say stays.
void ask_to_think(bool thinks, ChatRenderOptions& options);

/// One message whose role is one of `roles` and whose content is text, or parts of `types`.
ChatMessage read_message(const std::string& path, const Json& json,
                         std::span<const std::string_view> roles,
                         std::span<const std::string_view> types);

/// Adds a call to the last message, or to a new one of the assistant. arguments: JSON.
void add_call(std::vector<ChatMessage>& messages, const std::string& id, const std::string& name,
              const std::string& arguments);
/// A message with what a call gave.
ChatMessage call_result(const std::string& id, std::string content);
/// Gives results the name of the last call before them that has their id, for templates that write
/// it.
void name_results(std::vector<ChatMessage>& messages);

/// Adds to what a message of the assistant thought, on a line of its own.
void add_thought(ChatMessage& message, const std::string& text);
/// Adds what another message of its role says, with `between` before it, thinks and calls.
void add_message(ChatMessage& message, const ChatMessage& more, std::string_view between);
/// Whether messages of the user, or of the assistant, follow each other.
bool has_repeated_turns(std::span<const ChatMessage> messages);
/// Makes one of those, as paragraphs, for templates that take none.
void join_turns(std::vector<ChatMessage>& messages);
/// gpt-oss' template has another name for a thought, and refuses it beside words and calls.
void name_thoughts_twice(std::vector<ChatMessage>& messages);

/// The text of a message's content: a text, or a list of parts whose type is one of `types`.
std::string read_content(const std::string& path, const Json& content,
                         std::span<const std::string_view> types);
/// The text of one such part.
std::string read_part(const std::string& path, const Json& json,
                      std::span<const std::string_view> types);

}  // namespace talon
