#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace talon {

/// What the headers of an answer say about a refusal: why, in the words of a hub (X-Error-Message)
/// and for programs (X-Error-Code), and when to ask again (Retry-After of RFC 9110, 10.2.3, in
/// seconds, else the `t` of a RateLimit that leaves nothing, `r=0`).
class RefusalWords {
 public:
  /// A line of headers; that of a status begins anew.
  void read(std::string_view line);
  /// For the end of a message about `status`, safe to show. Empty: nothing is said.
  std::string text(int status) const;
  /// Until to ask again, where `status` is a refusal for now. None: it is not, or nothing is said.
  std::optional<int> seconds(int status) const;
  /// X-Error-Code as it came, such as RevisionNotFound; empty: nothing is said.
  const std::string& code() const { return code_; }

 private:
  std::string why_;      // as it came
  std::string code_;     // as it came
  std::string seconds_;  // digits
};

}  // namespace talon
