#pragma once

#include <span>

#include "backend/backend.h"
#include "model/target.h"

namespace talon {

/// Says where every row of the batch is written and which cached rows it sees: the committed text,
/// its ancestors, itself; in far layers of the cache or in near ones. Overwrites `layout`, which
/// borrows the page lists of the sequences.
void lay_out_rows(std::span<const SequenceRows> batch, AttentionLayout& layout,
                  KvLayers of = KvLayers::far);
/// Says which rows of the batch run in which slots, for layers with a state, and overwrites that
/// part of `layout`. `flight`: the rows whose inputs are wanted until the next forward, in order.
void lay_out_states(std::span<const SequenceRows> batch, AttentionLayout& layout,
                    std::vector<std::int32_t>& flight);

}  // namespace talon
