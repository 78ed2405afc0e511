#pragma once

#include "train/image/training_run.h"

namespace talon {

/// Trains a VQ tokenizer in LlamaGen's layout on the data set's pictures, moved and mirrored, and
/// writes OUT/vq.safetensors (encoder, decoder, codebook) and OUT/tokenizer.json (its sizes).
/// Loss: L1, L1 of differences between neighbours, L1 of the means of cells, commitment.
TrainingResult train_tokenizer(const TokenizerOptions& options, const TrainingHooks& hooks);

}  // namespace talon
