#pragma once

#include <cstddef>
#include <optional>

#include "core/machine/available_memory.h"
#include "model/model.h"
#include "runtime/cache_budget.h"

namespace talon {

struct PicturesToDraw {
  std::size_t pictures = 1;
  std::size_t prompt_tokens = 0;  // of the longest prompt
  int streams = 1;                // of a picture (Request::streams)
  std::optional<KvType> type = {};
};

/// How many of them are drawn at a time, and a cache for as many.
struct PictureRoom {
  int pictures = 1;
  CacheOptions cache;
};

/// Of sixteen as many as half of the memory that is `available` holds, since drafters and rows in
/// flight need room, too; at least one.
PictureRoom picture_room(const Model& model, const PicturesToDraw& wanted,
                         std::optional<std::size_t> available = available_memory());

}  // namespace talon
