#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <fstream>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/formats/write_safetensors.h"
#include "io/json.h"
#include "maker_data.h"
#include "model_run.h"

namespace talon::quantized_stacks_test {
namespace {

namespace fs = std::filesystem;

/// How a folder scales its stacks of experts in fp8.
enum class Scales { blocks, outputs };

struct Stacks {
  std::string family;
  bool inputs_first;  // stacks hold [inputs, outputs]
};
void PrintTo(const Stacks& stacks, std::ostream* out) { *out << stacks.family; }

const Stacks kFamilies[] = {{"gemma4_moe", false}, {"qwen3_vl_moe", true}, {"llama4", true}};

/// A stack [experts, rows, cols] of fp8 codes and scales, and the values that they stand for.
struct Fp8Stack {
  std::vector<std::byte> codes;
  std::vector<float> scales, values;
  std::vector<std::int64_t> scales_shape;
};

Fp8Stack make_stack(const std::vector<std::int64_t>& shape, Scales kind, bool inputs_first) {
  constexpr std::int64_t kHeight = 12, kWidth = 8;  // of a block; rows of one may be fewer
  const std::int64_t rows = shape[1], cols = shape[2];
  const std::int64_t height = kind == Scales::blocks ? kHeight : inputs_first ? rows : 1;
  const std::int64_t width = kind == Scales::blocks ? kWidth : inputs_first ? 1 : cols;
  const std::int64_t down = (rows + height - 1) / height, across = (cols + width - 1) / width;
  Fp8Stack stack;
  stack.scales_shape = {shape[0], down, across};
  for (std::int64_t i = 0; i < shape[0] * down * across; ++i) {
    stack.scales.push_back(0.03125F * static_cast<float>(1 + i * 5 % 7));
  }
  for (std::int64_t i = 0; i < shape[0] * rows * cols; ++i) {
    stack.codes.push_back(static_cast<std::byte>((i * 37 % 64) | (i / 3 % 2) << 7));
  }
  stack.values.resize(stack.codes.size());
  dequantize(StorageType::f8_e4m3, stack.codes, stack.values);
  for (std::int64_t i = 0; i < shape[0] * rows * cols; ++i) {
    const std::int64_t expert = i / (rows * cols), row = i / cols % rows, col = i % cols;
    stack.values[static_cast<std::size_t>(i)] *= stack.scales[static_cast<std::size_t>(
        (expert * down + row / height) * across + col / width)];
  }
  return stack;
}

Json quantization(Scales kind) {
  if (kind == Scales::outputs) return {{"quant_method", "fbgemm_fp8"}};
  return {{"quant_method", "fp8"}, {"weight_block_size", {12, 8}}};
}

/// The family's folder with its stacks of experts in fp8, or with what these stand for. `missing`:
/// the scales of this stack are left out.
fs::path stacks_in_fp8(const fs::path& from, Scales kind, bool inputs_first, bool dequantised,
                       std::string_view missing = "") {
  const fs::path folder = from.parent_path() / (dequantised ? "plain" : "fp8");
  fs::create_directories(folder);
  Checkpoint model = open_checkpoint(from);
  std::deque<Fp8Stack> made;
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : model.tensors) {
    if (tensor.shape.size() != 3 || tensor.name.find(".experts.") == std::string::npos) {
      tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
      continue;
    }
    const Fp8Stack& stack = made.emplace_back(make_stack(tensor.shape, kind, inputs_first));
    if (dequantised) {
      tensors.push_back(
          {tensor.name, StorageType::f32, tensor.shape, std::as_bytes(std::span(stack.values))});
      continue;
    }
    tensors.push_back({tensor.name, StorageType::f8_e4m3, tensor.shape, stack.codes});
    if (!missing.empty() && tensor.name.ends_with(missing)) continue;
    tensors.push_back({tensor.name + (kind == Scales::blocks ? "_scale_inv" : "_scale"),
                       StorageType::f32, stack.scales_shape,
                       std::as_bytes(std::span(stack.scales))});
  }
  EXPECT_FALSE(made.empty());
  write_safetensors(folder / "model.safetensors", tensors);
  if (!dequantised) model.metadata["quantization_config"] = quantization(kind);
  std::ofstream(folder / "config.json") << model.metadata;
  return folder;
}

class QuantizedStacks : public testing::TestWithParam<Stacks> {
 protected:
  std::vector<float> logits(const fs::path& folder) {
    ModelRun run(folder, make_reference_backend(2), KvType::f32, 128);
    std::vector<float> all;
    run.run(recording_.sequences[0].ids, 0, [&](int, std::span<const float> row) {
      all.insert(all.end(), row.begin(), row.end());
    });
    return all;
  }
  fs::path folder(Scales kind, bool dequantised, std::string_view missing = "") {
    return stacks_in_fp8(recording_.folder, kind, GetParam().inputs_first, dequantised, missing);
  }

