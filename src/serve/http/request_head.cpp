#include "serve/http/request_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <random>

#include "io/quote.h"

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

/// Takes what stands before the next `mark` off a list, without the space around it.
std::string_view take_part(std::string_view& list, char mark) {
  const std::size_t end = std::min(list.find(mark), list.size());
  const std::string_view part = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  const std::size_t begin = part.find_first_not_of(" \t");
  if (begin == part.npos) return "";
  return part.substr(begin, part.find_last_not_of(" \t") - begin + 1);
}

bool is_word(std::string_view text, std::string_view word) {
  return boost::beast::iequals({text.data(), text.size()}, {word.data(), word.size()});
}

/// Whether a list of codings has gzip, but not as one that is not wanted (RFC 9110, 12.5.3).
bool wants_gzip(std::string_view codings) {
  while (!codings.empty()) {
    std::string_view coding = take_part(codings, ',');
    if (!is_word(take_part(coding, ';'), "gzip")) continue;
    while (!coding.empty()) {
      std::string_view weight = take_part(coding, ';');
      if (!is_word(take_part(weight, '='), "q")) continue;
      return weight.find_first_not_of("0. \t") != weight.npos;
    }
    return true;
  }
  return false;
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
  request.takes_gzip = wants_gzip(field(http::field::accept_encoding));
  return request;
}

std::optional<HeadProblem> head_problem(const HttpMessage& message) {
  namespace http = boost::beast::http;
  const auto field = [&](http::field name) {
    const auto value = message[name];
    return std::string(value.data(), value.size());
  };
  const std::size_t hosts = message.count(http::field::host);
  if (message.version() >= 11 && hosts != 1) {
    const char* found = hosts == 0 ? "none" : "several";
    return HeadProblem{400, fmt::format("Host: expected one, found {}", found)};
  }
  const std::string transfer = field(http::field::transfer_encoding);
  if (!transfer.empty() && !is_word(transfer, "chunked")) {
    return HeadProblem{
        501, fmt::format("Transfer-Encoding: expected chunked, found {}", quote(transfer))};
  }
  const std::string content = field(http::field::content_encoding);
  if (content.empty() || is_word(content, "identity")) return std::nullopt;
  return HeadProblem{415, fmt::format("Content-Encoding: expected none, found {}", quote(content))};
}

bool may_call(const HttpRequest& request, const HttpOptions& options, bool is_alone) {
  const std::string& origin = request.origin;
  if (origin.empty() || options.cors == "*" || origin == options.cors) return true;
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string::npos || origin.substr(scheme + 3) != request.host) return false;
  return !is_alone || names_this_machine(name_of_host(request.host), options);
}

}  // namespace talon
