#include "serve/http/response_head.h"

#include <fmt/format.h>

#include <array>
#include <boost/beast/http/status.hpp>

namespace talon {

std::string write_response_head(const ResponseHead& head, std::time_t now) {
  namespace http = boost::beast::http;
  const auto reason = http::obsolete_reason(static_cast<http::status>(head.status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nServer: talon\r\nDate: {}\r\n", head.status,
                                 std::string_view(reason.data(), reason.size()), http_date(now));
  // As OpenAI's clients read it, and as Anthropic's do.
  text += fmt::format("X-Request-Id: {0}\r\nRequest-Id: {0}\r\n", head.request_id);
  if (has_body(head.status)) text += fmt::format("Content-Type: {}\r\n", head.content_type);
  if (!head.connection.empty()) text += fmt::format("Connection: {}\r\n", head.connection);
  if (!head.cors.empty()) {
    text += fmt::format("Access-Control-Allow-Origin: {}\r\n", head.cors);
    text += "Access-Control-Expose-Headers: X-Request-Id, Request-Id, Retry-After\r\n";
  }
  return text;
}

std::string http_date(std::time_t time) {
  std::tm parts = {};
  gmtime_r(&time, &parts);
  std::array<char, 64> text = {};
  const std::size_t size =
      std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

}  // namespace talon
