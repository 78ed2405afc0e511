#pragma once

#include <string_view>

#include "serve/http/message.h"

namespace talon {

/// The page that people open in a browser (web/chat), as this request wants it: zipped, or nothing
/// where the browser has it. It loads nothing else.
HttpResponse page_response(const HttpRequest& request);

// What the page is made of, from web/chat/dist (embed_page.cmake):
std::string_view chat_page();
std::string_view chat_page_gzip();
/// Its Content-Security-Policy, with the hashes of what is inside.
std::string_view chat_page_policy();

}  // namespace talon
