#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "draw/growth.h"
#include "draw/picture_facts.h"
#include "draw/picture_prompt.h"
#include "image/vq_decoder.h"
#include "runtime/decode_settings.h"

namespace talon {

/// The decoder of a served model that draws pictures, for one caller at a time, and what may be
/// asked of the model.
class PictureStudio {
 public:
  /// usual: what the file of a picture tells where its request says nothing else.
  explicit PictureStudio(VqDecoder decoder, PromptChoices choices = {}, PictureFacts usual = {})
      : decoder_(std::move(decoder)), choices_(std::move(choices)), usual_(std::move(usual)) {}

  int width() const { return decoder_.width(); }
  int height() const { return decoder_.height(); }
  const PromptChoices& choices() const { return choices_; }
  const PictureFacts& usual() const { return usual_; }

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
  PictureFacts usual_;
};

/// That of `loaded`, which draws by `decode` on `backend` with a cache of `kv`, and whose codes the
/// tokenizer in `vq` shows; empty: the usual one. Throws as open_picture_decoder().
std::unique_ptr<PictureStudio> open_studio(const LoadedModel& loaded,
                                           const std::filesystem::path& vq,
                                           const DecodeSettings& decode, BackendKind backend,
                                           KvType kv);

}  // namespace talon
