#pragma once

#include <vector>

#include "serve/api/fields.h"
#include "serve/api/limits.h"
#include "text/chat_template.h"

namespace talon {

/// The messages of a chat: texts, or lists of text parts, which are joined. Throws ApiError naming
/// the message and what of it cannot be served.
std::vector<ChatMessage> read_messages(const Fields& fields, const RequestLimits& limits);

/// Variables for the template: chat_template_kwargs and reasoning_effort.
ChatRenderOptions read_render_options(const Fields& fields);

/// One message whose role is one of `roles` and whose content is text, or parts of `types`.
ChatMessage read_message(const std::string& path, const Json& json,
                         std::span<const std::string_view> roles,
                         std::span<const std::string_view> types);

/// The text of a message's content: a text, or a list of parts whose type is one of `types`.
std::string read_content(const std::string& path, const Json& content,
                         std::span<const std::string_view> types);

}  // namespace talon
