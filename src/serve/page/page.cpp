#include "serve/page/page.h"

#include <string>

#include "io/sha256.h"

namespace talon {
namespace {

const std::string& page_tag() {
  static const std::string kTag =
      '"' + sha256_of(std::as_bytes(std::span(chat_page()))).substr(0, 32) + '"';
  return kTag;
}

}  // namespace

HttpResponse page_response(const HttpRequest& request) {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Cache-Control", "no-cache"},
                      {"ETag", page_tag()},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", std::string(chat_page_policy())},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  const std::string& known = request.if_none_match;  // *: any
  if (known == "*" || known.find(page_tag()) != std::string::npos) {
    response.status = 304;
  } else if (request.takes_gzip) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = chat_page_gzip();
  } else {
    response.body = chat_page();
  }
  return response;
}

}  // namespace talon
