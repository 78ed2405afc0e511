#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "draft/block/block_config.h"
#include "model/config/config.h"

namespace talon::test {

/// Writes draft heads with random weights for `target` into folders below `folder`: one of each
/// kind, in the official layouts. Their drafts are rarely right, but sometimes. Returns the
/// folders. draft_vocabulary: of the EAGLE-3 head; 0: the target's. markov: of the DSpark head.
std::vector<std::filesystem::path> write_random_heads(const std::filesystem::path& folder,
                                                      const ModelConfig& target,
                                                      int draft_vocabulary = 0,
                                                      MarkovKind markov = MarkovKind::vanilla);

/// Of these the DSpark head alone, into `folder`, which it returns.
std::filesystem::path write_random_dspark(const std::filesystem::path& folder,
                                          const ModelConfig& target, MarkovKind markov);

}  // namespace talon::test