  MakerRecording recording_ = unpack_maker(GetParam().family);
};

TEST_P(QuantizedStacks, OfExpertsInFp8AreThoseThatTheyStandFor) {
  for (const Scales kind : {Scales::blocks, Scales::outputs}) {
    const std::vector<float> expected = logits(folder(kind, true));
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(logits(folder(kind, false)), expected);
  }
}

TEST_P(QuantizedStacks, OfExpertsInFp8WithoutScalesAreRefusedByName) {
  try {
    logits(folder(Scales::blocks, false, "down_proj"));
    FAIL() << "taken";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("experts.down_proj\": expected"), std::string::npos) << message;
    EXPECT_NE(message.find("found f8_e4m3"), std::string::npos) << message;
  }
}

/// As transformers brings stacks into fp8 and back.
TEST(RecordedStacks, InFp8GiveTheLogitsOfTheWeightsThatTheyStandFor) {
  const QuantizedRecording recording = unpack_quantized("fp8_stacks");
  ModelRun run(recording.folder, make_reference_backend(2), KvType::f32, 128);
  const auto first = static_cast<int>(recording.ids.size() - recording.logits.size());
  double largest = 0;
  run.run(recording.ids, first, [&](int row, std::span<const float> logits) {
    const auto& expected = recording.logits[static_cast<std::size_t>(row - first)];
    for (std::size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(largest, std::fabs(double{logits[i]} - expected[i]));
    }
  });
  EXPECT_LE(largest, 3e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, QuantizedStacks, testing::ValuesIn(kFamilies),
                         [](const auto& tested) { return tested.param.family; });

/// The folder with a stack for each matrix of its experts, by MLX's names.
fs::path experts_in_mlx_stacks(const fs::path& from) {
  constexpr std::string_view kFirst = ".experts.0.";
  const fs::path folder = from.parent_path() / "mlx_stacks";
  fs::create_directories(folder);
  const Checkpoint model = open_checkpoint(from);
  std::deque<std::vector<std::byte>> made;
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : model.tensors) {
    const std::size_t place = tensor.name.find(kFirst);
    if (place == std::string::npos) {
      const bool is_other = tensor.name.find(".experts.") != std::string::npos;
      if (!is_other) tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
      continue;
    }
    const std::string stem = tensor.name.substr(0, place);
    const std::string part = tensor.name.substr(place + kFirst.size());
    auto& bytes = made.emplace_back();
    std::int64_t count = 0;
    while (const auto* one = model.find(fmt::format("{}.experts.{}.{}", stem, count, part))) {
      bytes.insert(bytes.end(), one->bytes.begin(), one->bytes.end());
      ++count;
    }
    tensors.push_back({stem + ".switch_mlp." + part,
                       tensor.type,
                       {count, tensor.shape[0], tensor.shape[1]},
                       bytes});
  }
  write_safetensors(folder / "model.safetensors", tensors);
  std::ofstream(folder / "config.json") << model.metadata;
  return folder;
}

