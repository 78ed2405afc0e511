#pragma once

#include <string_view>

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

}  // namespace talon
