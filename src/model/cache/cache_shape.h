#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/memory.h"
#include "model/config/config.h"

namespace talon {

inline constexpr int kMostKvPages = INT32_MAX / kPageRows;  // a slot is an int32

/// `pages` pages for the keys and values of a model, and near ones (NearShape) that go with them:
/// as many as one text needs, however long it is. Of more pages near ones are a share, such that
/// the cache loses the same part of the most texts it could hold if all are short and if all fill
/// the context.
KvShape kv_shape(const ModelConfig& config, int pages, KvType type = KvType::f16);
/// `shape` with another number of pages.
KvShape with_pages(KvShape shape, int pages);
/// Bytes of all pages of `shape`, without states.
std::size_t kv_bytes(const KvShape& shape);
/// `shape` with as many pages as the budget holds. Throws Error if that is none.
KvShape within_budget(KvShape shape, std::size_t budget_bytes);

}  // namespace talon
