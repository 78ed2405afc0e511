#include "runtime/cache_budget.h"

#include <algorithm>

#include "core/error.h"
#include "core/machine/available_memory.h"

namespace talon {
namespace {

constexpr std::size_t kMostUsualBytes = std::size_t{1024} << 20;
constexpr std::size_t kUsualSlots = 8;  // of states: sequences that run, and snapshots
constexpr int kPagesInFlight = 8;       // beyond the context: for rows that a check adds and drops
constexpr std::size_t kUsualPictures = 8;  // that are drawn together
constexpr std::size_t kStreams = 2;        // of a picture with a guide
constexpr int kUsualPrompt = 256;          // tokens of a text that asks for a picture, at most

/// Of texts: one of the whole context, within the usual limit. Of pictures: some that are drawn
/// together within it, or one if that is more, since half a picture is none.
std::size_t wanted_bytes(const ModelConfig& config, KvType type) {
  if (!config.image) {
    const auto pages = (config.context + kPageRows - 1) / kPageRows + kPagesInFlight;
    const auto positions = static_cast<std::size_t>(pages * kPageRows);
    return std::min(kv_cache_bytes(config, type, positions), kMostUsualBytes);
  }
  const int prompt = std::min(config.image->prompt_tokens, kUsualPrompt);
  const std::size_t picture =
      kStreams * positions_for(static_cast<std::size_t>(prompt + config.image->answer_tokens()));
  return std::max(std::min(kv_cache_bytes(config, type, kUsualPictures * picture), kMostUsualBytes),
                  kv_cache_bytes(config, type, picture));
}

}  // namespace

std::size_t usual_cache_bytes(const ModelConfig& config, KvType type,
                              std::optional<std::size_t> available) {
  const std::size_t states = kv_shape(config, 1, type).states.slot_bytes() * kUsualSlots;
  const std::size_t wanted = wanted_bytes(config, type) + states;
  return available ? std::min(wanted, *available / 2) : wanted;
}

std::size_t positions_for(std::size_t length) {
  constexpr std::size_t kPagesBeyond = 2;
  return (length / kPageRows + kPagesBeyond) * kPageRows;
}

std::size_t kv_cache_bytes(const ModelConfig& config, KvType type, std::size_t positions) {
  const auto pages = std::min<std::size_t>(positions / kPageRows, kMostKvPages);
  return kv_bytes(kv_shape(config, static_cast<int>(pages), type));
}

KvType cache_type(const Model& model, std::optional<KvType> asked) {
  return asked.value_or(model.backend->traits().cache);
}

std::unique_ptr<KvCache> open_cache(const Model& model, const CacheOptions& options) {
  require_available(options.bytes, "open cache", options.promised);
  const KvType type = cache_type(model, options.type);
  std::size_t bytes = options.bytes;
  if (bytes == 0) {
    auto available = available_memory();
    if (available) *available -= std::min(*available, options.promised);
    bytes = usual_cache_bytes(model.config, type, available);
  }
  return std::make_unique<KvCache>(*model.backend,
                                   within_budget(kv_shape(model.config, 1, type), bytes));
}

}  // namespace talon
