#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/types.h"

namespace talon {

/// One recorded sequence of a tiny model (tests/data/golden/makers).
struct MakerSequence {
  std::vector<TokenId> ids;
  int first_row = 0;                       // of the recorded ones
  std::vector<std::vector<float>> logits;  // of rows from first_row on
  std::vector<std::vector<float>>
      gguf_logits;  // where the GGUF cannot say all of the configuration
  std::vector<TokenId> greedy;
  std::vector<float> margin;                   // of each greedy token over the second
  std::vector<std::vector<float>> final;       // of sequence 0: what the output matrix reads
  std::vector<std::vector<float>> mtp_hidden;  // of sequence 0: the prediction layer's rows, if any
  std::vector<std::vector<float>> mtp_logits;
};
struct MakerRecording {
  std::filesystem::path folder;    // unpacked, as the makers publish the family
  std::filesystem::path gguf;      // empty: GGUF has no such family
  std::filesystem::path mtp_gguf;  // with the prediction layers; empty: not recorded apart
  std::vector<MakerSequence> sequences;
};

/// A model in a quantised folder (tests/data/golden/quantized).
struct QuantizedRecording {
  std::filesystem::path folder;
  std::vector<TokenId> ids;
  std::vector<std::vector<float>> logits;  // of the last rows
  std::vector<std::vector<float>> q_proj;  // layer 1's matrix of queries
};
QuantizedRecording unpack_quantized(const std::string& name);

/// Unpacks the files of a family into a folder of the test.
MakerRecording unpack_maker(const std::string& family);

}  // namespace talon
