#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace talon {

/// A request as it came over the wire, whole.
struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without what follows a question mark
  std::string authorization;
  std::string api_key;  // x-api-key
  std::string origin;
  std::string host;
  std::string if_none_match;
  bool takes_gzip = false;
  std::string id;  // x-request-id, or one that nobody else has
  std::string body;
  std::chrono::steady_clock::time_point came;  // when all of it had been read
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// What one client may take of this machine.
struct HttpLimits {
  std::size_t header_bytes = 16 << 10;
  std::size_t body_bytes = 4 << 20;
  int connections = 1024;  // beyond it, one that waits for its next request is closed
  double header_s = 10;    // from the first byte of a request to the end of its headers
  double body_s = 30;      // from there to the end of its body
  double write_s = 30;     // a client that takes nothing for so long is gone
  double idle_s = 75;      // between requests
};

}  // namespace talon
