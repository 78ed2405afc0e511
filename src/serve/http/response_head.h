#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace talon {

/// What the head of every answer says. Borrows its texts.
struct ResponseHead {
  int status = 200;
  std::string_view content_type = "";  // of a body, if the status has one
  std::string_view request_id = "";
  std::string_view connection = "";  // what becomes of it; empty: what the client expects anyway
  std::string_view cors = "";        // the origin that may read the answer; empty: its own alone
};

/// The status line and these headers, each with its line end. now: for `Date`.
std::string write_response_head(const ResponseHead& head, std::time_t now);
/// As HTTP writes it (RFC 9110, 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(std::time_t time);

/// Answers of other statuses end with their headers.
inline bool has_body(int status) { return status != 204 && status != 304; }

}  // namespace talon
