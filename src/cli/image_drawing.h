#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/answerer.h"
#include "runtime/loaded_model.h"

namespace talon {

/// Room for all of them at once, or for as many as are drawn together.
CacheOptions picture_cache(const LoadedModel& loaded, const std::vector<Request>& requests,
                           std::optional<KvType> type);

struct DrawingResult {
  std::vector<Answer> pictures;  // codes, in the order of the requests
  double ms = 0;                 // of all
};
/// Draws pictures together, as many as the cache has room for, by the settings' method.
/// progress(codes so far, of all) may be empty. Throws UsageError or Error with the engine's words
/// for a request that it refuses.
DrawingResult draw(const LoadedModel& loaded, const DecodeSettings& settings,
                   const std::vector<Request>& requests, std::optional<KvType> cache_type,
                   const std::function<void(std::size_t, std::size_t)>& progress,
                   const StopFlag* stop);

}  // namespace talon
