#include "serve/http/request_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>

namespace talon {
namespace {

constexpr std::string_view kNames = "/v1/models/";  // what follows is a name

/// With every %XX as the byte that it stands for.
std::string unescaped(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* digits = text.data() + i + 1;
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    decoded += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

/// Where a target points: without what follows a question mark and without `http://host`, with
/// which proxies may begin it. Escapes count in names of models alone: a path that a proxy keeps
/// from others has one spelling.
std::string path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  const std::size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string_view::npos) {
    const std::size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (!target.starts_with(kNames)) return std::string(target);
  return std::string(kNames) + unescaped(target.substr(kNames.size()));
}

/// HOST of HOST[:PORT], where an address of IPv6 stands in brackets.
std::string_view name_of_host(std::string_view host) {
  const std::size_t bracket = host.find(']');
  if (host.starts_with('[')) return host.substr(0, bracket == host.npos ? bracket : bracket + 1);
  return host.substr(0, host.find(':'));
}

bool names_this_machine(std::string_view name, const HttpOptions& options) {
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || name == options.host ||
         name == "[" + options.host + "]";
}

/// The client's own, if it may stand in a header of the answer and in a log.
std::string request_id(std::string_view given) {
  constexpr std::size_t kLongest = 128;
  static constexpr std::string_view kOthers = "-_.:/+=@";
  const auto may_stand = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
  };
  const bool is_good = !given.empty() && given.size() <= kLongest &&
                       std::all_of(given.begin(), given.end(), may_stand);
  if (is_good) return std::string(given);
  std::random_device device;
  return fmt::format("req_{:08x}{:08x}{:08x}", device(), device(), device());
}

}  // namespace

HttpRequest read_request_head(const HttpMessage& message) {
  namespace http = boost::beast::http;
  const auto text_of = [](auto view) { return std::string(view.data(), view.size()); };
  const auto field = [&](auto name) { return text_of(message[name]); };
  HttpRequest request;
  request.method = text_of(message.method_string());
  request.path = path_of(text_of(message.target()));
  request.authorization = field(http::field::authorization);
  request.api_key = field("x-api-key");
  request.origin = field(http::field::origin);
  request.host = field(http::field::host);
  request.if_none_match = field(http::field::if_none_match);
  request.id = request_id(field("x-request-id"));
  request.takes_gzip = field(http::field::accept_encoding).find("gzip") != std::string::npos;
  return request;
}

bool may_call(const HttpRequest& request, const HttpOptions& options, bool is_alone) {
  const std::string& origin = request.origin;
  if (origin.empty() || options.cors == "*" || origin == options.cors) return true;
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string::npos || origin.substr(scheme + 3) != request.host) return false;
  return !is_alone || names_this_machine(name_of_host(request.host), options);
}

}  // namespace talon
