#pragma once

#include <string>
#include <string_view>

namespace talon {

/// What the headers of an answer say about a refusal: why, in the words of a hub (X-Error-Message),
/// and when to ask again (Retry-After of RFC 9110, 10.2.3, in seconds, else the `t` of RateLimit).
class RefusalWords {
 public:
  /// A line of headers; that of a status begins anew.
  void read(std::string_view line);
  /// For the end of a message about `status`, safe to show. Empty: nothing is said.
  std::string text(int status) const;

 private:
  std::string why_;      // as it came
  std::string seconds_;  // digits
};

}  // namespace talon
