#pragma once

#include "backend/arguments.h"

namespace talon::reference {

/// One value head of one run, in double but for the state, which is float32 behind every row. The
/// results of Mamba-2 lack their gate and norm. All of a short convolution, which has one head.
void recur_head(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run,
                int head);
/// Gate and norm of a row of Mamba-2. After all heads.
void finish_row(const RecurrentArgs& args, int row);
/// The inputs of the convolution that the next rows need. After all heads.
void keep_tails(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run);

}  // namespace talon::reference
