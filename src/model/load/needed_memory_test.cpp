#include "model/load/needed_memory.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "backend/weight_layout.h"
#include "core/error.h"
#include "model/model.h"

namespace talon::needed_memory_test {
namespace {

const char* const kFolder = TALON_TEST_DATA "/golden/stories260k/target";

std::unique_ptr<Backend> cpu() { return make_cpu_backend({.threads = 1, .pin = false}); }

TEST(NeededMemory, OfAMatrixIsNoMoreThanItsLayoutTakes) {
  constexpr int kRows = 16, kCols = 512;
  const auto backend = cpu();
  for (const StorageType type :
       {StorageType::f32,   StorageType::f16,     StorageType::bf16,   StorageType::q8_0,
        StorageType::q4_0,  StorageType::q4_1,    StorageType::q5_0,   StorageType::q5_1,
        StorageType::q2_k,  StorageType::q3_k,    StorageType::q4_k,   StorageType::q5_k,
        StorageType::q6_k,  StorageType::iq4_nl,  StorageType::iq4_xs, StorageType::iq2_xxs,
        StorageType::mxfp4, StorageType::iq1_s,   StorageType::iq1_m,  StorageType::iq2_xs,
        StorageType::iq2_s, StorageType::iq3_xxs, StorageType::iq3_s,  StorageType::tq1_0,
        StorageType::tq2_0, StorageType::nvfp4}) {
    const BlockShape block = block_shape(type);
    const std::vector<std::byte> zeros(kRows * kCols / block.elements * block.bytes);
    for (const WeightLayout layout : kWeightLayouts) {
      const auto weight = backend->load_weight({"w", type, kRows, kCols, zeros, {}}, layout);
      const std::size_t least = least_bytes(type, layout, kRows * kCols);
      EXPECT_LE(least, weight->bytes) << name_of(type) << " as " << name_of(layout);
      EXPECT_GT(least, 0U) << name_of(type) << " as " << name_of(layout);
    }
  }
}

TEST(NeededMemory, OfAModelIsMostOfItsWeightsAndNoMore) {
  for (const char* path : {kFolder, TALON_TEST_DATA "/models/stories260K.bin"}) {
    const Checkpoint checkpoint = open_checkpoint(path);
    const auto backend = cpu();
    for (const WeightLayout layout : kWeightLayouts) {
      LoadOptions options;
      options.layout = layout;
      const Model model = load_model(checkpoint, *backend, options);
      const std::size_t table = model.config.tied_output ? 0 : model.embedding->bytes;
      const std::size_t least = least_weight_bytes(checkpoint, model.config, layout);
      EXPECT_LE(least, model.weight_bytes + table) << path << " as " << name_of(layout);
      EXPECT_GT(3 * least, model.weight_bytes + table) << path << " as " << name_of(layout);
    }
  }
}

TEST(NeededMemory, ThatIsNotThereIsAnErrorBeforeAnythingIsLoaded) {
  Checkpoint checkpoint = open_checkpoint(kFolder);
  const auto backend = make_reference_backend(1);
  for (StoredTensor& tensor : checkpoint.tensors) {
    if (tensor.name == "model.layers.1.mlp.up_proj.weight") tensor.shape = {1 << 25, 1 << 25};
  }
  try {
    load_model(checkpoint, *backend);
    FAIL() << "two pebibytes were loaded";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(std::string("load ") + kFolder + ": weights: ")) << message;
    EXPECT_NE(message.find(" MiB, the memory that is available, found 21474836"), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace talon::needed_memory_test
