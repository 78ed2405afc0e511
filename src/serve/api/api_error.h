#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "io/json.h"
#include "serve/http/message.h"

namespace talon {

/// A request that is not answered: what its client is told.
class ApiError : public Error {
 public:
  ApiError(int status, std::string param, const std::string& message, std::string code = "")
      : Error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& param() const { return param_; }  // the field; empty: none
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string param_;
  std::string code_;
};

/// Of a prompt for which a context of so many tokens is too short, as `message` says. Clients that
/// shorten their chats know such an error by OpenAI's words, which are added.
ApiError prompt_too_long(const std::string& param, std::string_view message, long context);

/// {"error": {message, type, param, code}}, as OpenAI's interface has it.
Json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);
HttpResponse json_response(const Json& json, int status = 200);
/// Text that is no UTF-8 is repaired with U+FFFD.
std::string to_text(const Json& json);

}  // namespace talon
