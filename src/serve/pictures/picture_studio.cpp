#include "serve/pictures/picture_studio.h"

namespace talon {

Picture PictureStudio::decode(std::span<const TokenId> codes) const {
  const std::lock_guard lock(mutex_);
  return decoder_.decode(codes);
}

std::optional<Picture> PictureStudio::preview(const ImagePlan& plan,
                                              std::span<const TokenId> codes) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;
  const auto start = Clock::now();
  if (start < next_preview_) return std::nullopt;
  Picture picture = preview_of(decoder_, plan, codes);
  const auto end = Clock::now();
  next_preview_ = end + 3 * (end - start);
  return picture;
}

}  // namespace talon
