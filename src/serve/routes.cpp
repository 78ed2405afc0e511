#include "serve/routes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "io/quote.h"
#include "serve/api/anthropic.h"
#include "serve/api/fields.h"
#include "serve/api/generate.h"
#include "serve/api/responses.h"
#include "serve/api/text_paths.h"
#include "serve/page/page.h"
#include "serve/pictures/generate_images.h"

namespace talon {
namespace {

using ExchangePtr = std::shared_ptr<Exchange>;

constexpr std::string_view kModelPath = "/v1/models/", kImagesPath = "/v1/images/generations";

ServedModel* find_model(Serving& serving, std::string_view name) {
  const auto found = std::ranges::find_if(serving.models, [&](const ServedModel& model) {
    return model.name == name || std::ranges::count(model.other_names, name) > 0;
  });
  return found == serving.models.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_model(Serving& serving, const std::string& found) {
  std::vector<std::string> names;
  for (const ServedModel& model : serving.models) {
    for (std::string& name : model.names()) names.push_back(std::move(name));
  }
  throw ApiError(404, "model",
                 fmt::format("model: expected one of {}, found {}", fmt::join(names, ", "), found),
                 "model_not_found");
}

/// The one that the request names; without a name the first that does what the path is for.
ServedModel& model_of(bool draws, Serving& serving, const Json& body) {
  const auto name = Fields(body).text("model");
  if (!name || name->empty()) {
    const auto first = std::ranges::find(
        serving.models, draws, [](const ServedModel& model) { return model.pictures != nullptr; });
    return first == serving.models.end() ? serving.models.front() : *first;
  }
  if (ServedModel* model = find_model(serving, *name)) return *model;
  refuse_model(serving, quote(*name));
}

/// A path is for models that write text or for those that draw pictures.
ServedModel& model_for(bool draws, Serving& serving, const Json& body) {
  ServedModel& model = model_of(draws, serving, body);
  if ((model.pictures != nullptr) == draws) return model;
  throw ApiError(400, "model",
                 fmt::format("model: expected one that {}, found {}, which {}: use {}",
                             draws ? "draws pictures" : "writes text", model.name,
                             draws ? "writes text" : "draws pictures",
                             draws ? "/v1/chat/completions" : kImagesPath),
                 "invalid_value");
}

template <void (*serve)(const GenerateInput&)>
void generate(Serving& serving, const HttpRequest& request, const ExchangePtr& exchange) {
  const Json body = parse_body(request.body);
  serve({&model_for(serve == serve_images, serving, body), &body, &request.body,
         &serving.options.limits, serving.options.returns_metrics, exchange, serving.workers,
         request.came});
}

template <Json (*make)(const ServedModel&, const Json&, const std::string&, const RequestLimits&)>
void compute(Serving& serving, const HttpRequest& request, const ExchangePtr& exchange) {
  const Json body = parse_body(request.body);
  serving.respond(exchange, json_response(make(model_for(false, serving, body), body, request.body,
                                               serving.options.limits)));
}

void give_models(Serving& serving, const HttpRequest&, const ExchangePtr& exchange) {
  Json list = Json::array();
  for (const ServedModel& model : serving.models) {
    for (const std::string& name : model.names()) list.push_back(model_json(model, name));
  }
  serving.respond(exchange, json_response({{"object", "list"}, {"data", std::move(list)}}));
}

void give_model(Serving& serving, const HttpRequest& request, const ExchangePtr& exchange) {
  const std::string name = request.path.substr(kModelPath.size());
  const ServedModel* model = find_model(serving, name);
  if (!model) refuse_model(serving, quote(name));
  serving.respond(exchange, json_response(whole_model_json(*model, name)));
}

void give_health(Serving& serving, const HttpRequest&, const ExchangePtr& exchange) {
  serving.respond(exchange, json_response({{"status", "ok"}}));
}

void give_ready(Serving& serving, const HttpRequest&, const ExchangePtr& exchange) {
  const bool ready = !serving.draining;
  serving.respond(exchange,
                  json_response({{"status", ready ? "ready" : "draining"}}, ready ? 200 : 503));
}

void give_load(Serving& serving, const HttpRequest&, const ExchangePtr& exchange) {
  Json list = Json::array();
  for (const ServedModel& model : serving.models) list.push_back(load_json(model));
  int all = 0;
  for (const Json& load : list) all += load["running"].get<int>() + load["waiting"].get<int>();
  serving.respond(exchange, json_response({{"server_load", all}, {"models", list}}));
}

void give_props(Serving& serving, const HttpRequest&, const ExchangePtr& exchange) {
  serving.respond(exchange, json_response(props_json(serving.models.front())));
}

void give_metrics(Serving& serving, const HttpRequest&, const ExchangePtr& exchange) {
  for (const ServedModel& model : serving.models) {
    model.metrics->set(model.host->statistics());
  }
  serving.respond(exchange, {200, serving.metrics.text(), "text/plain; version=0.0.4"});
}

void give_page(Serving& serving, const HttpRequest& request, const ExchangePtr& exchange) {
  serving.respond(exchange, page_response(request));
}

Json detokenize_body(const ServedModel& model, const Json& body, const std::string&,
                     const RequestLimits&) {
  return detokenize(model, body);
}

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", generate<serve_chat>},
    {"POST", "/chat/completions", generate<serve_chat>},
    {"POST", "/v1/completions", generate<serve_completion>},
    {"POST", "/completions", generate<serve_completion>},
    {"POST", "/v1/responses", generate<serve_responses>},
    {"POST", "/responses", generate<serve_responses>},
    {"POST", "/v1/messages", generate<serve_messages>, false, true},
    {"POST", "/v1/messages/count_tokens", compute<count_message_tokens>, false, true},
    {"POST", kImagesPath, generate<serve_images>},
    {"POST", "/tokenize", compute<tokenize>},
    {"POST", "/detokenize", compute<detokenize_body>},
    {"POST", "/apply-template", compute<apply_template>},
    {"GET", "/v1/models", give_models},
    {"GET", "/models", give_models},
    {"GET", kModelPath, give_model},
    {"GET", "/v1/load", give_load},
    {"GET", "/props", give_props},
    {"GET", "/metrics", give_metrics},
    {"GET", "/health", give_health, true},
    {"GET", "/ready", give_ready, true},
    {"GET", kPagePath, give_page, true},
};

}  // namespace

std::span<const Route> routes() { return kRoutes; }

HttpResponse refusal_of(const Route* route, const ApiError& error) {
  return route && route->is_anthropic ? anthropic_error(error) : error_response(error);
}

void Serving::respond(const std::shared_ptr<Exchange>& exchange, HttpResponse response) {
  exchange->post([exchange, response = std::move(response)]() mutable {
    exchange->respond(std::move(response));
  });
}

}  // namespace talon
