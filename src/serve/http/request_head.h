#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "serve/http/http_server.h"

namespace talon {

/// A request but for its body, as the wire has it.
using HttpMessage = boost::beast::http::request<boost::beast::http::string_body>;

/// What the head of a message says.
HttpRequest read_request_head(const HttpMessage& message);

/// Whether the page that a request comes from, if it comes from one, may call: one of --cors, or
/// the server's own.
bool may_call(const HttpRequest& request, const HttpOptions& options);

}  // namespace talon
