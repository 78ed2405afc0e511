#pragma once

#include <functional>
#include <string>

#include "core/stop.h"
#include "io/json.h"

namespace talon {

struct HttpReply {
  int status = 0;  // of HTTP
  std::string body;
};

/// Called with pieces of a body as they arrive.
using HttpListener = std::function<void(std::string_view)>;

/// One request; a body makes it a POST of JSON. A successful body goes to `listener` as it arrives,
/// if there is one, else into the reply. Throws Error beginning with `doing` when the server cannot
/// be reached, breaks off, or is silent for long, and when `stop` is requested.
HttpReply http_request(const std::string& doing, const std::string& url, const Json* body = nullptr,
                       const StopFlag* stop = nullptr, const HttpListener& listener = {});

/// Whether a server that answers so may be one that does not take prompts as token ids.
bool may_refuse_ids(int status);

/// The body as JSON. Throws Error beginning with `doing`, with what the server said, unless the
/// status is 200 and the body is a JSON object.
Json http_json(const std::string& doing, const HttpReply& reply);

}  // namespace talon
