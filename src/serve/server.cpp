#include "serve/server.h"

#include <strings.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "io/quote.h"
#include "serve/routes.h"
#include "serve/work_queue.h"

namespace talon {
namespace {

/// Takes as long for every guess of one length.
bool equal_secrets(std::string_view guess, std::string_view secret) {
  if (guess.size() != secret.size()) return false;
  int difference = 0;
  for (std::size_t i = 0; i < guess.size(); ++i) difference |= guess[i] ^ secret[i];
  return difference == 0;
}

/// What follows the scheme of an Authorization header, whose case does not count.
std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const bool is_bearer = authorization.size() >= kScheme.size() &&
                         strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) == 0;
  if (!is_bearer) return "";
  authorization.remove_prefix(kScheme.size());
  return authorization.substr(std::min(authorization.find_first_not_of(' '), authorization.size()));
}

bool has_key(const HttpRequest& request, const std::vector<std::string>& keys) {
  const std::string_view bearer = bearer_of(request.authorization);
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const bool is_bearer = equal_secrets(bearer, key);
    return equal_secrets(request.api_key, key) || is_bearer;
  });
}

bool is_at(const Route& route, std::string_view path) {
  const bool is_folder = route.path.size() > 1 && route.path.back() == '/';
  if (!is_folder) return path == route.path;
  return path.size() > route.path.size() && path.starts_with(route.path);
}

/// The route of the path; of several the one with the request's method.
const Route* find_route(const HttpRequest& request) {
  const Route* at_path = nullptr;
  for (const Route& route : routes()) {
    if (!is_at(route, request.path)) continue;
    at_path = &route;
    if (route.method == request.method) return at_path;
  }
  return at_path;
}

HttpOptions http_options(const ServeOptions& options) {
  HttpOptions http = options.http;
  http.has_keys = !options.api_keys.empty();
  return http;
}

std::vector<ServedModel> set_up(std::vector<ServedModel> models, Metrics& metrics) {
  for (ServedModel& model : models) {
    model.metrics = &metrics.add(model.name);
    model.created = static_cast<long>(std::time(nullptr));
  }
  return models;
}

}  // namespace

struct Server::State {
  State(ServeOptions options, std::vector<ServedModel> models)
      : serving{std::move(options), {}, {}, {}},
        http(http_options(serving.options), handlers()),
        workers(serving.options.workers, static_cast<std::size_t>(serving.options.queue)) {
    serving.models = set_up(std::move(models), serving.metrics);
    serving.workers = &workers;
    thread = std::thread([this] { http.run(); });
  }
  /// The engines know exchanges, and end before the server that these belong to.
  ~State() {
    workers.stop();
    http.stop();
    thread.join();
    for (ServedModel& model : serving.models) model.host.reset();
  }

  HttpHandlers handlers() {
    return {[this](const HttpRequest& request) { return refuse(request); },
            [this](HttpRequest request, std::shared_ptr<Exchange> exchange) {
              handle(std::move(request), exchange);
            },
            [](const HttpRequest& request, int status, const std::string& message) {
              return refusal_of(find_route(request), ApiError(status, "", message));
            },
            [this](const std::string& request_id, const HttpResponse& response) {
              count(request_id, response);
            }};
  }
  void count(const std::string& request_id, const HttpResponse& response);
  std::optional<HttpResponse> refuse(const HttpRequest& request);
  void handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  void answer(const Route& route, const HttpRequest& request,
              const std::shared_ptr<Exchange>& exchange);

  Serving serving;
  FaultNotes notes{serving.options.note};
  HttpServer http;
  WorkQueue workers;
  std::thread thread;
};

void Server::State::count(const std::string& request_id, const HttpResponse& response) {
  serving.metrics.count_response(response.status);
  if (response.status != 500) return;
  notes.add("status 500", fmt::format("request {}: {}", request_id, response.body));
}

/// What the head of a request already tells.
std::optional<HttpResponse> Server::State::refuse(const HttpRequest& request) {
  const Route* route = find_route(request);
  const auto error = [&](int status, const std::string& message, const char* code) {
    return refusal_of(route, ApiError(status, "", message, code));
  };
  const std::vector<std::string>& keys = serving.options.api_keys;
  if (!keys.empty() && !(route && route->is_open) && !has_key(request, keys)) {
    return error(401, "api key: expected the server's, found none or another", "invalid_api_key");
  }
  if (!route || (route->path == kPagePath && !serving.options.has_page)) {
    return error(
        404, fmt::format("path {}: expected one of docs/serving/README.md", quote(request.path)),
        "not_found");
  }
  if (route->method != request.method && !(route->method == "GET" && request.method == "HEAD")) {
    HttpResponse response = error(405,
                                  fmt::format("method of {}: expected {}, found {}", route->path,
                                              route->method, quote(request.method)),
                                  "method_not_allowed");
    response.headers.emplace_back("Allow", route->method == "GET" ? "GET, HEAD" : route->method);
    return response;
  }
  if (serving.draining && route->method == "POST") {
    return error(503, "server: expected one that stays, found it ending", "draining");
  }
  return std::nullopt;
}

void Server::State::handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const Route* route = find_route(request);
  if (route->method == "GET") return answer(*route, request, exchange);
  const bool has_room = workers.add(
      [this, route, exchange, request = std::move(request)] { answer(*route, request, exchange); });
  if (has_room) return;
  serving.respond(exchange, refusal_of(route, ApiError(429, "",
                                                       "queue: expected room for this request, "
                                                       "found none; try again later",
                                                       "queue_full")));
}

void Server::State::answer(const Route& route, const HttpRequest& request,
                           const std::shared_ptr<Exchange>& exchange) {
  const auto refuse_with = [&](const ApiError& error) {
    serving.respond(exchange, refusal_of(&route, error));
  };
  try {
    route.answer(serving, request, exchange);
  } catch (const ApiError& error) {
    refuse_with(error);
  } catch (const BusyError& error) {
    refuse_with(ApiError(503, "", error.what(), "busy"));
  } catch (const std::bad_alloc&) {
    refuse_with(ApiError(503, "", "server: expected more memory", "out_of_memory"));
  } catch (const std::exception& error) {
    refuse_with(ApiError(500, "", error.what(), "failed"));
  }
}

Server::Server(ServeOptions options, std::vector<ServedModel> models)
    : state_(std::make_unique<State>(std::move(options), std::move(models))) {}
Server::~Server() = default;

std::string Server::address() const { return state_->http.address(); }
int Server::port() const { return state_->http.port(); }

void Server::drain() {
  state_->serving.draining = true;
  state_->http.drain();
}

void Server::cancel_all() {
  for (ServedModel& model : state_->serving.models) model.host->cancel_all();
}

bool Server::idle() const {
  const std::vector<ServedModel>& models = state_->serving.models;
  return state_->http.exchanges() == 0 &&
         std::all_of(models.begin(), models.end(),
                     [](const ServedModel& model) { return model.host->idle(); });
}

}  // namespace talon
