#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cli/options/model_options.h"
#include "draw/picture_room.h"
#include "image/png.h"
#include "image/vq_decoder.h"
#include "runtime/answerer.h"
#include "runtime/loaded_model.h"

namespace talon {

/// PictureFacts::computed_by of pictures that are drawn with `loaded`, opened as `options` say.
PngTexts computed_by(const LoadedModel& loaded, const VqDecoder& decoder,
                     const ModelOptions& options);

/// What is to be drawn, and who hears of it. The time of these functions is not that of drawing.
struct Drawing {
  PictureRoom room;
  /// The next request; none: there are no more. Called when there is room for one more.
  std::function<std::optional<Request>()> next;
  /// Tokens of a forward, and how many of them the exact rule would have rejected
  /// (VerifyResult::relaxed); picture: 0, 1, ... in the order of next(). May be empty.
  std::function<void(std::size_t picture, std::span<const TokenId> tokens, double relaxed)> grew;
  /// Whole, or cut off where `stop` asks for it.
  std::function<void(std::size_t picture, Answer answer)> drawn;
};
/// Draws pictures together by the settings' method; milliseconds that it took. Throws UsageError or
/// Error with the engine's words for a request that it refuses.
double draw(const LoadedModel& loaded, const DecodeSettings& settings, const Drawing& drawing,
            const StopFlag* stop);

}  // namespace talon
