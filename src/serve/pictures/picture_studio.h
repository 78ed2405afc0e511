#pragma once

#include <mutex>
#include <span>

#include "image/vq_decoder.h"

namespace talon {

/// The decoder of a served model that draws pictures, for one caller at a time.
class PictureStudio {
 public:
  explicit PictureStudio(VqDecoder decoder) : decoder_(std::move(decoder)) {}

  int width() const { return decoder_.width(); }
  int height() const { return decoder_.height(); }
  /// Any thread. REQUIRES: a code for every cell.
  Picture decode(std::span<const TokenId> codes) const {
    const std::lock_guard lock(mutex_);
    return decoder_.decode(codes);
  }

 private:
  mutable std::mutex mutex_;
  VqDecoder decoder_;
};

}  // namespace talon
