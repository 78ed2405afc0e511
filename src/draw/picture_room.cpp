#include "draw/picture_room.h"

#include <algorithm>

namespace talon {
namespace {

constexpr std::size_t kMostTogether = 16;

}  // namespace

PictureRoom picture_room(const Model& model, const PicturesToDraw& wanted,
                         std::optional<std::size_t> available) {
  const KvType type = cache_type(model, wanted.type);
  const auto codes = static_cast<std::size_t>(model.config.image->answer_tokens());
  const std::size_t positions =
      positions_for(wanted.prompt_tokens + codes) * static_cast<std::size_t>(wanted.streams);
  const auto bytes = [&](std::size_t pictures) {
    return kv_cache_bytes(model.config, type, positions * pictures);
  };
  std::size_t together = std::clamp<std::size_t>(wanted.pictures, 1, kMostTogether);
  while (together > 1 && available && bytes(together) > *available / 2) --together;
  return {static_cast<int>(together), {bytes(together), wanted.type}};
}

}  // namespace talon
