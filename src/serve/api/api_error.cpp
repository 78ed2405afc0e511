#include "serve/api/api_error.h"

namespace talon {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "overloaded_error";
    default:
      return "invalid_request_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

ApiError prompt_too_long(const std::string& param, std::string_view message, long context) {
  return ApiError(400, param,
                  fmt::format("{}: {}: this model's maximum context length is {} tokens", param,
                              message, context),
                  "context_length_exceeded");
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json error_json(const ApiError& error) {
  return {{"error",
           {{"message", error.what()},
            {"type", type_of(error.status())},
            {"param", text_or_null(error.param())},
            {"code", text_or_null(error.code())}}}};
}

HttpResponse json_response(const Json& json, int status) { return {status, to_text(json)}; }

HttpResponse error_response(const ApiError& error) {
  HttpResponse response = json_response(error_json(error), error.status());
  if (error.status() == 429 || error.status() == 503) {
    response.headers.emplace_back("Retry-After", "1");
  }
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace talon
