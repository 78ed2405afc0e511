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

std::unique_ptr<PictureStudio> open_studio(const LoadedModel& loaded,
                                           const std::filesystem::path& vq,
                                           const DecodeSettings& decode, BackendKind backend,
                                           KvType kv) {
  VqDecoder decoder = open_picture_decoder(loaded.model, vq);
  PictureFacts usual;
  usual.model = std::filesystem::canonical(loaded.path).filename().string();
  usual.verify = decode.verify;
  usual.policy = decode.policy;
  usual.computed_by = computed_by(loaded, decoder, backend, kv);
  return std::make_unique<PictureStudio>(std::move(decoder), prompt_choices(loaded.model),
                                         std::move(usual));
}

}  // namespace talon
