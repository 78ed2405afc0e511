#pragma once

#include "backend/arguments.h"

namespace talon {

/// What prepare() gives where the host's memory is the backend's own.
class HostLayout : public PreparedLayout {
 public:
  /// Borrows `layout`. REQUIRES: every row sees a key, and its pages hold those said to lie there.
  explicit HostLayout(const AttentionLayout& layout);
  static const AttentionLayout& of(const PreparedLayout& prepared) {
    return static_cast<const HostLayout&>(prepared).layout_;
  }

 private:
  const AttentionLayout& layout_;
};

}  // namespace talon
