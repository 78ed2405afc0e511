#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/scratch_folder.h"
#include "io/codec/zstd.h"
#include "io/formats/write_safetensors.h"
#include "io/json_text.h"
#include "verify/relaxed/neighbour_table.h"

// For tests: the codebooks that LANTERN's code was recorded with.

namespace talon::test {

inline const Json& recorded() {
  static const Json json =
      parse_json(read_zstd(TALON_TEST_DATA "/golden/methods/lantern.json.zst"), "lantern.json");
  return json;
}

inline std::vector<std::vector<float>> rows_of(const Json& json) {
  return json.get<std::vector<std::vector<float>>>();
}

inline std::vector<float> codebook(const std::string& name) {
  for (const Json& stored : recorded()["codebooks"]) {
    if (stored["name"] != name) continue;
    std::vector<float> all;
    for (const auto& row : rows_of(stored["codebook"]))
      all.insert(all.end(), row.begin(), row.end());
    return all;
  }
  return {};
}

inline NeighbourTable table_of(const std::string& name, int most, TokenId first = 0) {
  return NeighbourTable(CodeVectors(codebook(name), name == "A" ? 8 : 4, /*unit=*/false), most,
                        first);
}

/// A codebook as a tokenizer's file has it, with another tensor if one is named.
class CodebookFile {
 public:
  explicit CodebookFile(const std::string& prefix = "", const std::string& other = "",
                        std::vector<float> rows = codebook("A"), std::int64_t width = 8) {
    const auto bytes = std::as_bytes(std::span(rows));
    const auto codes = std::ssize(rows) / width;
    std::vector<TensorToWrite> tensors = {
        {prefix + "quantize.embedding.weight", StorageType::f32, {codes, width}, bytes}};
    if (!other.empty())
      tensors.push_back({prefix + other, StorageType::f32, {1}, bytes.first(sizeof(float))});
    write_safetensors(path(), tensors);
  }
  std::filesystem::path path() const { return folder_.path() / "vq.safetensors"; }

 private:
  ScratchFolder folder_;
};

}  // namespace talon::test
