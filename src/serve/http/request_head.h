#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <string>

#include "serve/http/http_server.h"

namespace talon {

/// A request but for its body, as the wire has it.
using HttpMessage = boost::beast::http::request<boost::beast::http::string_body>;

/// What the head of a message says.
HttpRequest read_request_head(const HttpMessage& message);

/// The status and the message of the answer to a head that is not served.
struct HeadProblem {
  int status = 400;
  std::string message;
};
/// Of HTTP/1.1 no host or several (RFC 9112, 3.2), or a body in another form than its own bytes or
/// chunks of them.
std::optional<HeadProblem> head_problem(const HttpMessage& message);

/// Whether the page that a request comes from, if it comes from one, may call: one of --cors, or
/// the server's own. is_alone: whoever reaches the server may ask it, and only this machine does.
/// There a page of another name has its name's address changed to this machine's (DNS rebinding),
/// so an own page is one whose host is `localhost`, 127.0.0.1, [::1] or that of --host.
bool may_call(const HttpRequest& request, const HttpOptions& options, bool is_alone);

}  // namespace talon
