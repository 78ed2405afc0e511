#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "draw/growth.h"

namespace talon {

/// When pictures are shown in the terminal.
enum class ShowPictures { automatic, always, never };

/// Pictures on standard error in half blocks: where that is a terminal with colours as they grow,
/// their cells tinted by how they came, and at the end as they are; `always`: at the end, whatever
/// it is. Of more than sixteen the first sixteen.
class PictureView {
 public:
  static constexpr std::size_t kMostShown = 16;

  /// columns: of pictures beside each other; 0: about as many as there are rows.
  PictureView(ShowPictures when, const ImagePlan& plan, const VqDecoder& decoder,
              std::size_t pictures, int columns);

  bool is_live() const { return is_live_; }
  void grew(std::size_t picture, std::span<const TokenId> tokens, double relaxed);
  void finish(std::span<const Picture> pictures);

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<Picture> tinted_previews() const;
  void show(std::span<const Picture> pictures);

  const ImagePlan& plan_;
  const VqDecoder& decoder_;
  bool shows_ = false, is_live_ = false;
  int columns_ = 1;
  std::vector<PictureGrowth> pictures_;  // those that are shown
  int tokens_ = 0, forwards_ = 0;        // of all
  int shown_lines_ = 0;
  Clock::time_point next_;
};

}  // namespace talon
