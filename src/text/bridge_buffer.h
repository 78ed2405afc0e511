#pragma once

#include <string_view>

#include "core/error.h"
#include "text/bridge/bridge.h"

namespace talon {

/// Owns a buffer that the Rust side made.
class BridgeBuffer {
 public:
  BridgeBuffer() = default;
  ~BridgeBuffer() { talon_buffer_free(buffer_); }
  BridgeBuffer(const BridgeBuffer&) = delete;
  BridgeBuffer& operator=(const BridgeBuffer&) = delete;

  /// For one call to fill.
  talon_buffer* out() { return &buffer_; }
  std::string_view text() const { return {buffer_.data, buffer_.size}; }

 private:
  talon_buffer buffer_{nullptr, 0};
};

/// Throws `doing: problem`; BusyError, without the word, where the problem is of the moment
/// (bridge.h).
[[noreturn]] inline void fail_bridge(std::string_view doing, std::string_view problem) {
  constexpr std::string_view kBusy = "busy: ";
  if (problem.starts_with(kBusy)) {
    throw BusyError(fmt::format("{}: {}", doing, problem.substr(kBusy.size())));
  }
  fail("{}: {}", doing, problem);
}

}  // namespace talon
