#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "draw/growth.h"
#include "draw/picture_prompt.h"
#include "image/vq_decoder.h"

namespace talon {

/// The decoder of a served model that draws pictures, for one caller at a time, and what may be
/// asked of the model.
class PictureStudio {
 public:
  explicit PictureStudio(VqDecoder decoder, PromptChoices choices = {},
                         std::string verify = "follow")
      : decoder_(std::move(decoder)), choices_(std::move(choices)), verify_(std::move(verify)) {}

  int width() const { return decoder_.width(); }
  int height() const { return decoder_.height(); }
  const PromptChoices& choices() const { return choices_; }
  /// The rule of requests that name none.
  const std::string& verify() const { return verify_; }

  /// Any thread. REQUIRES: a code for every cell.
  Picture decode(std::span<const TokenId> codes) const;
  /// What can be seen of a picture that grows. None where that would wait for another, or take more
  /// than a quarter of one thread's time from those that draw. Any thread.
  std::optional<Picture> preview(const ImagePlan& plan, std::span<const TokenId> codes) const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  mutable Clock::time_point next_preview_;
  VqDecoder decoder_;
  PromptChoices choices_;
  std::string verify_;
};

}  // namespace talon
