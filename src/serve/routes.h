#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/http/exchange.h"
#include "serve/server.h"
#include "serve/work_queue.h"

namespace talon {

/// What the paths of a server share.
struct Serving {
  ServeOptions options;
  std::vector<ServedModel> models;
  Metrics metrics;
  std::atomic<bool> draining = false;
  WorkQueue* workers = nullptr;  // for what takes too long for the server's thread

  /// Any thread.
  void respond(const std::shared_ptr<Exchange>& exchange, HttpResponse response);
};

/// A path and what answers there. Throws ApiError for a request that is not answered.
struct Route {
  using Answer = void (*)(Serving&, const HttpRequest&, const std::shared_ptr<Exchange>&);
  std::string_view method;
  std::string_view path;  // one that ends in / stands for all that begin with it, but for "/"
  Answer answer;
  bool is_open = false;  // needs no key
  /// Errors as Anthropic's interface has them.
  bool is_anthropic = false;
};
std::span<const Route> routes();
inline constexpr std::string_view kPagePath = "/";

/// The error as the route's clients expect it.
HttpResponse refusal_of(const Route* route, const ApiError& error);

}  // namespace talon