TEST(StacksOfMlx, HoldTheExpertsThatOthersHaveOneByOne) {
  const MakerRecording recording = unpack_maker("qwen3_moe");
  std::vector<float> logits[2];
  for (const bool stacked : {false, true}) {
    ModelRun run(stacked ? experts_in_mlx_stacks(recording.folder) : recording.folder,
                 make_reference_backend(2), KvType::f32, 128);
    run.run(recording.sequences[0].ids, 0, [&](int, std::span<const float> row) {
      logits[stacked].insert(logits[stacked].end(), row.begin(), row.end());
    });
  }
  EXPECT_FALSE(logits[0].empty());
  EXPECT_EQ(logits[0], logits[1]);
}

/// Rows `first`, `first + step`, ... of all matrices of a stack.
std::vector<std::byte> some_rows(const StoredTensor& stack, std::size_t first, std::size_t step) {
  const auto rows = static_cast<std::size_t>(stack.shape[0] * stack.shape[1]);
  const std::size_t size = stack.bytes.size() / rows;
  std::vector<std::byte> bytes;
  for (std::size_t row = first; row < rows; row += step) {
    const auto one = stack.bytes.subspan(row * size, size);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

/// gpt-oss' folder with its blocks as MLX lays them: gates and ups apart, codes in words.
fs::path gpt_oss_of_mlx(const fs::path& from) {
  constexpr std::string_view kFused = "gate_up_proj";
  constexpr std::pair<std::string_view, const char*> kParts[] = {
      {"_blocks", ".weight"}, {"_scales", ".scales"}, {"_bias", ".bias"}};
  const fs::path folder = from.parent_path() / "mlx_stacks";
  fs::create_directories(folder);
  Checkpoint model = open_checkpoint(from);
  std::deque<std::vector<std::byte>> made;
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : model.tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) {
      tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
      continue;
    }
    for (const auto& [ending, part] : kParts) {
      if (!tensor.name.ends_with(ending)) continue;
      const std::string matrix = tensor.name.substr(0, tensor.name.size() - ending.size());
      const bool fused = matrix.ends_with(kFused), words = tensor.shape.size() == 4;
      const std::string stem = matrix.substr(0, matrix.size() - kFused.size());
      const std::size_t step = fused ? 2 : 1;
      std::vector<std::int64_t> shape = {tensor.shape[0],
                                         tensor.shape[1] / static_cast<std::int64_t>(step)};
      if (tensor.shape.size() > 2) shape.push_back(tensor.shape[2] * (words ? 4 : 1));
      for (std::size_t first = 0; first < step; ++first) {
        const std::string name = !fused ? matrix : stem + (first == 0 ? "gate_proj" : "up_proj");
        tensors.push_back({name + part, words ? StorageType::i32 : tensor.type, shape,
                           made.emplace_back(some_rows(tensor, first, step))});
      }
    }
  }
  write_safetensors(folder / "model.safetensors", tensors);
  model.metadata.erase("quantization_config");
  model.metadata["quantization"] = {{"group_size", 32}, {"bits", 4}, {"mode", "mxfp4"}};
  std::ofstream(folder / "config.json") << model.metadata;
  return folder;
}

TEST(StacksOfMlx, HoldTheBlocksOfGptOss) {
  const MakerRecording recording = unpack_maker("gpt_oss");
  const fs::path folder = gpt_oss_of_mlx(recording.folder);
  std::vector<float> logits[2];
  for (const bool of_mlx : {false, true}) {
    ModelRun run(of_mlx ? folder : recording.folder, make_reference_backend(2), KvType::f32, 128);
    run.run(recording.sequences[0].ids, 0, [&](int, std::span<const float> row) {
      logits[of_mlx].insert(logits[of_mlx].end(), row.begin(), row.end());
    });
  }
  EXPECT_FALSE(logits[0].empty());
  EXPECT_EQ(logits[0], logits[1]);
}

}  // namespace
}  // namespace talon::quantized_stacks_test
