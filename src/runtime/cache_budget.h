#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "model/cache/kv_cache.h"
#include "model/model.h"

namespace talon {

struct CacheOptions {
  std::size_t bytes = 0;            // 0: usual_cache_bytes()
  std::optional<KvType> type = {};  // none: BackendTraits::cache
  /// Bytes that other caches of this process will take, page by page: this one cannot have them.
  std::size_t promised = 0;
};

/// A cache for texts of the model. Throws Error if the budget holds not even one page, or is more
/// than the memory that this process can get.
std::unique_ptr<KvCache> open_cache(const Model& model, const CacheOptions& options = {});

/// The type that `options` ask for.
KvType cache_type(const Model& model, std::optional<KvType> asked);

/// Enough for one text of the whole context, but at most 1 GiB and half of the memory that is
/// `available`. Of a model that draws: for eight pictures with guides, within the same limits, and
/// for one where 1 GiB holds none.
std::size_t usual_cache_bytes(const ModelConfig& config, KvType type,
                              std::optional<std::size_t> available);

/// Cached positions that one text of `length` tokens takes, rows in flight included.
std::size_t positions_for(std::size_t length);
/// Bytes of the pages that hold `positions`.
std::size_t kv_cache_bytes(const ModelConfig& config, KvType type, std::size_t positions);

}  // namespace talon
