#include "draft/draft_cache.h"

#include <algorithm>

#include "core/machine/available_memory.h"
#include "model/cache/kv_cache.h"

namespace talon {
namespace {

constexpr std::size_t kMostUntoldBytes = std::size_t{1} << 30;
constexpr std::size_t kPagesInFlight = 8;

}  // namespace

KvShape draft_cache_shape(const KvShape& page, std::size_t positions, int context) {
  const bool is_told = positions > 0;
  if (!is_told) positions = static_cast<std::size_t>(context);
  const auto bytes_of = [&](std::size_t pages) {
    return kv_bytes(with_pages(page, static_cast<int>(std::min<std::size_t>(pages, kMostKvPages))));
  };
  std::size_t bytes = bytes_of(positions / kPageRows + kPagesInFlight);
  if (is_told) {
    require_available(bytes, "open a head's cache");
  } else {
    bytes = std::clamp(bytes, bytes_of(1), std::max(bytes_of(1), kMostUntoldBytes));
  }
  return within_budget(page, bytes);
}

}  // namespace talon
